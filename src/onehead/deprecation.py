"""Warnings about old names and old forms of calls that still work."""

import warnings

__all__ = ["warn_renamed"]


def warn_renamed(old: str, new: str, *, removed_in: str = "4.0", depth: int = 1) -> None:
    """Warn that a name or a form of a call is deprecated.

    Parameters
    ----------
    old, new : str
        The deprecated form and its replacement, as they stand in the caller's code.
    removed_in : str
        Version of onehead in which the old form stops working.
    depth : int
        Number of calls inside onehead between this one and the user's code, at which the warning points.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_renamed("Landscape.rows()", "Landscape.to_rows()", removed_in="3.0")
    >>> print(caught[0].message)
    Landscape.rows() is now Landscape.to_rows(); the old form goes in 3.0.
    """
    warnings.warn(f"{old} is now {new}; the old form goes in {removed_in}.", DeprecationWarning, stacklevel=depth + 2)
