"""Export of the explorer for the page "Try it", small enough to be kept with the documentation.

Run it with ``python -m studies.explorer_page``. It takes a few minutes and can be interrupted.
"""

from pathlib import Path

from onehead.app.export import export
from onehead.app.recording import Grid, off_grid_settings

OUT = Path(__file__).parents[1] / "docs" / "assets" / "explorer"
ALPHAS = (0.03, 0.07, 0.15, 0.28, 0.5, 1.0, 2.0, 4.0)
STOPS = {"alpha": ALPHAS, "kappa0": (0.2, 0.5), "noise": (0.5,), "weight_decay": (0.01, 0.1)}
# settings with three tokens take longer than all others together
SETTINGS = tuple(setting for setting in off_grid_settings(ALPHAS) if "tokens" not in setting.values)
GRID = Grid(stops=STOPS, settings=SETTINGS)


def main() -> None:
    """Write the export."""
    steps = []

    def step() -> None:
        steps.append(1)
        print(f"\r{len(steps)} of {GRID.total} points", end="", flush=True)

    result = export(OUT, documentation="../..", grid=GRID, progress=step)
    size, error = result["bytes"] / 1e6, result["interpolation_error"]
    print(f"\n{size:.2f} MB; between computed points lines are off by at most {error:.2%}")


if __name__ == "__main__":
    main()
