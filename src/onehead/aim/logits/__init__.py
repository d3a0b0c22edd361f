"""Logits of a sample: blocks of rows and their covariances, quadrature rules over them, control variates, long rows.

Everything that depends on the number of tokens and on the mask belongs here. The proximal operator and the equations do
not: see `onehead.aim.kernels` and `onehead.aim.theory`.
"""
