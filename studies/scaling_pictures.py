"""Pictures and tables of the measurements of `studies.scaling`: ``python -m studies.scaling_pictures FOLDER OUT``."""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from onehead.plot.style import ACCENT, GREY, THEORY, TRAINING

Rows = list[dict[str, Any]]


def read(path: Path) -> Rows:
    """Rows of a CSV, numbers as numbers."""
    with path.open() as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def exponents(rows: Rows, out: Path) -> None:
    """Local exponents against log_d n, one line per d; two weight decays, two gammas."""
    figure = Figure(figsize=(9.0, 6.4), layout="constrained")
    grid = figure.subplots(2, 2)
    for i, gamma in enumerate((0.75, 1.25)):
        for j, (log_lambda, predicted, name) in enumerate(
            ((0.5, -(2.0 - 1.0 / gamma), r"\sqrt{d}"), (-1.0, -(1.0 - 0.5 / gamma), "1/d"))
        ):
            axes = grid[i, j]
            here = [row for row in rows if row["gamma"] == gamma and row["log_lambda"] == log_lambda]
            dims = sorted({row["dim"] for row in here})
            for k, dim in enumerate(dims):
                line = sorted((row["log_n"], row["local_exponent"]) for row in here if row["dim"] == dim)
                shade = 0.25 + 0.75 * k / max(len(dims) - 1, 1)
                axes.plot(
                    *zip(*line, strict=True), color=THEORY, alpha=shade, marker="o", ms=3, lw=1.4, label=f"d = {dim:g}"
                )
            axes.axhline(predicted, color=TRAINING, ls="--", lw=1.3, label=f"predicted {predicted:.3f}")
            axes.set_title(rf"$\gamma={gamma:g}$, $\lambda={name}$", fontsize=10, loc="left")
            axes.set_xlabel(r"$\log_d n$")
            axes.set_ylabel("local exponent")
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, fontsize=7.5, ncols=2)
    figure.savefig(out / "scaling-exponents.png", dpi=110)


def limits(rows: Rows) -> list[str]:
    """Exponents at a fixed place for growing d, and their limit: a line in d^-1/2 and one in 1/log d."""
    lines = [
        "| λ | γ | log_d n | d = 200 | 800 | 3200 | limit, fit in d^−1/2 | limit, fit in 1/log d | predicted |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for log_lambda, places, name in ((0.5, (2.4, 2.5, 2.6), "sqrt(d)"), (-1.0, (1.2, 1.3, 1.5), "1/d")):
        for gamma in sorted({row["gamma"] for row in rows}):
            for place in places:
                here = {
                    row["dim"]: row["local_exponent"]
                    for row in rows
                    if row["gamma"] == gamma and row["log_lambda"] == log_lambda and abs(row["log_n"] - place) < 0.01
                }
                if 3200.0 not in here:
                    continue
                d = np.array([dim for dim in sorted(here) if dim >= 200])
                y = np.array([here[dim] for dim in d])
                fits = [_intercept(x, y) for x in (d**-0.5, 1.0 / np.log(d))]
                predicted = -(2.0 - 1.0 / gamma) if log_lambda > 0 else -(1.0 - 0.5 / gamma)
                values = " | ".join(f"{here[dim]:.3f}" for dim in (200.0, 800.0, 3200.0))
                found = " | ".join(f"{value:.3f} ± {error:.3f}" for value, error in fits)
                lines.append(f"| {name} | {gamma:g} | {place:g} | {values} | {found} | {predicted:.3f} |")
    return lines


def _intercept(x: Any, y: Any) -> tuple[float, float]:
    """Intercept of a straight line and its standard error."""
    A = np.column_stack([np.ones_like(x), x])
    fit, *_ = np.linalg.lstsq(A, y, rcond=None)
    rest = y - A @ fit
    variance = rest @ rest / max(len(x) - 2, 1) * np.linalg.inv(A.T @ A)[0, 0]
    return float(fit[0]), float(np.sqrt(variance))


def tokens(rows: Rows, out: Path) -> None:
    """Excess error relative to S = 0 and local exponents against scaled alpha, T = 2, 3, 5."""
    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True)
    marks = {2.0: (THEORY, "o"), 3.0: (TRAINING, "s"), 5.0: (ACCENT, "^")}
    for j, decay in enumerate(sorted({row["weight_decay"] for row in rows})):
        for count, (colour, mark) in marks.items():
            here = sorted(
                (row["scaled_alpha"], row["excess_error"], row["local_exponent"])
                for row in rows
                if row["tokens"] == count and row["weight_decay"] == decay
            )
            x, excess, slope = (np.array(column) for column in zip(*here, strict=True))
            style = {"color": colour, "marker": mark, "ms": 4, "lw": 1.4, "label": f"T = {count:g}"}
            grid[0, j].plot(x, excess, **style)
            grid[1, j].plot(x[slope != 0.0], slope[slope != 0.0], **style)
        grid[0, j].set_xscale("log")
        grid[0, j].set_yscale("log")
        grid[0, j].set_title(rf"$\gamma=0.75$, $d=200$, $\lambda={decay:g}$", fontsize=10, loc="left")
        grid[1, j].set_xlabel(r"$\alpha\,(T^2+T-2)/2$")
        grid[0, j].legend(frameon=False, fontsize=8.5)
        for axes in grid[:, j]:
            axes.spines[["top", "right"]].set_visible(False)
    grid[0, 0].set_ylabel("excess error")
    grid[1, 0].set_ylabel("local exponent")
    figure.savefig(out / "scaling-tokens.png", dpi=110)


