"""Query-key spectra of real checkpoints, laid beside the predicted law of a trained head."""

from onehead.lazy import lazy_room

__getattr__, __dir__, __all__ = lazy_room(__name__, __file__)
