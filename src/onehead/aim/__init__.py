"""The attention-indexed model: an attention head trained with weight decay on synthetic sequences."""

from onehead.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
