"""Query-key spectra of real checkpoints, compared with random heads and with the predicted laws of trained heads.

Reading of files belongs to `onehead.weights.checkpoint`, drawing to `onehead.plot`.
"""

from onehead.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__, old_names={"Course": "Trajectory", "WORDS": "VERDICTS"})
