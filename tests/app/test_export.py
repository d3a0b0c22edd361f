"""The explorer as one file: recorded answers equal those of the library, and the page sends no request."""

import base64
import gzip
import io
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from tests.support.browser import needs_chromium, quiet_page
from tests.support.explorer import DRAWN, until
from tests.support.programs import program

from onehead import aim
from onehead.app.export import Grid, export
from onehead.app.page import index_page
from onehead.errors import InvalidArgument

SMALL = Grid(stops={"alpha": (0.1, 0.5, 1.0), "kappa0": (0.5,), "noise": (0.5,), "weight_decay": (0.03, 0.1)})
LINES_HEIGHT = 30  # pixels above a saved picture: what it shows with its parameters, and the link


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    steps = []
    summary = export(folder, grid=SMALL, base="https://example.org/onehead/", progress=lambda: steps.append(1))
    assert len(steps) == summary["points"] == SMALL.total == 6
    return folder, summary


def test_recorded_answers_equal_those_of_the_library(written):
    folder, summary = written
    page = (folder / "index.html").read_text(encoding="utf-8")
    packed = re.search(r'<script id="recorded" type="application/octet-stream">([^<]*)</script>', page)[1]
    table = json.loads(gzip.decompress(base64.b64decode(packed)))
    point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.03), 0.5)
    numbers = {line[0]: line[2] for line in table["report"]["curve 0.5 0.5 0.5 0.03"]["numbers"]}
    assert numbers["Test error"] == f"{point.test_error:.5g}"
    drawing = table["draw"]["curve 0.5 0.5 0.5 0.03"]
    assert drawing["at"] == 0.5
    curve = table["figures"][drawing["drawing"]]["figure"]["data"][0]
    # the stated interpolation error also holds at points that were not used to measure it
    for share in (0.2, 0.5, 0.8):
        alpha = float(np.exp(np.interp(share * 30, range(31), np.log(curve["x"]))))
        line = float(np.interp(np.log(alpha), np.log(curve["x"]), curve["y"]))
        true = aim.predict(aim.Task(), aim.Learner(weight_decay=0.03), alpha).test_error
        assert abs(line - true) / true <= summary["interpolation_error"] + 1e-4
    assert 0.0 < summary["interpolation_error"] < 0.02
    assert (folder / "card.png").read_bytes().startswith(b"\x89PNG")
    # links of the page and the address of its preview image use the published address
    assert '"base": "https://example.org/onehead/"' in page and 'content="https://example.org/onehead/card.png"' in page
    assert '"base": "https://example.org/x"' in index_page(base="https://example.org/x")


@needs_chromium
def test_the_exported_page_opens_from_a_file_without_any_request(written, browser):
    folder, _ = written
    address = (folder / "index.html").as_uri()
    requests = []
    with quiet_page(browser, address, viewport={"width": 1280, "height": 860}) as page:
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{address}?view=curve&weight_decay=0.1&alpha=0.5")
        until(page, DRAWN)
        until(page, "onehead.reported === onehead.asked")
        assert page.evaluate("document.getElementById('state').textContent") == "exact"
        point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.1), 0.5)
        assert page.locator('td[data-number="Test error"]').inner_text() == f"{point.test_error:.5g}"
        assert "at most" in page.inner_text("#caption")
        page.fill("#knob-alpha", "1")
        page.keyboard.press("Enter")
        until(page, DRAWN)
        assert page.input_value("#knob-alpha") == "1"
        assert page.evaluate("document.getElementById('picture').layout.meta.at") == 1
        for tab, title in (("head", "The head"), ("spectrum", "Spectrum")):
            page.click(f"#tab-{tab}")
            until(page, f"{DRAWN} && onehead.machine().key.startsWith('view={tab}')")
            assert page.inner_text("h1") == title
            assert page.evaluate("document.getElementById('picture').data.length") > 1
        page.fill("#knob-noise", "0.7")  # a draft: the spectrum has a template though its defaults are not recorded
        page.keyboard.press("Enter")
        until(page, "onehead.machine().status === 'local'")
        assert page.locator("#formula .katex").count() == 1
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.click("#link")
        until(page, "document.getElementById('link').textContent !== 'Copy link'")
        assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []
        assert len([url for url in requests if url.startswith("file:")]) == 1  # the page itself


