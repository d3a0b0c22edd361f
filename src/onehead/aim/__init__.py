"""The attention-indexed model: a tied attention head trained with weight decay on synthetic sequences.

Names are loaded when first used: describing a problem costs nothing, solving one loads the compiled kernels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onehead.aim.loss import Channel, CrossEntropy, Squared, softmax
    from onehead.aim.prediction import Prediction
    from onehead.aim.targets import MarchenkoPastur, Target
    from onehead.aim.task import Learner, Task
    from onehead.aim.theory import predict

_HOMES = {
    "Task": "task",
    "Learner": "task",
    "Target": "targets",
    "MarchenkoPastur": "targets",
    "Channel": "loss",
    "Squared": "loss",
    "CrossEntropy": "loss",
    "softmax": "loss",
    "Prediction": "prediction",
    "predict": "theory",
}

__all__ = [  # noqa: PLE0604, F822  (names are resolved by __getattr__)
    "Channel",
    "CrossEntropy",
    "Learner",
    "MarchenkoPastur",
    "Prediction",
    "Squared",
    "Target",
    "Task",
    "predict",
    "softmax",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"onehead.aim.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'onehead.aim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
