"""Where to read on: papers, pages of the documentation, code.

Every address is declared once: those of the papers where they are cited, those of the project in its metadata (``project.urls`` of
``pyproject.toml``: Documentation, Source). Where the project has none, its files are named instead.
"""

from collections.abc import Iterator
from html import escape
from importlib.metadata import PackageNotFoundError, metadata

from onehead.citation import ENTRIES

__all__ = ["READING", "papers", "project_urls", "reading_list"]

# view -> pages of the documentation that belong to it, with their titles, and the code behind it
READING: dict[str, tuple[dict[str, str], str]] = {
    "head": ({"start": "Start here", "theory": "The attention-indexed model"}, "aim"),
    "curve": ({"aim": "Learning curves", "best": "How far from the best?"}, "aim"),
    "spectrum": ({"guides/spectrum": "Reading a spectrum", "theory": "The attention-indexed model"}, "aim"),
    "decay": ({"guides/decay": "How much weight decay"}, "aim"),
    "map": ({"guides/data": "How much data", "guides/decay": "How much weight decay"}, "aim"),
    "scaling": ({"scaling": "Scaling laws", "theory-power": "When logits are not Gaussian"}, "aim"),
    "sparse": ({"sparse": "Sparse tokens", "theory-sparse": "Sparse tokens"}, "sparse"),
    "checkpoint": ({"checkpoints": "Real checkpoints", "real-heads": "Real heads"}, "weights"),
}
EVERYWHERE = {"explorer": "The explorer"}


def papers() -> dict[str, str]:
    """The papers whose theory this is, and their addresses.

    Examples
    --------
    >>> list(papers().values())
    ['https://arxiv.org/abs/2509.24914', 'https://arxiv.org/abs/2509.25153']
    """
    own = [fields for kind, _, fields in ENTRIES if kind == "misc"]
    return {f"{fields['title'].strip('{}')} (arXiv {fields['eprint']})": fields["url"] for fields in own}


def project_urls() -> dict[str, str]:
    """The addresses that the project declares, by their names in small letters."""
    try:
        declared = metadata("onehead").get_all("Project-URL") or []
    except PackageNotFoundError:
        return {}
    pairs = (line.partition(",") for line in declared)
    return {name.strip().lower(): url.strip() for name, _, url in pairs if url.strip().startswith("https://")}


def reading_list(documentation: str = "") -> str:
    """The list of the page; ``documentation`` is where its pages are found, if not where the project says."""
    urls = project_urls()
    return "".join(_items(documentation or urls.get("documentation", ""), urls.get("source", "")))


def _items(documentation: str, source: str) -> Iterator[str]:
    for title, address in papers().items():
        yield _item(title, address)
    shown: dict[tuple[str, str], list[str]] = {}
    for view, (pages, room) in READING.items():
        for page, title in (pages | EVERYWHERE).items():
            shown.setdefault((page, title), []).append(view)
        shown.setdefault((f"src/onehead/{room}", "Code"), []).append(view)
    for (place, title), views in shown.items():
        code = place.startswith("src/")
        base, name = (source, place) if code else (documentation, f"{place}.html")
        file = place if code else f"docs/{place}.md"
        told = f"Theory: {title}" if place.startswith("theory") else title
        yield _item(told, f"{base.rstrip('/')}/{name}" if base else "", file, " ".join(views))


def _item(title: str, address: str, file: str = "", views: str = "") -> str:
    """A link, or the name of a file where there is no address."""
    own = f' data-views="{views}"' if views else ""
    if not address:
        return f"<li{own}>{escape(title)}: <code>{escape(file)}</code></li>"
    return f'<li{own}><a href="{escape(address)}" target="_blank" rel="noopener noreferrer">{escape(title)}</a></li>'
