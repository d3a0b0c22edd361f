"""Schedule of the learning rate, and the time of gradient descent that has passed at a step. PyTorch is not needed."""

from studies.real_heads.runs import Run

__all__ = ["descent_time", "rate_at"]

WARM_UP = 0.05  # share of the steps in which the rate grows
DECAY_START = 0.5  # share of the steps after which the rate decreases linearly to zero


def rate_at(run: Run, step: int) -> float:
    """Return the learning rate: warm-up, constant, and linear decrease to zero."""
    return run.rate * min(1.0, (step + 1) / (WARM_UP * run.steps), (1.0 - step / run.steps) / (1.0 - DECAY_START))


def descent_time(run: Run, step: int) -> float:
    """Return the sum of the rates of plain gradient descent before a step."""
    return sum(rate_at(run, before) for before in range(step)) * run.descent / run.rate
