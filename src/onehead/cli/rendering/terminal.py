"""The only functions that write to the terminal; they escape control characters in text of others."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

import click

from onehead.sanitize import visible


def print_lines(*lines: str) -> None:
    """Print lines on standard output; a line break inside one of them, as in a file name, is escaped."""
    click.echo("\n".join(visible(line) for line in lines), file=sys.stdout)


def note(*lines: str) -> None:
    """Print lines on standard error; a line break inside one of them is escaped."""
    click.echo("\n".join(visible(line) for line in lines), file=sys.stderr)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Escape characters that the encoding of a stream lacks, and print warnings as one line each."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        yield


def _print_warning(message: Any, *_: Any, **__: Any) -> None:
    note(f"note: {message}")
