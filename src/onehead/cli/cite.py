"""``onehead cite``: what to cite, ready for a bibliography."""

import click

from onehead import __version__
from onehead.cli.terminal import say

__all__ = ["command"]

ENTRIES = (
    (
        "software",
        "onehead",
        {
            "author": "{The onehead developers}",
            "title": "{onehead: one attention head, solved exactly}",
            "version": __version__,
            "year": "2026",
        },
    ),
    (
        "misc",
        "boncoraglio2025singlehead",
        {
            "author": "Fabrizio Boncoraglio and Vittorio Erba and Emanuele Troiani and Yizhou Xu and Florent Krzakala and "
            "Lenka Zdeborov{\\'a}",
            "title": "{Single-Head Attention in High Dimensions: A Theory of Generalization, Weights Spectra, and Scaling Laws}",
            "year": "2025",
            "eprint": "2509.24914",
            "archiveprefix": "arXiv",
        },
    ),
    (
        "misc",
        "barnfield2025sparse",
        {
            "author": "Nicholas Barnfield and Hugo Cui and Yue M. Lu",
            "title": "{High-Dimensional Analysis of Single-Layer Attention for Sparse-Token Classification}",
            "year": "2025",
            "eprint": "2509.25153",
            "archiveprefix": "arXiv",
        },
    ),
)


@click.command()
def command() -> None:
    """What to cite, as BibTeX: onehead, and the two papers whose theory it computes.

    Example: onehead cite >> references.bib
    """
    for kind, key, fields in ENTRIES:
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
        say(f"@{kind}{{{key},", *lines, "}")
