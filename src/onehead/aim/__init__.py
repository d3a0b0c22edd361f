"""The attention-indexed model: a tied attention head trained with weight decay on synthetic sequences."""

from onehead.aim.amp import AmpResult, amp
from onehead.aim.compare import Comparison, compare
from onehead.aim.curve import Curve, curve
from onehead.aim.decompose import Decomposition, decompose
from onehead.aim.loss import Channel, CrossEntropy, Squared, softmax
from onehead.aim.nuclear import NuclearEquivalence, nuclear_equivalence
from onehead.aim.phases import PhaseDiagram, phase_diagram
from onehead.aim.prediction import Prediction
from onehead.aim.scaling import Feature, Scaling, features, scaling
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
    "Decomposition",
    "Feature",
    "Learner",
    "MarchenkoPastur",
    "Method",
    "NuclearEquivalence",
    "PhaseDiagram",
    "Plateau",
    "PowerLaw",
    "Prediction",
    "Scaling",
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
    "decompose",
    "features",
    "nuclear_equivalence",
    "phase_diagram",
    "plateau",
    "predict",
    "scaling",
    "softmax",
    "spectrum",
    "thresholds",
    "train",
    "tune",
]
