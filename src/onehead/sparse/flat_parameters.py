"""Numerical parameters by name, any two of which span a map: those of task and protocol, and totals of both samples."""

from onehead.fields import parameter, parameters_of
from onehead.problem import Problem
from onehead.sparse.task import Protocol, Task


class SampleSplit(Problem):
    """Total sample ratio and its split between query and readout, as parameters of a map."""

    alpha: float = parameter(..., "α = n/d", "All samples over dimension, alpha0 + alpha1.", gt=0.0)
    split: float = parameter(..., "α₀/α", "Share of the samples used for the query.", gt=0.0, lt=1.0)


NUMERICAL = ("number", "integer")  # kinds of parameters that an axis can have
SPLIT_PARAMETERS = parameters_of(SampleSplit)
TASK_PARAMETERS = {name: item for name, item in parameters_of(Task).items() if item.kind in NUMERICAL}
PROTOCOL_PARAMETERS = {
    name: item
    for name, item in parameters_of(Protocol).items()
    if item.kind in NUMERICAL and not item.verbs  # a map predicts the two stages
}
PARAMETERS = {**SPLIT_PARAMETERS, **TASK_PARAMETERS, **PROTOCOL_PARAMETERS}

# parameters of the query, which the linear models do not have
QUERY_PARAMETERS = ("beta", "eta_w", "eta_b", "eta_q", "cos_query", "sharpness")
# parameters on which the answer of a verb does not depend; its command refuses them
UNUSED_PARAMETERS: dict[str, tuple[str, ...]] = {
    "align": ("alpha1", "ridge", "cos_query", "sharpness"),
    "amp": (*QUERY_PARAMETERS, "loss", "ridge"),
    "bayes": (*QUERY_PARAMETERS, "loss", "ridge"),
    "capacity": ("alpha1", "ridge"),
    "descend": ("cos_query", "sharpness"),
    "joint": ("eta_w", "eta_b", "eta_q", "cos_query", "sharpness"),
    "oracle": tuple(parameters_of(Protocol)),
}
