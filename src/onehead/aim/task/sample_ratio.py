"""The sample ratio, declared as a parameter."""

from onehead.fields import parameter
from onehead.problem import Problem


class Ratio(Problem):
    """Amount of training data, as a sample ratio."""

    alpha: float = parameter(
        ...,
        "α = n/d²",
        "Sample ratio: number of samples divided by the squared dimension.",
        label="Sample ratio",
        gt=0.0,
        le=1e6,
    )


def check_alpha(alpha: float) -> float:
    """Return the sample ratio α = n/d² if it is allowed, else raise `InvalidArgument`."""
    return Ratio(alpha=alpha).alpha
