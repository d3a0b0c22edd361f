"""Sparse-token classification (arXiv 2509.25153): attention against pooled and vectorised linear classifiers.

A positive sequence carries a weak signal in a few random tokens. `predict` gives the errors of the three
models without training, `train` measures them; `align`, `oracle`, `capacity`, `tune` and `map` answer
the questions around them.
"""

from onehead.lazy import lazy_room

__getattr__, __dir__, __all__ = lazy_room(__name__, __file__, old_names={"landscape": "map", "Landscape": "SparseMap"})
