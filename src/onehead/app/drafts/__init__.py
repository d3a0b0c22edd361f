"""Drafts: predictions within a tenth of a second, drawn while a slider moves.

They have no certificate and their numbers are not shown; `onehead.aim.verbs` and `onehead.sparse` compute those. The
solutions come from the solvers in draft quality (`onehead.aim.solve.draft`, and `onehead.sparse.solve.readout` on few
sample points). Here are the starts from earlier drafts (`curves`, `sparse`), and what pictures derive from them
(`derived`).
"""
