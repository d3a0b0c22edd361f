"""Drafts: predictions within a tenth of a second on the coarsest quadrature rule, drawn while a slider moves.

They have no certificate and their numbers are not shown; `onehead.aim.verbs` computes those. `curves` solves the
equations, `derived` computes what pictures derive from the solutions.
"""
