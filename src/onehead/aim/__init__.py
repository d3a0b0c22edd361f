"""The attention-indexed model: an attention head trained with weight decay on synthetic sequences."""

from onehead.lazy import lazy_room

__getattr__, __dir__, __all__ = lazy_room(__name__, __file__, old_names={"Channel": "Loss"})
