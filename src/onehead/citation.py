"""BibTeX entries of onehead and of the papers whose theory it computes."""

from onehead.sanitize import Unquoted

ENTRIES = (
    (
        "software",
        "onehead",
        {
            "author": "{The onehead developers}",
            "title": "{onehead: one attention head, solved exactly}",
            "version": "",  # filled in by `cite`
            "year": "2026",
        },
    ),
    (
        "misc",
        "boncoraglio2025singlehead",
        {
            "author": "Fabrizio Boncoraglio and Vittorio Erba and Emanuele Troiani and Yizhou Xu and Florent Krzakala "
            "and "
            "Lenka Zdeborov{\\'a}",
            "title": "{Single-Head Attention in High Dimensions: A Theory of Generalization, Weights Spectra, and "
            "Scaling Laws}",
            "year": "2025",
            "eprint": "2509.24914",
            "url": "https://arxiv.org/abs/2509.24914",
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
            "url": "https://arxiv.org/abs/2509.25153",
            "archiveprefix": "arXiv",
        },
    ),
)


def cite() -> str:
    """Return BibTeX entries of onehead and of the two papers whose theory it computes.

    Examples
    --------
    >>> import onehead
    >>> print(onehead.cite().splitlines()[0])
    @software{onehead,
    """
    from onehead import __version__  # the package imports this module

    texts = []
    for kind, key, fields in ENTRIES:
        lines = [f"  {name} = {{{__version__ if name == 'version' else value}}}," for name, value in fields.items()]
        texts.append("\n".join([f"@{kind}{{{key},", *lines, "}"]))
    return Unquoted("\n".join(texts))
