"""The straightforward ways of this field, written as one would write them first: what our solvers are measured
against.
"""
