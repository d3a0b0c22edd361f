"""Public functions on sparse tokens, one module per question; each solves the theory and returns a typed result.

Functions that sample finite data are in `training`.
"""
