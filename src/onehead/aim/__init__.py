"""The attention-indexed model: a tied attention head trained with weight decay on synthetic sequences."""

from onehead.aim.curve import Curve, curve
from onehead.aim.loss import Channel, CrossEntropy, Squared, softmax
from onehead.aim.prediction import Prediction
from onehead.aim.spectrum import Spectrum, spectrum
from onehead.aim.targets import MarchenkoPastur, Target
from onehead.aim.task import Learner, Task
from onehead.aim.theory import predict
from onehead.aim.thresholds import Plateau, Thresholds, plateau, thresholds
from onehead.aim.tune import Tuned, tune

__all__ = [
    "Channel",
    "CrossEntropy",
    "Curve",
    "Learner",
    "MarchenkoPastur",
    "Plateau",
    "Prediction",
    "Spectrum",
    "Squared",
    "Target",
    "Task",
    "Thresholds",
    "Tuned",
    "curve",
    "plateau",
    "predict",
    "softmax",
    "spectrum",
    "thresholds",
    "tune",
]