def training(rows: Rows, out: Path) -> list[str]:
    """Relative gap of trained heads against theory, per dimension; the table as lines."""
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    axes = figure.subplots()
    pairs = [row for row in rows if row["tokens"] == 2.0]
    cases = sorted({(row["gamma"], row["log_lambda"], row["log_n"]) for row in pairs})
    colours = {0.75: THEORY, 1.25: TRAINING}
    for k, case in enumerate(cases):
        here = sorted((r["dim"], r) for r in pairs if (r["gamma"], r["log_lambda"], r["log_n"]) == case)
        x = [1.0 / dim * (1.0 + 0.02 * (k - len(cases) / 2)) for dim, _ in here]
        gap = [row["excess"] / row["excess_theory"] - 1.0 for _, row in here]
        error = [row["excess_err"] / row["excess_theory"] for _, row in here]
        mark = "o" if case[1] < 0 else "s"
        name = rf"$\gamma={case[0]:g}$, $\lambda={'1/d' if case[1] < 0 else '1'}$, $\log_d n={case[2]:g}$"
        axes.errorbar(x, gap, error, color=colours[case[0]], marker=mark, ms=4, lw=1, alpha=0.85, capsize=2, label=name)
    axes.axhline(0.0, color=GREY, lw=0.9)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("1/d")
    axes.set_ylabel("trained / theory − 1, of the excess error")
    axes.legend(frameon=False, fontsize=7.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out / "scaling-training.png", dpi=110)
    lines = [
        "| T | d | γ | λ | log_d n | n | seeds | trained excess | theory | gap |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        gap = row["excess"] / row["excess_theory"] - 1.0
        decay = "1/d" if row["log_lambda"] < 0 else "1"
        lines.append(
            f"| {row['tokens']:g} | {row['dim']:g} | {row['gamma']:g} | {decay} | {row['log_n']:g} | {row['samples']:g} | "
            f"{row['seeds']:g} | {row['excess']:.4f} ± {row['excess_err']:.4f} | {row['excess_theory']:.4f} | {gap:+.1%} |"
        )
    return lines


def main() -> None:
    """Draw whatever has been measured."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    for name, draw in (("exponents", exponents), ("tokens", tokens)):
        if (folder / f"scaling-{name}.csv").exists():
            draw(read(folder / f"scaling-{name}.csv"), out)
    for name, table in (("exponents", limits), ("training", lambda rows: training(rows, out))):
        if (folder / f"scaling-{name}.csv").exists():
            text = "\n".join(table(read(folder / f"scaling-{name}.csv")))
            (out / f"scaling-{name}.md").write_text(text + "\n")
            print(text)


if __name__ == "__main__":
    main()
