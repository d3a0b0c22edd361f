"""Pictures of results. Every function takes results and axes, computes nothing, and returns the axes."""

from onehead.lazy import lazy_room

__getattr__, __dir__, __all__ = lazy_room(__name__, __file__, old_names={"landscape": "heat_map"})
