"""``onehead cite``: what to cite, ready for a bibliography."""

import click

from onehead.citation import cite
from onehead.cli.terminal import say

__all__ = ["command"]


@click.command()
def command() -> None:
    """What to cite, as BibTeX: onehead, and the two papers whose theory it computes.

    Example: onehead cite >> references.bib
    """
    say(*cite().splitlines())
