"""Old names that keep working through 2.x, each with a warning that says the new one."""

import warnings

__all__ = ["renamed"]


def renamed(old: str, new: str, *, depth: int = 1) -> None:
    """Warn whoever uses an old form; ``depth``: how many calls of ours lie between this one and theirs.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("always")
    ...     renamed("Landscape.rows()", "Landscape.to_rows()")
    >>> print(heard[0].message)
    Landscape.rows() is now Landscape.to_rows(); the old form goes in 3.0.
    """
    warnings.warn(f"{old} is now {new}; the old form goes in 3.0.", DeprecationWarning, stacklevel=depth + 2)
