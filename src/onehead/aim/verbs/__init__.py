"""Public functions of the attention-indexed model, one module each: predict, curve, tune, spectrum and the others.

A verb checks its arguments, asks `onehead.aim.solve` for solutions and returns a result with a certificate. Equations
belong to `onehead.aim.theory`, training to `onehead.aim.training`.
"""
