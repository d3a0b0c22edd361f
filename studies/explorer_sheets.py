"""Screenshots of every view of the explorer on sheets, light and dark, wide, narrow and projected.

Run it with ``python -m studies.explorer_sheets OUT``.
"""

import io
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.image import imread
from PIL import Image
from playwright.sync_api import sync_playwright
from tests.support.explorer import CHROMIUM, FLAGS, running_server, until

# name -> width, height, columns of the sheet, width of one screenshot on it
SIZES = {"wide": (1280, 860, 3, 520), "narrow": (390, 1100, 6, 260), "projected": (1280, 800, 3, 520)}
HARD = "view=sparse&sparse_panel=hard-phase&length=300&strength=8&alpha0=0.0125&alpha1=0.0125"
JOINT = "view=sparse&sparse_panel=descent&eta_b=3&ridge=0.1&ridge_query=0.03"
HEADS = "view=curve&attention=cross&aim_heads=2&sharing=0.5&weight_decay=0.1&alpha=1&alpha_from=0.1&alpha_to=8"
FADING = "view=time&weight_decay=0.3&alpha=1"
PAGES = (
    "view=head", "view=curve", HEADS, "view=spectrum", FADING, "view=decay", "view=map", "view=scaling",
    "view=sparse", JOINT, HARD, "view=checkpoint",
)  # fmt: skip
SINGLE = {  # single screenshots of the documentation: query, theme, width
    "head-light": ("view=head", "light", 1280),
    "curve-light": ("view=curve", "light", 1280),
    "spectrum-dark": ("view=spectrum&alpha=0.5&kappa0=0.1", "dark", 1280),
    "decay-light": ("view=decay", "light", 1280),
    "map-light": ("view=map", "light", 1280),
    "phase-dark": ("view=scaling&scaling_panel=phase", "dark", 1280),
    "sparse-light": ("view=sparse", "light", 1280),
    "hard-light": (HARD, "light", 1280),
    "joint-light": (JOINT, "light", 1280),
    "checkpoint-dark": ("view=checkpoint&layer=1&head=1", "dark", 1280),
    "narrow": ("view=curve", "light", 390),
    "training-light": ("view=curve&train_dim=40&train_points=5&train_seeds=3", "light", 1280),
}


def shot(page: Any, address: str, query: str, *, projected: bool = False) -> bytes:
    """A picture of a page when its exact figure is there."""
    page.goto(f"{address}/?{query}")
    until(page, "window.onehead && onehead.drawn > 0 && onehead.drawn === onehead.asked")
    if projected != page.evaluate("document.body.classList.contains('projector')"):
        page.click("#projector")
    if query.startswith("view=checkpoint"):
        page.click("#sample")
        until(page, "onehead.machine().key.includes('file=')")
    if "train_dim" in query:
        page.click("#train")
        until(page, "onehead.trained && onehead.trained.total > 0 && !onehead.trained.running")
    until(page, "onehead.machine().status !== 'drawing' && onehead.exact === onehead.asked")
    page.evaluate("scrollTo(0, 0)")  # a pressed button may lie below the screen
    page.wait_for_timeout(700)
    screenshot: bytes = page.screenshot()
    return screenshot


def sheet(pictures: list[bytes], width: int, height: int, columns: int, shown_width: int) -> Image.Image:
    """Return screenshots on one sheet, reduced to 256 colours."""
    rows, scale = -(-len(pictures) // columns), shown_width / width
    figure = Figure(figsize=(columns * width * scale / 100, rows * height * scale / 100))
    axes = figure.subplots(rows, columns).ravel()
    for one in axes:
        one.set_axis_off()
    for one, picture in zip(axes, pictures, strict=False):
        one.imshow(imread(io.BytesIO(picture)), interpolation="lanczos")
    figure.subplots_adjust(0, 0, 1, 1, 0.01, 0.01)
    content = io.BytesIO()
    figure.savefig(content, dpi=100)
    return Image.open(content).convert("RGB").quantize(256, kmeans=1)


def main() -> None:
    """Write the sheets and the single screenshots."""
    out = Path(sys.argv[1])
    with running_server() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, (query, theme, width) in SINGLE.items():
            context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=theme)
            reduced = (
                Image.open(io.BytesIO(shot(context.new_page(), address, query))).convert("RGB").quantize(256, kmeans=1)
            )
            reduced.save(out / f"explorer-{name}.png", optimize=True)
            context.close()
        for size, (width, height, columns, shown_width) in SIZES.items():
            for theme in ("light", "dark"):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
                page = context.new_page()
                pictures = [shot(page, address, query, projected=size == "projected") for query in PAGES]
                sheet(pictures, width, height, columns, shown_width).save(
                    out / f"explorer-sheet-{size}-{theme}.png", optimize=True
                )
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
