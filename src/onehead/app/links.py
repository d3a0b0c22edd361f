"""Links to papers, documentation pages and source code.

Addresses of papers come from `onehead.citation`, those of the project from its metadata (``project.urls`` of
``pyproject.toml``: Documentation, Source). Where the project declares none, the file is named instead.
"""

from collections.abc import Iterator
from html import escape
from importlib.metadata import PackageNotFoundError, metadata

from onehead.citation import ENTRIES

# view -> documentation pages that belong to it, with their titles, and the subpackage that computes it
READING_LIST: dict[str, tuple[dict[str, str], str]] = {
    "head": ({"start": "Start here", "theory": "Theory: the basic model"}, "aim"),
    "curve": ({"aim": "Learning curves", "best": "The best possible learner"}, "aim"),
    "spectrum": ({"guides/spectrum": "Reading a spectrum", "theory": "Theory: the basic model"}, "aim"),
    "time": ({"theory-several": "Several heads"}, "aim"),
    "decay": ({"guides/decay": "How much weight decay"}, "aim"),
    "map": ({"guides/data": "How much data", "guides/decay": "How much weight decay"}, "aim"),
    "scaling": ({"scaling": "Scaling laws", "theory-power": "When logits are not Gaussian"}, "aim"),
    "sparse": ({"sparse": "Sparse tokens", "theory-sparse": "Sparse tokens"}, "sparse"),
    "checkpoint": ({"checkpoints": "Real checkpoints", "real-heads": "Real heads"}, "weights"),
}
ON_EVERY_VIEW = {"explorer": "The explorer"}


def papers() -> dict[str, str]:
    """Return the papers that the theory comes from, title -> address.

    Examples
    --------
    >>> list(papers().values())
    ['https://arxiv.org/abs/2509.24914', 'https://arxiv.org/abs/2509.25153']
    """
    own = [fields for kind, _, fields in ENTRIES if kind == "misc"]
    return {f"{fields['title'].strip('{}')} (arXiv {fields['eprint']})": fields["url"] for fields in own}


def project_urls() -> dict[str, str]:
    """Return the addresses that the project declares, by their names in lower case."""
    try:
        declared = metadata("onehead").get_all("Project-URL") or []
    except PackageNotFoundError:
        return {}
    pairs = (line.partition(",") for line in declared)
    return {name.strip().lower(): url.strip() for name, _, url in pairs if url.strip().startswith("https://")}


def reading_list(documentation: str = "") -> str:
    """Return the list items of the page; ``documentation`` is the address of the pages, by default the declared one."""
    urls = project_urls()
    return "".join(_items(documentation or urls.get("documentation", ""), urls.get("source", "")))


def _items(documentation: str, source: str) -> Iterator[str]:
    for title, address in papers().items():
        yield _item(title, address)
    views_of: dict[tuple[str, str], list[str]] = {}
    for view, (pages, package) in READING_LIST.items():
        for page, title in (pages | ON_EVERY_VIEW).items():
            views_of.setdefault((page, title), []).append(view)
        views_of.setdefault((f"src/onehead/{package}", "Code"), []).append(view)
    for (path, title), views in views_of.items():
        code = path.startswith("src/")
        base, name = (source, path) if code else (documentation, f"{path}.html")
        file = path if code else f"docs/{path}.md"
        text = title if "Theory" in title or not path.startswith("theory") else f"Theory: {title}"
        yield _item(text, f"{base.rstrip('/')}/{name}" if base else "", file, " ".join(views))


def _item(title: str, address: str, file: str = "", views: str = "") -> str:
    """Return a list item with a link, or with the name of a file where there is no address."""
    own = f' data-views="{views}"' if views else ""
    if not address:
        return f"<li{own}>{escape(title)}: <code>{escape(file)}</code></li>"
    return f'<li{own}><a href="{escape(address)}" target="_blank" rel="noopener noreferrer">{escape(title)}</a></li>'
