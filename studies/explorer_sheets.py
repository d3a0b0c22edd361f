"""Every view of the explorer in light and dark, wide and narrow, as four sheets: ``python -m studies.explorer_sheets OUT``."""

import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.image import imread
from PIL import Image
from playwright.sync_api import sync_playwright
from tests.support.explorer import CHROMIUM, FLAGS, checkpoint_file, running_server, until

from onehead.app.views import VIEWS

SIZES = {"wide": (1280, 860, 3), "narrow": (390, 1100, 6)}


def shots(browser: Any, address: str, theme: str, width: int, height: int, folder: str) -> list[Any]:
    """One picture per view, taken when the exact figure is there."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
    found = []
    for name in VIEWS:
        page.goto(f"{address}/?view={name}" + ("&heads=12" if name == "checkpoint" else ""))
        until(page, "window.onehead && onehead.drawn > 0")
        if name == "checkpoint":
            page.set_input_files("#file", checkpoint_file(folder))
            until(page, "onehead.asked > 1 && onehead.drawn === onehead.asked", 200.0)
        time.sleep(8.0)  # numbers, badge and the exact picture follow the sketch
        found.append(imread(io.BytesIO(page.screenshot())))
    page.close()
    return found


def main() -> None:
    """Write the sheets."""
    out = Path(sys.argv[1])
    with running_server() as address, sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for size, (width, height, columns) in SIZES.items():
            for theme in ("light", "dark"):
                pictures = shots(browser, address, theme, width, height, folder)
                rows = -(-len(pictures) // columns)
                scale = 520 / width if size == "wide" else 250 / width
                figure = Figure(figsize=(columns * width * scale / 100, rows * height * scale / 100))
                for axes, picture in zip(figure.subplots(rows, columns).ravel(), pictures, strict=True):
                    axes.imshow(picture, interpolation="lanczos")
                    axes.set_axis_off()
                figure.subplots_adjust(0, 0, 1, 1, 0.01, 0.01)
                sheet = io.BytesIO()
                figure.savefig(sheet, dpi=100)
                few = Image.open(sheet).convert("RGB").quantize(64)  # flat colours: a quarter of the size
                few.save(out / f"explorer-sheet-{size}-{theme}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
