"""The best possible learner in a picture of errors: its line, its number, or the sentence why there is none."""

from collections.abc import Sequence
from typing import Any

from onehead import aim
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, line
from onehead.app.views.base import KNOWN, POSSIBLE, Number, numbers
from onehead.errors import InvalidArgument

__all__ = ["NONE", "beside_best", "best_error", "best_line", "best_numbers", "not_known", "without_best"]

NONE = "No line of the best possible learner: {}"


def best_line(x: Sequence[float], y: Sequence[float], **more: Any) -> Figure:
    """The line of the best possible learner, the same in every picture."""
    return line(x, y, POSSIBLE, colour="@ink", dash="dot", width=1.6, **more)


def not_known(task: Task, learner: Learner) -> str:
    """Why the best possible learner beside a head is not known, as a sentence; nothing where it is.

    Examples
    --------
    >>> not_known(Task(), Learner())
    ''
    >>> print(not_known(Task(labels="hard"), Learner(loss="cross-entropy")))
    labels must be soft: the best possible learner of drawn labels is not known; got 'hard'.
    """
    from onehead.aim.verbs.bayes import check_beside, check_known  # noqa: PLC0415  (loads the theory)

    try:
        check_known(task)
        check_beside(task, learner)
    except InvalidArgument as refusal:
        return str(refusal)
    return ""


def without_best(task: Task, learner: Learner) -> str:
    """The same as a sentence under a picture."""
    sentence = not_known(task, learner)
    return NONE.format(sentence) if sentence else ""


def beside_best(caption: str, task: Task, learner: Learner) -> str:
    """A caption, and the sentence why the best possible learner is not in the picture, if it is not."""
    return " ".join(part for part in (caption, without_best(task, learner)) if part)


def best_error(task: Task, alpha: float) -> float | None:
    """The best possible test error, if it is known."""
    from onehead.aim.sketch.derived import best_error as known  # noqa: PLC0415  (loads the theory)

    return known(task, alpha) if task.best_known else None


def best_numbers(task: Task, learner: Learner, alpha: float) -> tuple[Number, ...]:
    """The line of the panel, if it is known."""
    if not_known(task, learner):
        return ()
    return numbers(aim.bayes(task, alpha), ("Best possible", "", "test_error", KNOWN))
