"""The attention-indexed model: a tied attention head trained with weight decay on synthetic sequences."""

from onehead.aim.amp import AmpResult, amp
from onehead.aim.compare import Comparison, compare
from onehead.aim.curve import Curve, curve
from onehead.aim.loss import Channel, CrossEntropy, Squared, softmax
from onehead.aim.nuclear import NuclearEquivalence, nuclear_equivalence
from onehead.aim.prediction import Prediction
from onehead.aim.spectrum import Spectrum, spectrum
from onehead.aim.targets import Atoms, MarchenkoPastur, PowerLaw, Spikes, Target
from onehead.aim.task import Learner, Task
from onehead.aim.theory import predict
from onehead.aim.thresholds import Plateau, Thresholds, plateau, thresholds
from onehead.aim.train import train
from onehead.aim.training import Method, TrainingResult, Variant
from onehead.aim.tune import Tuned, tune

__all__ = [
    "AmpResult",
    "Atoms",
    "Channel",
    "Comparison",
    "CrossEntropy",
    "Curve",
    "Learner",
    "MarchenkoPastur",
    "Method",
    "NuclearEquivalence",
    "Plateau",
    "PowerLaw",
    "Prediction",
    "Spectrum",
    "Spikes",
    "Squared",
    "Target",
    "Task",
    "Thresholds",
    "TrainingResult",
    "Tuned",
    "Variant",
    "amp",
    "compare",
    "curve",
    "nuclear_equivalence",
    "plateau",
    "predict",
    "softmax",
    "spectrum",
    "thresholds",
    "train",
    "tune",
]
