"""Two-step attention compared with the best possible learner of the same data."""

import numpy as np

from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, plain_ticks, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import ACCENT, BEST, GREY, MODEL_COLOURS, SERIES_STYLES, THEORY, finish_panel, panels
from onehead.sparse import Task, data_for

PARAMETERS = ("length", "signal_tokens", "strength", "positive_rate")
PROBLEMS = {
    (10, 1, 5.0, 0.5): "L = 10, R = 1, θ = 5, π = 0.5",
    (10, 3, 3.0, 0.2): "L = 10, R = 3, θ = 3, π = 0.2",
    (30, 1, 4.0, 0.5): "L = 30, R = 1, θ = 4, π = 0.5",
}


def draw(source: DataSource) -> Drawing:
    """Draw the errors of one problem, and the samples relative to the best learner for three, against the samples."""
    alphas = source.pick((0.5, 2.0, 8.0), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0))
    problems = list(PROBLEMS)[: source.pick(2, 3)]
    tuned = source.theory("tuned attention", "sparse.tune", {PARAMETERS: problems, "alpha": alphas})
    best = source.theory("best possible", "sparse.bayes", {PARAMETERS: problems[:1], "alpha": "log:0.2:20:30"})

    picture, (left, right) = panels(1, 2, width=4.9, height=3.8)
    first = dict(zip(PARAMETERS, problems[0], strict=True))
    rows = rows_with(tuned, **first)
    line(left, rows, "alpha", "vectorised_test_error", "vectorised, best ridge", color=ACCENT, ls=":")
    line(left, rows, "alpha", "pooled_test_error", "pooled, best ridge", color=MODEL_COLOURS["pooled"], ls="--")
    line(left, rows, "alpha", "test_error", "attention in two steps, tuned", color=THEORY)
    line(left, best, "alpha", "test_error", "best possible learner", color=BEST, ls=":")
    line(left, best, "alpha", "floor", "signal known", color=GREY, lw=0.9, ls=(0, (1, 1.2)))
    finish_panel(
        left,
        "samples over dimension α",
        "test error",
        PROBLEMS[problems[0]],
        log="xy",
        legend="center right",
        ylim=(0.012, 0.6),
    )
    worst = 0.0
    for k, problem in enumerate(problems):
        task = Task(**dict(zip(PARAMETERS, problem, strict=True)))
        points = rows_with(tuned, **dict(zip(PARAMETERS, problem, strict=True)))
        multiples = [row["alpha"] / data_for(task, row["test_error"]) for row in points]
        at = [row["alpha"] for row in points]
        look = SERIES_STYLES[k]
        right.plot(
            at, multiples, color=look.line, ls=look.dash, marker=look.marker, ms=4.0, lw=1.8, label=PROBLEMS[problem]
        )
        source.add("data multiple", problem=[PROBLEMS[problem]] * len(at), alpha=at, data_multiple=multiples)
        worst = max(worst, float(np.max(multiples)))
    finish_panel(right, "samples over dimension α", "samples over those of the best learner", "data multiple", log="x")
    right.set_ylim(0.0, 1.25 * worst)
    plain_ticks(right, alphas)
    plain_ticks(left, (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0))
    left.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    caption = f"""Left: test error of attention trained in two steps (logistic loss; split, rates, temperature and ridge
        chosen by the theory), of linear models at their best ridge, and of the best possible learner of the same data,
        which knows how they were generated. Right: how many times more samples the tuned attention needs than the best
        learner for the same error, up to {worst:.0f} times. Theory alone."""
    return Drawing(picture=picture, caption=caption)
