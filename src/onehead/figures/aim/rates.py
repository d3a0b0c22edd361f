"""Figure 5 of the attention-indexed model: local exponents over samples and weight decay."""

import numpy as np

from onehead.figures.data_source import DataSource
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot import phases

GAMMA = 0.75


def draw(source: DataSource) -> Drawing:
    """Draw the local exponents over (log_d n, log_d λ), with the mechanisms outlined."""
    from matplotlib.figure import Figure as Picture

    from onehead.aim.targets import PowerLaw
    from onehead.aim.task import Learner, Task
    from onehead.aim.verbs.phases import Cell, PhaseDiagram

    dim = source.pick(100, 200)
    parameters = {"gamma": GAMMA, "dim": dim, "noise": 0.5, "first": 0.8, "last": 3.2, "step": source.pick(0.2, 0.1)}
    decays = np.round(np.arange(-1.5, 1.51, source.pick(0.5, 0.25)), 10).tolist()
    table = source.theory("theory", call_name("phase_row"), {"log_lambda": decays}, parameters)
    cells = []
    for i, row in enumerate(table):
        arrays = table.arrays(i)
        columns = {key: arrays[key].tolist() for key in ("log_n", "excess", "exponent", "region")}
        source.add("cells", log_lambda=[row["log_lambda"]] * len(columns["log_n"]), **columns)
        for log_n, excess, exponent, region in zip(*columns.values(), strict=True):
            cells.append(
                Cell(
                    log_n=log_n,
                    log_lambda=row["log_lambda"],
                    samples=dim**log_n,
                    weight_decay=dim ** row["log_lambda"],
                    excess_error=excess if np.isfinite(excess) else None,
                    local_exponent=exponent if np.isfinite(exponent) else None,
                    region=None if region == "failed" else region,
                    status="converged",
                    kind=row["kind"],
                )
            )
    task = Task(target=PowerLaw(gamma=GAMMA, dim=dim), noise=0.5)
    steps = tuple(float(x) for x in table.arrays(0)["log_n"])
    diagram = PhaseDiagram(task=task, learner=Learner(), log_n=steps, log_lambda=tuple(decays), cells=tuple(cells))
    picture = Picture(figsize=(8.2, 4.4), layout="constrained")
    phases(diagram, ax=picture.subplots())
    caption = f"""Local exponent of the excess error over the number of samples n = d^a and the weight decay λ = d^b,
        with the mechanism that limits the head in each region, and the lines along which the exponent equals the two
        values of scaling arguments. Theory alone, with Gaussian logits, whose exponents hardly differ from those with
        leading directions. Power law γ = {GAMMA:g}, d = {dim}, Δ = 0.5, T = 2."""
    return Drawing(picture=picture, caption=caption)
