"""Power laws in all theories at single settings: ``python -m studies.power_rows FOLDER``, a minute without training.

power-rows.md: nine settings at d = 100 with Gaussian logits, with leading directions, and with the noise of these
directions. power-count.md: dependence on the number of directions that are averaged exactly. power-auto.md: test errors
on both sides of the values of γ at which `auto` takes one direction more.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from checks import tool
from scipy.optimize import brentq

from onehead import aim
from onehead.aim.theory.input.leading import SMALL_SHARE

DIM, GAMMA, LEADING = 100, 0.75, 3
# weight decay, samples, and measurements of trained heads: test error, q, m, training loss, element and eigenvalue of
# the first direction
ROWS = (
    (0.01, 398, (0.2961, 0.306, 0.315, 2.24e-3, 2.58, 3.27)),
    (0.01, 1585, (0.2093, 0.801, 0.729, 5.48e-3, 4.99, 5.16)),
    (0.01, 6310, (0.1417, 1.011, 0.935, 0.0347, 5.97, 6.01)),
    (0.01, 20_000, (0.1058, 0.847, 0.898, 0.1513, 5.80, 5.81)),
    (0.1, 1585, (0.1968, 0.239, 0.401, 0.0289, 3.33, 3.46)),
    (1.0, 3981, (0.2825, 0.0322, 0.133, 0.1347, 1.62, 1.66)),
    (1.0, 10_000, (0.1946, 0.147, 0.335, 0.2697, 3.06, 3.07)),
    (1.0, 20_000, (0.1496, 0.266, 0.479, 0.4308, 3.83, 3.84)),
    (10.0, 40_000, (0.2843, 0.0307, 0.130, 1.366, 1.65, 1.65)),
)
COUNTS = (1, 2, 3, 5, 8)
COUNT_SETTINGS = ((0.01, 1585), (1.0, 3981), (1.0, 20_000))


def predicted(decay: float, samples: int, leading: int | str, gamma: float = GAMMA) -> aim.Prediction:
    """Return the prediction at d = 100."""
    task = aim.Task(target=aim.PowerLaw(gamma=gamma, dim=DIM))
    return aim.predict(task, aim.Learner(weight_decay=decay, leading=leading), samples / DIM**2)


def rows() -> str:
    """Return the table trained / Gaussian / leading directions / with noise of these directions."""
    lines = []
    for decay, samples, trained in ROWS:
        gaussian, point = (predicted(decay, samples, count) for count in (0, LEADING))
        found = aim.directions(point)
        first, top = found.directions[0], [aim.spectrum(one).outliers[0].position for one in (gaussian, point)]
        columns = [
            (gaussian.test_error, point.test_error, None),
            (gaussian.q, point.q, found.q),
            (gaussian.m, point.m, found.m),
            (gaussian.train_loss, point.train_loss, None),
            (None, point.directions[0].learned, first.learned),
            (*top, first.position),
        ]
        lines.append(
            [
                f"{decay:g}",
                str(samples),
                *(_cell(measured, *row) for measured, row in zip(trained, columns, strict=True)),
            ]
        )
    head = ["λ", "n", "test error", "q", "m", "training loss", "θ₁", "largest eigenvalue"]
    return tool.table(head, lines)


def _cell(*values: float | None) -> str:
    return " / ".join("–" if value is None else f"{value:.4g}" for value in values)


def counts() -> str:
    """Return the table by number of directions, with quadrature errors."""
    lines = []
    for decay, samples in COUNT_SETTINGS:
        for count in COUNTS:
            point = predicted(decay, samples, count)
            found = aim.directions(point)
            first = found.directions[0]
            lines.append(
                [
                    f"{decay:g}",
                    str(samples),
                    str(count),
                    f"{point.test_error:.5f} ± {point.errors['test_error']:.1g}",
                    *(f"{getattr(point, name):.4g} ± {point.errors[name]:.1g}" for name in ("q", "m")),
                    *(f"{getattr(found, name):.4g} ± {found.errors[name]:.1g}" for name in ("q", "m")),
                    f"{first.learned:.4g} ± {first.learned_err:.1g}",
                ]
            )
    return tool.table(
        ["λ", "n", "K", "test error", "q", "m", "q with blocks", "m with blocks", "θ₁ with blocks"], lines
    )


def auto_steps() -> str:
    """Return test errors just below and above values of γ at which `auto` takes one direction more or less."""
    lines = []
    for number in (2, 3, 4):

        def share(gamma: float, number: int = number) -> float:
            squares = aim.PowerLaw(gamma=gamma, dim=DIM).values ** 2
            return float(squares[number - 1] / squares.sum()) - SMALL_SHARE

        grid = np.linspace(0.5, 2.5, 201)
        crossed = [pair for pair in pairwise(grid) if share(pair[0]) * share(pair[1]) < 0.0]
        for low, high in crossed:
            crossing = float(brentq(share, low, high))
            both = [predicted(1.0, 3981, "auto", crossing + step) for step in (-1e-4, 1e-4)]
            jump = 100.0 * (both[1].test_error / both[0].test_error - 1.0)
            taken = [str(len(side.directions)) for side in both]
            errors = [f"{side.test_error:.5f} ± {side.errors['test_error']:.1g}" for side in both]
            lines.append([f"{crossing:.3f}", " → ".join(taken), *errors, f"{jump:+.2f}%"])
    return tool.table(["γ", "K", "test error below", "test error above", "difference"], lines)


def main() -> None:
    """Write and print the tables."""
    (folder,) = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, make in (("rows", rows), ("count", counts), ("auto", auto_steps)):
        text = make()
        print(text, flush=True)
        (Path(folder) / f"power-{name}.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
