"""Links to papers, documentation pages and code use addresses that are declared once."""

import re
from pathlib import Path

import pytest

import onehead
from onehead import citation
from onehead.app import links
from onehead.app.page import index_page
from onehead.app.views import VIEWS

ROOT = Path(__file__).parents[2]


def test_every_view_links_to_existing_pages():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").replace('"', "")
    assert set(links.READING_LIST) == set(VIEWS)
    for pages, package in links.READING_LIST.values():
        assert (Path(onehead.__file__).parent / package).is_dir()
        for page, title in (pages | links.ON_EVERY_VIEW).items():
            assert (ROOT / "docs" / f"{page}.md").is_file()
            assert f"- {title}: {page}.md" in nav


def test_the_papers_are_those_of_the_citation():
    assert set(links.papers().values()) == set(re.findall(r"url = \{([^}]*)\}", citation.cite()))


@pytest.mark.parametrize("declared", [True, False])
def test_addresses_of_the_project_come_from_its_metadata(declared, monkeypatch):
    urls = {"documentation": "https://example.org/docs/", "source": "https://example.org/code"} if declared else {}
    monkeypatch.setattr(links, "project_urls", lambda: urls)
    page = index_page()
    found = re.findall(r'<li data-views="([^"]*)">(.*?)</li>', page)
    for view in VIEWS:
        own = [item for views, item in found if view in views.split()]
        assert len(own) >= 3
        assert all(("<a href=" in item) is declared for item in own)
    if declared:
        assert 'href="https://example.org/docs/guides/decay.html"' in page
        assert 'href="https://example.org/code/src/onehead/sparse"' in page
    else:
        assert "<code>docs/guides/decay.md</code>" in page


def test_only_https_addresses_are_used(monkeypatch):
    lines = ["Documentation, https://example.org/d", "Source, javascript:alert(1)"]
    monkeypatch.setattr(links, "metadata", lambda _: type("Metadata", (), {"get_all": lambda *_: lines})())
    assert links.project_urls() == {"documentation": "https://example.org/d"}
