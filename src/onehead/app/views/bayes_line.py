"""The best possible (Bayes-optimal) learner in pictures of errors: its curve, its number, or why it is missing."""

from collections.abc import Sequence
from typing import Any

from onehead import aim
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, line
from onehead.app.refusals import explain
from onehead.app.views.base import BEST_POSSIBLE, BEST_POSSIBLE_MEANING, Number, numbers
from onehead.errors import InvalidArgument

NO_BEST_LINE = "The best possible learner is not drawn. {}"


def best_line(x: Sequence[float], y: Sequence[float], **more: Any) -> Figure:
    """Return the curve of the best possible learner, in the same style in every picture."""
    return line(x, y, BEST_POSSIBLE, colour="@ink", dash="dot", width=1.6, **more)


def why_unknown(task: Task, learner: Learner) -> str:
    """Return why the best possible learner to compare a head with is not known; empty where it is known.

    Examples
    --------
    >>> why_unknown(Task(), Learner())
    ''
    >>> print(why_unknown(Task(labels="hard"), Learner(loss="cross-entropy")))
    Labels must be soft: the best possible learner is not known for hard labels (now hard).
    >>> print(why_unknown(Task(attention="cross", heads=2), Learner()))
    Heads H must be 1: the best possible learner is not known otherwise (now 2).
    """
    from onehead.aim.verbs.bayes import check_bayes_comparison, check_bayes_known  # loads the theory

    try:
        check_bayes_known(task)
        check_bayes_comparison(task, learner)
    except InvalidArgument as refusal:
        if task.supported_by("bayes"):
            return explain(refusal)
        # the sentence of the library lists the functions that take other values, which the page does not show
        allowed = f"{refusal.allowed.partition(' for bayes')[0]}: the best possible learner is not known otherwise"
        return explain(InvalidArgument(refusal.name, refusal.got, allowed))
    return ""


def missing_line_note(task: Task, learner: Learner) -> str:
    """Return the note of a caption that says why the best possible learner is missing; empty where it is not."""
    sentence = why_unknown(task, learner)
    return NO_BEST_LINE.format(sentence) if sentence else ""


def with_missing_line_note(caption: str, task: Task, learner: Learner) -> str:
    """Add to a caption why the best possible learner is missing from the picture, if it is."""
    return " ".join(part for part in (caption, missing_line_note(task, learner)) if part)


def best_error(task: Task, alpha: float) -> float | None:
    """Return the best possible test error, or None where it is not known."""
    from onehead.app.drafts.derived import bayes_error  # loads the theory

    return bayes_error(task, alpha) if task.bayes_known else None


def best_numbers(task: Task, learner: Learner, alpha: float) -> tuple[Number, ...]:
    """Return the best possible test error as a row of the table of numbers; empty where it is not known."""
    if why_unknown(task, learner):
        return ()
    return numbers(aim.bayes(task, alpha), ("Best possible", "", "test_error", BEST_POSSIBLE_MEANING))
