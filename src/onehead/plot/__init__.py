"""Pictures of results. Every function takes results and axes, computes nothing, and returns the axes."""

from onehead.plot.aim import learning_curve, spectrum, tuning
from onehead.plot.scaling import features, phases, predicted_exponents, scaling
from onehead.plot.sparse import alignment, capacity, error_curve, landscape, oracle, tuned
from onehead.plot.style import ACCENT, GREY, THEORY, TRAINING, fresh_axes, save
from onehead.plot.training import comparison, message_passing, trained_spectrum, training_points
from onehead.plot.weights import head_pages, head_spectrum, survey_map

__all__ = [
    "ACCENT",
    "GREY",
    "THEORY",
    "TRAINING",
    "alignment",
    "capacity",
    "comparison",
    "error_curve",
    "features",
    "fresh_axes",
    "head_pages",
    "head_spectrum",
    "landscape",
    "learning_curve",
    "message_passing",
    "oracle",
    "phases",
    "predicted_exponents",
    "save",
    "scaling",
    "spectrum",
    "survey_map",
    "trained_spectrum",
    "training_points",
    "tuned",
    "tuning",
]
