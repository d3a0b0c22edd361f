"""Numerical version of the library, which is part of the key of every stored point."""

NUMERICAL = "8"
"""Raised by one whenever a published number changes (see "Numerical changes" in the changelog).

It is part of the key of every point: after such a change stored points are no longer found and are solved again. A
release that only adds parameters keeps every stored point valid: a parameter declared with the version it came with
(``since`` of `onehead.fields.parameter`) does not enter the key while it is at its default.
"""
