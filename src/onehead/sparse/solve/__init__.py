"""Solvers of the equations in `theory`: order parameters of a readout, capacity, and the Bayes-optimal overlap.

Formulas belong to `theory`; choices of accuracy and results for users belong to `verbs`.
"""
