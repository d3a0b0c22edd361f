"""Task and Learner: what is learned, and the head that learns it; theory and training both start from them."""

from onehead.aim.task.coverage import AS_QUERIES, GAUSSIAN_KURTOSIS, MAX_LOGITS
from onehead.aim.task.learner import Learner
from onehead.aim.task.sample_ratio import Ratio, check_alpha
from onehead.aim.task.task import Task

__all__ = ["AS_QUERIES", "GAUSSIAN_KURTOSIS", "MAX_LOGITS", "Learner", "Ratio", "Task", "check_alpha"]
