"""Predictions for one attention head, from the exact theory of the high-dimensional limit.

Test errors, spectra of the trained weights, thresholds and best hyperparameters follow from a few equations, without
training; `train` and `compare` check them against heads that are trained.

Examples
--------
>>> from onehead import aim
>>> point = aim.predict(aim.Task(noise=0.5), aim.Learner(weight_decay=0.01), alpha=0.5)
>>> round(point.test_error, 3), point.status
(0.136, 'converged')

Submodules
----------
aim
    An attention head that learns an attention matrix: the attention-indexed model (arXiv 2509.24914).
sparse
    Classification of sequences with few informative tokens (arXiv 2509.25153).
weights
    Spectra of query and key weights in checkpoints of transformers.
sweep
    Many problems at once, with a store that survives interruptions.
plot
    Figures of results.
errors
    All exceptions that onehead raises on purpose.

Submodules are loaded on first use, so that ``import onehead`` takes a few milliseconds. ``onehead.cite()`` returns
BibTeX entries.
"""

from importlib import import_module

__version__ = "3.0.0.dev0"

__all__ = ["__version__", "aim", "cite", "errors", "plot", "sparse", "sweep", "weights"]

_SUBMODULES = ("aim", "errors", "plot", "sparse", "sweep", "weights")


# the stub is not read here, as `onehead.lazy` would: the shell imports this module before everything else
def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return import_module(f"onehead.{name}")
    if name == "cite":
        return import_module("onehead.citation").cite
    close = import_module("onehead.sanitize").did_you_mean(name, __all__)
    raise AttributeError(f"module 'onehead' has no attribute {name!r}{close}; it has {', '.join(__all__[1:])}")


def __dir__() -> list[str]:
    return list(__all__)
