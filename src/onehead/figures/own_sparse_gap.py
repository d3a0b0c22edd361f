"""What two-step attention pays against the best possible learner of the same data."""

import numpy as np

from onehead.figures.drawing import line, plain_ticks, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import ACCENT, GREY, SERIES, THEORY, TRAINING, finish, panels
from onehead.sparse import Task, data_for

WORDS = ("length", "signal_tokens", "strength", "positive_rate")
PROBLEMS = {
    (10, 1, 5.0, 0.5): "L = 10, R = 1, θ = 5, π = 0.5",
    (10, 3, 3.0, 0.2): "L = 10, R = 3, θ = 3, π = 0.2",
    (30, 1, 4.0, 0.5): "L = 30, R = 1, θ = 4, π = 0.5",
}


def draw(lab: Lab) -> Drawing:
    """Errors of one problem against the samples, and how many times the samples of the best learner are needed in three."""
    alphas = lab.pick((0.5, 2.0, 8.0), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0))
    asked = list(PROBLEMS)[: lab.pick(2, 3)]
    tuned = lab.theory("tuned attention", "sparse.tune", {WORDS: asked, "alpha": alphas})
    best = lab.theory("best possible", "sparse.bayes", {WORDS: asked[:1], "alpha": "log:0.2:20:30"})

    picture, (left, right) = panels(1, 2, width=4.9, height=3.8)
    first = dict(zip(WORDS, asked[0], strict=True))
    rows = where(tuned, **first)
    line(left, rows, "alpha", "vectorised_test_error", "vectorised, best ridge", color=ACCENT, ls=":")
    line(left, rows, "alpha", "pooled_test_error", "pooled, best ridge", color=TRAINING, ls="--")
    line(left, rows, "alpha", "test_error", "attention in two steps, tuned", color=THEORY)
    line(left, best, "alpha", "test_error", "best possible learner", color="#c9c9c9", lw=4.0)
    line(left, best, "alpha", "floor", "signal known", color=GREY, lw=0.9, ls=(0, (1, 1.2)))
    finish(
        left,
        "samples over dimension α",
        "test error",
        PROBLEMS[asked[0]],
        log="xy",
        legend="center right",
        ylim=(0.012, 0.6),
    )
    worst = 0.0
    for k, words in enumerate(asked):
        task = Task(**dict(zip(WORDS, words, strict=True)))
        points = where(tuned, **dict(zip(WORDS, words, strict=True)))
        multiples = [row["alpha"] / data_for(task, row["test_error"]) for row in points]
        at = [row["alpha"] for row in points]
        look = SERIES[k]
        right.plot(
            at, multiples, color=look.line, ls=look.dash, marker=look.marker, ms=4.0, lw=1.8, label=PROBLEMS[words]
        )
        lab.add("data multiple", problem=[PROBLEMS[words]] * len(at), alpha=at, data_multiple=multiples)
        worst = max(worst, float(np.max(multiples)))
    finish(right, "samples over dimension α", "samples over those of the best learner", "data multiple", log="x")
    right.set_ylim(0.0, 1.25 * worst)
    plain_ticks(right, alphas)
    plain_ticks(left, (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0))
    left.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    caption = f"""Left: test error of attention trained in two steps (logistic loss; split, rates, temperature and ridge chosen by
        the theory), of linear models at their best ridge, and of the best possible learner of the same data, which knows how they were
        made. Right: how many times more samples the tuned attention needs than the best learner for the same error, up to {worst:.0f}
        times. Theory alone."""
    return Drawing(picture=picture, caption=caption)
