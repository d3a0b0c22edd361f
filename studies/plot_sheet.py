"""All plotting functions on one sheet, overlays included: ``python -m studies.plot_sheet OUT.png``."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imread
from tests.support.checkpoints import training_steps

from onehead import aim, plot, sparse, weights

COLUMNS = 5
TASK, HEAD = aim.Task(), aim.Learner()
POWER = aim.Task(aim.PowerLaw(0.75, 60))
RATIOS = np.geomspace(0.05, 4.0, 25)
SIGNAL, PLAN = sparse.Task(), sparse.Protocol(loss="square", ridge=0.1)


def theory(draw: dict[str, Any]) -> None:
    """Add the figures of the attention-indexed model."""
    curve = aim.curve(TASK, HEAD, RATIOS, bayes=True)
    runs = [aim.train(TASK, HEAD, dim=30, alpha=a, seeds=3) for a in (0.2, 0.8, 3.0)]
    draw["learning_curve"] = lambda ax: plot.learning_curve(curve, runs, thresholds=aim.thresholds(TASK, HEAD), ax=ax)

    def overlay(ax: Any) -> None:
        for noise in (0.1, 0.5, 1.0):
            own = aim.curve(TASK.changed(noise=noise), HEAD, RATIOS)
            plot.learning_curve(own, label=f"noise {noise:g}", ax=ax)

    def one(ax: Any) -> None:
        plot.learning_curve(curve, quantity="rank", label="theory", color="k", ax=ax)
        plot.training_points(runs, quantity="rank", ax=ax)

    draw["learning_curve, three overlaid"] = overlay
    draw["learning_curve, quantity='rank'"] = one
    draw["training_points"] = lambda ax: plot.training_points(runs, ax=ax)
    draw["best_possible"] = lambda ax: plot.best_possible(aim.bayes_curve(TASK, RATIOS), ax=ax)
    laws = [aim.spectrum(aim.predict(TASK, HEAD, a)) for a in (4.0, 0.5)]
    draw["spectrum"] = lambda ax: plot.spectrum(laws[0], ax=ax)

    def two(ax: Any) -> None:
        for law in laws:
            plot.spectrum(law, label=f"α = {law.point.alpha:g}", ax=ax)

    draw["spectrum, two overlaid"] = two
    draw["trained_spectrum"] = lambda ax: plot.trained_spectrum(
        aim.train(TASK, HEAD, dim=60, alpha=4.0, seeds=4), laws[0], ax=ax
    )
    draw["tuning"] = lambda ax: plot.tuning(aim.tune(TASK, HEAD, 0.5, bayes=True), ax=ax)
    found = aim.map(TASK, HEAD, x=("alpha", np.geomspace(0.05, 4, 14)), y=("weight_decay", np.geomspace(1e-3, 1, 14)))
    draw["heat_map (aim)"] = lambda ax: plot.heat_map(found, lines=found.lines(), ax=ax)
    draw["comparison"] = lambda ax: plot.comparison(aim.compare(TASK, HEAD, [0.3, 1.0], dims=(16, 24), seeds=4), ax=ax)
    cross = HEAD.changed(loss="cross-entropy")
    draw["message_passing"] = lambda ax: plot.message_passing(aim.amp(TASK, cross, dim=60, alpha=0.5), ax=ax)


def scaling(draw: dict[str, Any]) -> None:
    """Add the figures of power laws."""
    counts = np.geomspace(100, 3e5, 20)
    law = aim.scaling(POWER, HEAD, counts)
    draw["scaling"] = lambda ax: plot.scaling(law, ax=ax)
    draw["scaling, quantity='local_exponent'"] = lambda ax: plot.scaling(law, quantity="local_exponent", ax=ax)
    draw["features"] = lambda ax: plot.features(aim.features(POWER, HEAD, counts), ax=ax)
    grid = aim.phase_diagram(POWER, HEAD, log_n=np.linspace(0.8, 3.2, 13), log_lambda=np.linspace(-2, 1.5, 9))
    draw["phases"] = lambda ax: plot.phases(grid, ax=ax)


def tokens(draw: dict[str, Any]) -> None:
    """Add the figures of sparse tokens."""
    x = np.geomspace(0.3, 8.0, 13)
    curves = [
        sparse.curve(SIGNAL, PLAN, x, model=model, bayes=model == "attention") for model in ("attention", "pooled")
    ]
    runs = [sparse.train(SIGNAL, PLAN.with_alpha(a), dim=150, trials=4) for a in (0.5, 2.0, 6.0)]
    draw["error_curve"] = lambda ax: plot.error_curve(curves, runs=runs, ax=ax)

    def lengths(ax: Any) -> None:
        for length in (5, 10, 20):
            own = sparse.curve(SIGNAL.changed(length=length), PLAN, x)
            plot.error_curve(own, label=f"L = {length}", ax=ax)

    draw["error_curve, three lengths"] = lengths
    steps = [sparse.align(SIGNAL, PLAN.changed(alpha0=a)) for a in x]
    draw["alignment"] = lambda ax: plot.alignment(steps, x, ax=ax)
    draw["best_error"] = lambda ax: plot.best_error([sparse.bayes(SIGNAL, a) for a in x], x, ax=ax)
    long = [60, 120, 240, 480]
    phases = [sparse.bayes(sparse.Task(length=n, strength=8.0), 0.05) for n in long]
    draw["hard_phase"] = lambda ax: plot.hard_phase(phases, long, ax=ax)
    cosines = np.linspace(0.0, 0.95, 7)
    separable = [sparse.capacity(SIGNAL, PLAN.changed(cos_query=s, sharpness=1.0)) for s in cosines]
    draw["capacity"] = lambda ax: plot.capacity(separable, cosines, ax=ax)
    short = [2, 4, 8, 16, 32]
    draw["oracle"] = lambda ax: plot.oracle([sparse.oracle(SIGNAL.changed(length=n)) for n in short], short, ax=ax)
    found = sparse.map(
        SIGNAL.changed(positive_rate=0.2), PLAN, x=("eta_b", np.linspace(0, 9, 13)), y=("beta", np.linspace(2, 12, 9))
    )
    draw["heat_map (sparse)"] = lambda ax: plot.heat_map(found, ax=ax)
    draw["tuned"] = lambda ax: plot.tuned(sparse.tune(SIGNAL, PLAN, alpha=2.0), ax=ax)


def checkpoints(draw: dict[str, Any], folder: Path) -> None:
    """Add the figures of checkpoints."""
    steps = training_steps(folder)
    survey, training = weights.survey(steps[0]), weights.compare(steps)
    heads = list(survey)
    draw["head_spectrum"] = lambda ax: plot.head_spectrum(heads[1], ax=ax)

    def two(ax: Any) -> None:
        plot.head_spectrum(heads[1], label="head 1", color="tab:blue", ax=ax)
        plot.head_spectrum(heads[2], label="head 2", color="tab:green", ax=ax)

    draw["head_spectrum, two heads"] = two
    draw["survey_map, quantity='strength'"] = lambda ax: plot.survey_map(heads, quantity="strength", ax=ax)
    draw["trajectory, quantity='outliers'"] = lambda ax: plot.trajectory(training, quantity="outliers", ax=ax)
    pages = {
        "head_page": lambda: plot.head_page(heads[1]),
        "head_pages": lambda: next(plot.head_pages(heads)),
        "survey_map": lambda: plot.survey_map(heads),
        "trajectory": lambda: plot.trajectory(training),
    }
    for name, page in pages.items():
        draw[name] = lambda ax, name=name, page=page: _draw_page(ax, page(), folder / f"{name}.png")


def _draw_page(ax: Any, page: Any, path: Path) -> None:
    """Draw a page with several panels as an image on the sheet."""
    plot.save(page, path)
    ax.imshow(imread(path), interpolation="lanczos")
    ax.set_axis_off()


def main() -> None:
    """Draw the sheet."""
    draw: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in (theory, scaling, tokens):
            part(draw)
        checkpoints(draw, Path(folder))
        rows = -(-len(draw) // COLUMNS)
        figure = Figure(figsize=(6.4 * COLUMNS, 4.4 * rows), layout="constrained")
        grid = figure.subplots(rows, COLUMNS).ravel()
        for ax in grid[len(draw) :]:
            ax.set_axis_off()
        for ax, (name, function) in zip(grid, draw.items(), strict=False):
            function(ax)
            ax.annotate(name, (0.5, 1.12), xycoords="axes fraction", ha="center", fontsize=12, weight="bold")
        figure.savefig(sys.argv[1], dpi=55)


if __name__ == "__main__":
    main()
