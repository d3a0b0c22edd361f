"""The one way to the terminal: every line of every command passes through here, and so does what others wrote."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

import click

from onehead.text import visible

__all__ = ["note", "say", "spoken"]


def say(*lines: str) -> None:
    """Print lines on standard output; a line break inside one of them, as in the name of a file, is written out."""
    click.echo("\n".join(visible(line) for line in lines), file=sys.stdout)


def note(*lines: str) -> None:
    """Say something on standard error."""
    click.echo("\n".join(visible(line) for line in lines), file=sys.stderr)


@contextmanager
def spoken() -> Iterator[None]:
    """Let both streams take any letter, written out where their encoding has none, and say warnings in one line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        yield


def _warn(message: Any, *_: Any, **__: Any) -> None:
    note(f"note: {message}")
