"""Mutants that survived, were looked at, and change no result that is promised: key -> why."""

__all__ = ["EXPLAINED"]

EXPLAINED: dict[str, str] = {}
