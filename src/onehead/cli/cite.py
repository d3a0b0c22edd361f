"""``onehead cite``: references as BibTeX."""

import click

from onehead.citation import cite
from onehead.cli.rendering.terminal import print_lines


@click.command()
def command() -> None:
    """References to cite, as BibTeX: onehead, and the two papers whose theory it computes.

    Example: onehead cite >> references.bib
    """
    print_lines(*cite().splitlines())
