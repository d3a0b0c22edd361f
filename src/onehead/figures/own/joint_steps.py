"""Joint descent of sparse tokens, step by step: where to stop, and how the query is overfitted afterwards."""

from onehead.figures.agreement import pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import marks, rows_with
from onehead.figures.registry import Drawing
from onehead.plot.style import ACCENT, BEST, TRAINING, finish_panel, panels, theory_line
from onehead.sparse import Task, bayes

TASK = {"length": 10, "strength": 5.0}
RATES = {"alpha0": 1.0, "alpha1": 1.0, "eta_q": 1.0, "eta_w": 0.5, "eta_b": 3.0, "ridge": 0.1, "ridge_query": 0.03}
STEPS = 20
QUANTITIES = {"test_error": "test error", "train_error": "training error", "cos_query": "cos of the query"}


def draw(source: DataSource) -> Drawing:
    """Draw errors and cosines after every step, with means of trained runs."""
    plan = {**TASK, **RATES, "beta": 1.0}
    theory = source.theory("theory", "sparse.descend", {"steps": [STEPS]}, plan, data=False)
    measured = source.pick((4, 8, 12, 16), (3, 5, 7, 9, 11, 13, 16, 20))
    size = {**plan, "mode": "joint", "dim": source.pick(200, 500), "trials": source.pick(4, 8)}
    runs = source.train("trained", "sparse.train", {"steps": measured}, size)
    arrays = theory.arrays(0)
    steps = list(range(1, len(arrays["step_test_error"]) + 1))
    curves = {name: arrays[f"step_{name}"] for name in (*QUANTITIES, "cos_readout", "train_loss")}
    source.add("theory, every step", step=steps, **{name: values.tolist() for name, values in curves.items()})
    best = int(curves["test_error"].argmin())
    floor = bayes(Task(**TASK), RATES["alpha0"] + RATES["alpha1"]).test_error

    picture, (left, right) = panels(1, 2, width=4.9, height=3.7)
    shown = rows_with(runs)
    name = f"trained, d = {size['dim']}"
    for axes, quantity, k in ((left, "test_error", 0), (left, "train_error", 1), (right, "cos_query", 0)):
        theory_line(axes, steps, curves[quantity], QUANTITIES[quantity], k)
        if shown:
            marks(axes, shown, "steps", quantity, name if k == 0 else None, k)
    theory_line(right, steps, curves["cos_readout"], "cos of the readout", 1, color=ACCENT)
    left.axhline(floor, color=BEST, lw=0.9, ls=":", label="best possible learner")
    for axes, quantity in ((left, "test_error"), (right, "cos_query")):
        axes.plot(
            steps[best], curves[quantity][best], "o", ms=11.0, mfc="none", color=TRAINING, label="lowest test error"
        )
    finish_panel(left, "step", "share of mistakes", "stop in time", log="y", legend="upper right", ylim=(2e-3, 0.6))
    finish_panel(right, "step", "cosine with the signal", "the query is overfitted", legend="lower right")
    right.set_ylim(0.0, 1.02)
    for axes in (left, right):
        axes.set_xticks(range(0, STEPS + 1, 4))
    caption = f"""Query, readout and bias trained together by gradient descent from zero, on the same α = 2 samples
        at every step (logistic loss, rates 1, 0.5 and 3, ridges 0.03 and 0.1; L = 10, R = 1, θ = 5, π = 0.5).
        Lines: dynamical mean-field theory. Left: the test error is lowest after step {steps[best]},
        {curves["test_error"][best]:.4f}, and rises to {curves["test_error"][-1]:.4f} while the training error
        keeps falling; the best possible learner of the same data has {floor:.4f}. Right: from step
        {int(curves["cos_query"].argmax()) + 1} on the query turns away from the signal, to fit the samples."""
    pairs = [
        pair(row, label, f"step {row['steps']}", float(curves[key][row["steps"] - 1]), row[key], row[f"{key}_err"])
        for row in shown
        for key, label in QUANTITIES.items()
        if row[f"{key}_err"]
    ]
    return Drawing(picture=picture, caption=caption, pairs=pairs)
