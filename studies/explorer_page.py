"""The explorer of the page "Try it": a small export, small enough to be kept with the documentation: ``python -m studies.explorer_page``.

It takes a few minutes, and may be interrupted.
"""

from pathlib import Path

from onehead.app.export import export
from onehead.app.recording import Grid, places

OUT = Path(__file__).parents[1] / "docs" / "assets" / "explorer"
ALPHAS = (0.03, 0.07, 0.15, 0.28, 0.5, 1.0, 2.0, 4.0)
STOPS = {"alpha": ALPHAS, "kappa0": (0.2, 0.5), "noise": (0.5,), "weight_decay": (0.01, 0.1)}
# three tokens take longer than all others together
GRID = Grid(stops=STOPS, places=tuple(place for place in places(ALPHAS) if "tokens" not in place.values))


def main() -> None:
    """Write it."""
    steps = []

    def step() -> None:
        steps.append(1)
        print(f"\r{len(steps)} of {GRID.total} points", end="", flush=True)

    told = export(OUT, documentation="../..", grid=GRID, progress=step)
    print(f"\n{told['bytes'] / 1e6:.2f} MB, lines between solved points at most {told['interpolation_error']:.2%} off")


if __name__ == "__main__":
    main()
