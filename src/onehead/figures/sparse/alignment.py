"""Alignment of the query with the signal after one gradient step, against the samples used for it."""

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, marks
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import GREY, finish_panel, panels, theory_line, training_marks

TASK = {"length": 10, "signal_tokens": 3, "strength": 6.0, "positive_rate": 0.2}


def draw(source: DataSource) -> Drawing:
    """Draw the cosines of query and first readout with the signal against α₀, and how fast the first approaches one."""
    measured = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    plan = {**TASK, "beta": 1.0}
    theory = source.theory("theory", "sparse.align", {"alpha0": "log:0.1:30:40"}, plan)
    predictions = source.theory("theory at measured points", "sparse.align", {"alpha0": measured}, plan)
    size = {**plan, "dim": source.pick(500, 1000), "trials": source.pick(16, 32)}
    runs = source.train("trained", call_name("first_cosines"), {"alpha0": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    x = theory.column("alpha0")
    line(left, theory, "alpha0", "cos_query", "query, theory")
    line(left, theory, "alpha0", "cos_readout", "first readout, theory", 1)
    theory_line(right, x, 1.0 - theory.column("cos_query"), "query, theory")
    constant = float(theory[0]["misalignment"])
    right.plot(x, constant / x, color=GREY, lw=1.0, ls=":", label=f"{constant:.3f}/α₀")
    label, samples = f"query, sampled (d = {size['dim']})", r"samples for the query over dimension, $\alpha_0$"
    marks(left, runs, "alpha0", "cos_query", label)
    if runs is not None:
        shortfall = 1.0 - runs.column("cos_query")
        training_marks(right, runs.column("alpha0"), shortfall, runs.column("cos_query_err"), label)
    finish_panel(left, samples, "cosine with the signal", log="x", ylim=(0.0, 1.0))
    finish_panel(right, samples, "1 - cosine of the query", log="xy")
    caption = f"""Cosine between the signal and the query after two gradient steps, against the samples spent on them:
        the query is better aligned than the readout it was made from, and its cosine falls short of one by a constant
        over α₀. L = 10 tokens, R = 3 with signal, θ = 6, π = 0.2, logistic loss, η_w = η_b = 0.5; sampled with d =
        {size["dim"]}, {size["trials"]} trials."""
    return Drawing(picture=picture, caption=caption, pairs=compare(predictions, runs, ("alpha0",), ("cos_query",)))
