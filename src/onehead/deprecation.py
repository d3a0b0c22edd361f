"""Warnings about old names and old forms of calls that still work."""

import sys
import warnings

REMOVED_IN = "4.0"  # version of onehead in which old forms stop working


def depth_of_caller() -> int:
    """Return the ``stacklevel`` with which a warning points at the first frame outside of onehead."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("onehead."):
        frame, depth = frame.f_back, depth + 1
    return depth


def warn_renamed(old: str, new: str) -> None:
    """Warn that a name or a form of a call is deprecated; the warning points at the code that uses it.

    Parameters
    ----------
    old, new : str
        The deprecated form and its replacement, as they stand in the caller's code.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_renamed("weights.Course", "weights.Trajectory")
    >>> print(caught[0].message)
    weights.Course is now weights.Trajectory; the old form goes in 4.0.
    """
    sentence = f"{old} is now {new}; the old form goes in {REMOVED_IN}."
    warnings.warn(sentence, DeprecationWarning, stacklevel=depth_of_caller())
