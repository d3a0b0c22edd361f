"""Which numbers a stored point holds: the numerical version, part of every key."""

__all__ = ["NUMERICAL"]

NUMERICAL = "7"
"""Raised by one whenever a published number changes (see "Numerical changes" in the changelog).

It is part of the key of every point: after such a change stored points are no longer found and are solved again. A release
that only adds things keeps every stored point valid: a word that is declared with the version it came with (``since`` of
`onehead.fields.word`) is no part of the key while it is at its default.
"""
