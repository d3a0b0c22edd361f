"""Equations of sparse-token classification: alignment, features, order parameters, oracles and the Bayes rule.

Each module evaluates formulas of docs/theory-sparse.md or of part B of docs/theory-bayes.md. Solvers belong to `solve`,
public functions to `verbs`, finite samples to `training`.
"""
