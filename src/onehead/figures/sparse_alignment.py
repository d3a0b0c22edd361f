"""How well one gradient step on the query finds the signal, against the samples spent on it."""

from onehead.figures.agreement import compare
from onehead.figures.calls import name
from onehead.figures.drawing import line, marks
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, panels, theory_line, training_marks

TASK = {"length": 10, "signal_tokens": 3, "strength": 6.0, "positive_rate": 0.2}


def draw(lab: Lab) -> Drawing:
    """Cosine of query and first readout with the signal against α₀, and how fast it approaches one."""
    measured = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    plan = {**TASK, "beta": 1.0}
    theory = lab.theory("theory", "sparse.align", {"alpha0": "log:0.1:30:40"}, plan)
    at = lab.theory("theory at measured points", "sparse.align", {"alpha0": measured}, plan)
    size = {**plan, "dim": lab.pick(500, 1000), "trials": lab.pick(16, 32)}
    runs = lab.train("trained", name("first_cosines"), {"alpha0": measured}, size)

    picture, (left, right) = panels(1, 2, width=4.6)
    x = theory.column("alpha0")
    line(left, theory, "alpha0", "cos_query", "query, theory")
    line(left, theory, "alpha0", "cos_readout", "first readout, theory", 1)
    theory_line(right, x, 1.0 - theory.column("cos_query"), "query, theory")
    constant = float(theory[0]["misalignment"])
    right.plot(x, constant / x, color="#7a7a7a", lw=1.0, ls=":", label=f"{constant:.3f}/α₀")
    label, samples = f"query, sampled (d = {size['dim']})", r"samples for the query over dimension, $\alpha_0$"
    marks(left, runs, "alpha0", "cos_query", label)
    if runs is not None:
        misses = 1.0 - runs.column("cos_query")
        training_marks(right, runs.column("alpha0"), misses, runs.column("cos_query_err"), label)
    finish(left, samples, "cosine with the signal", log="x", ylim=(0.0, 1.0))
    finish(right, samples, "1 - cosine of the query", log="xy")
    caption = f"""Cosine between the signal and the query after two gradient steps, against the samples spent on them: the
        query is better than the readout it was made from, and misses one by a constant over α₀. L = 10 tokens, R = 3 with
        signal, θ = 6, π = 0.2, logistic loss, η_w = η_b = 0.5; sampled with d = {size["dim"]}, {size["trials"]} trials."""
    return Drawing(picture=picture, caption=caption, pairs=compare(at, runs, ("alpha0",), ("cos_query",)))