@needs_chromium
@pytest.mark.parametrize("base", ["https://example.org/onehead/", ""])
def test_saved_pictures_carry_their_parameters_and_the_link_to_the_page(written, browser, base):
    """The link is the address given to the export, or else the address under which the page was opened."""
    folder, _ = written
    content = (folder / "index.html").read_text(encoding="utf-8")
    content = content.replace('"base": "https://example.org/onehead/"', f'"base": "{base}"')
    opened, size = "https://elsewhere.org/page/", {"width": 1280, "height": 860}
    with quiet_page(browser, opened, viewport=size, accept_downloads=True) as page:
        page.route(f"{opened}**", lambda route: route.fulfill(body=content, content_type="text/html; charset=utf-8"))

        def saved(name, weight_decay):
            page.goto(f"{opened}?view=curve&weight_decay={weight_decay}&alpha=0.5")
            until(page, DRAWN)
            with page.expect_download() as waiting:
                page.click(f"#{name}")
            return Path(waiting.value.path()).read_bytes()

        # the text of the lines above the picture, without the elements that break them
        drawing = re.sub("<[^>]*>", "", unescape(saved("svg", 0.1).decode()))
        assert "λ = 0.1" in drawing and f"{base or opened}?view=curve&alpha=0.5&weight_decay=0.1" in drawing
        one, again, other = (imread(io.BytesIO(saved("png", value))) for value in (0.1, 0.1, 0.03))
        box = page.locator("#picture").bounding_box()
        assert one.shape[1] == 2 * round(box["width"]) and one.shape[0] >= 2 * (box["height"] + LINES_HEIGHT)
        # dark letters that touch neither the upper nor the right margin, and differ with the parameter alone
        lines = [picture[: 2 * LINES_HEIGHT, :, :3] for picture in (one, again, other)]
        assert lines[0].min() < 0.5 and min(lines[0][:, -10:].min(), lines[0][:6].min()) > 0.99
        assert np.array_equal(lines[0], lines[1]) and not np.array_equal(lines[0], lines[2])


def test_files_of_others_are_neither_replaced_nor_removed(tmp_path):
    (tmp_path / "recording").mkdir()
    mine = tmp_path / "recording" / "measured.json.gz"
    mine.write_bytes(b"mine")
    small = Grid(stops={"alpha": (0.5,), "kappa0": (0.5,), "noise": (0.5,), "weight_decay": (0.1,)})
    export(tmp_path, grid=small)
    assert mine.read_bytes() == b"mine" and [path.name for path in mine.parent.iterdir()] == [mine.name]
    export(tmp_path, grid=small)  # its own files are replaced
    for name in ("index.html", "card.png"):
        (tmp_path / "index.html").unlink(missing_ok=True)
        (tmp_path / name).write_bytes(b"mine")
        done = program("app", "export", str(tmp_path))
        assert done.returncode == 2 and f"no other program has written {name}" in done.stderr
        assert (tmp_path / name).read_bytes() == b"mine"
    with pytest.raises(InvalidArgument, match=r"no other program has written card\.png"):
        export(tmp_path, grid=small)


def test_bad_addresses_and_folders_give_one_line(tmp_path):
    (tmp_path / "file").write_text("x")
    for arguments, sentence in (
        (
            ("app", "export", str(tmp_path), "--base", "example.org"),
            "onehead: --base must be an address that begins with",
        ),
        (("app", "export", str(tmp_path / "file")), "onehead: FOLDER must be"),
        (("app", "--base", "javascript:alert(1)"), "onehead: --base must be an address that begins with"),
    ):
        done = program(*arguments)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.splitlines()[-1].startswith(sentence) and len(done.stderr.splitlines()) == 1
