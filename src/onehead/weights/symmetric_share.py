"""Symmetric share that the theory predicts for a trained head, for comparison with that of a real one (U5).

The logit of a token with itself depends on the symmetric part of the map alone. Self-attention therefore learns the two
parts to different degrees, and the share q_s/(q_s + q_a) of the squared norm in the symmetric part differs from one
half even if the target prefers neither part.
"""

from onehead.aim.verbs.predict import Prediction
from onehead.validation import checked, instance

# smallest and largest share predicted for a target that prefers neither part: two tokens, soft and hard labels, with
# and without a causal mask, α from 0.3 to 10, λ from 0.005 to 0.1
NEUTRAL_SHARE_RANGE = (0.30, 0.59)


@checked(point=instance(Prediction, "the answer of predict"))
def predicted_share(point: Prediction) -> float:
    """Return the part of the squared norm of a predicted map that lies in its symmetric part.

    Parameters
    ----------
    point : Prediction
        Result of `onehead.aim.predict`.

    Returns
    -------
    float
        Symmetric share: 1 for a tied head, 1/2 for cross-attention.

    Raises
    ------
    InvalidArgument
        If ``point`` is not a prediction.

    Examples
    --------
    >>> from onehead.aim import Learner, Task, predict
    >>> causal = Task(attention="self", mask="causal")
    >>> round(predicted_share(predict(causal, Learner(weight_decay=0.02), alpha=2.0)), 2)
    0.47
    """
    if point.task.attention == "tied":
        return 1.0
    parts = point.sectors.get("q") if point.sectors else None
    return 0.5 if parts is None else float(parts[0] / (parts[0] + parts[1]))
