"""Singular values in the course of gradient descent: directions that weight decay removes fade, and never vanish."""

import numpy as np

from onehead.aim import Learner, Task, gradient_descent, predict, training_time
from onehead.aim.verbs.training_time import relaxation_of
from onehead.figures.data_source import DataSource
from onehead.figures.registry import Drawing
from onehead.plot.style import GREY, finish_panel, panels, theory_line, training_marks

TASK, LEARNER, ALPHA = Task(attention="cross"), Learner(weight_decay=0.3), 1.0
START = 0.09  # singular value at the start
TIMES = (2.0, 5.0, 10.0)  # λ t
CUTS = {1e-2: "10⁻²", 1e-4: "10⁻⁴", 1e-6: "10⁻⁶"}


def draw(source: DataSource) -> Drawing:
    """Draw singular values by rank at three times, and the share above three cuts against time."""
    point = predict(TASK, LEARNER, ALPHA)
    relaxation = relaxation_of(point, START)
    grid = np.geomspace(0.3, 12.0, source.pick(25, 60))
    laws = {time: training_time(point, time, start=START) for time in TIMES}
    dim = source.pick(30, 60)
    measured = np.geomspace(0.4, TIMES[-1], 10).tolist() + list(TIMES)
    run = None
    if source.training:
        run = gradient_descent(TASK, LEARNER, dim=dim, alpha=ALPHA, times=measured, start=START)
    picture, (left, right) = panels(1, 2, width=4.7, height=3.7)
    shares, places = (np.arange(200) + 0.5) / 200, (np.arange(dim) + 0.5) / dim
    for k, (time, law) in enumerate(laws.items()):
        values = law.quantiles(len(shares))
        theory_line(left, shares, values, f"λt = {time:g}", k)
        source.add(f"theory, time {time:g}", share=shares.tolist(), singular_value=values.tolist())
        if run is not None:
            found = run.values[int(np.argmin(np.abs(np.array(run.times) - time)))]
            label = f"gradient descent, d = {dim}" if k == 0 else None
            training_marks(left, places, found, np.zeros(dim), label, k)
            source.add(f"trained, time {time:g}", share=places.tolist(), singular_value=found.tolist())
    left.axvline(point.rank, color=GREY, lw=0.8, ls="--", label="rank of the minimum")
    finish_panel(left, "share of larger singular values", "singular value", "spectrum at three times", log="y")
    for k, (cut, name) in enumerate(CUTS.items()):
        above = [relaxation.share_above(time, cut) for time in grid]
        theory_line(right, grid, above, f"above {name}", k)
        source.add(f"theory, cut {cut:g}", time=grid.tolist(), rank_above=above)
        if run is not None:
            counted = np.mean(run.values > cut, axis=1)
            training_marks(right, run.times, counted, np.zeros(len(counted)), None, k)
            source.add(f"trained, cut {cut:g}", time=list(run.times), rank_above=counted.tolist())
    right.axhline(point.rank, color=GREY, lw=0.8, ls="--", label="rank of the minimum")
    # the legend stays below the rank of the minimum
    finish_panel(right, "λt", "share of singular values", "share above a cut", log="x", ylim=(0.2, 1.05))
    caption = f"""Singular values of a cross-attention head under gradient descent with weight decay on query and key,
        λ = 0.3, α = 1, κ₀ = 0.5, Δ = 0.5, T = 2, singular values {START} at the start; time is learning rate times
        weight decay, summed over the steps. Lines: theory, points: one run at d = {dim}. Left: directions beyond the
        rank of the minimum (dashed) fade exponentially, each at its own rate, so that the spectrum has no break at any
        time. Right: the share above a cut falls to the rank as 1/t. Singular values of the run spread around a median
        of 0.05 at the start, over two decades, where the theory has one value: points lie lower at early times, and for
        the faintest values. The law is for gradient descent; with Adam it holds over about two decades."""
    return Drawing(picture=picture, caption=caption)
