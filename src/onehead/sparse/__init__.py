"""Sparse-token classification (arXiv 2509.25153): attention against pooled and vectorised linear classifiers.

A positive sequence carries a weak signal in a few random tokens. `predict` computes the errors of the three models
without training, `train` measures them on finite samples. `align`, `oracle`, `capacity`, `bayes`, `tune` and `map`
answer further questions. Names are loaded on first use.
"""

from onehead.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
