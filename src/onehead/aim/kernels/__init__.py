"""Compiled sums over quadrature nodes. Imports `onehead.numerics` only: no task, no learner, no solver."""
