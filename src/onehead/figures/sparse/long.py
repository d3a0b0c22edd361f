"""Long sequences: attention needs a signal of order sqrt(log L), linear models one of order sqrt(L)."""

import math

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, marks
from onehead.figures.registry import Drawing
from onehead.plot.style import ACCENT, AMBER, BEST, GREY, MODEL_COLOURS, PALE_BLUE, THEORY, finish_panel, panels

STYLES = {
    "bayes": ("any rule", BEST, ":", 1.8),
    "softmax": ("softmax attention", THEORY, "-", 1.8),
    "hardmax": ("hardmax attention", PALE_BLUE, "--", 1.6),
    "elementwise": ("element-wise attention", AMBER, "-.", 1.5),
    "pooled": ("pooled", MODEL_COLOURS["pooled"], "--", 1.8),
}


def draw(source: DataSource) -> Drawing:
    """Draw the lowest errors of models that know the signal for two growth laws of its strength, and trained heads."""
    lengths = source.pick((10, 30, 100, 300, 2000), (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000))
    growths = {
        "θ = 2.5 √log L": [(L, 2.5 * math.sqrt(math.log(L))) for L in lengths],
        "θ = √L": [(L, math.sqrt(L)) for L in lengths],
    }
    names = ("length", "strength")
    trained_at = [(L, 2.5 * math.sqrt(math.log(L)), math.sqrt(2.0 * math.log(L))) for L in (10, 30, 100, 300)]
    plan = {"alpha1": 4.0, "ridge": 1e-2, "cos_query": 0.95}
    head = source.theory("trained head, theory", "sparse.predict", {(*names, "sharpness"): trained_at}, plan)
    size = {**plan, "dim": source.pick(200, 500), "trials": source.pick(8, 16)}
    runs = source.train("trained", "sparse.train", {(*names, "sharpness"): trained_at}, size)

    picture, panes = panels(1, 2, width=4.7, height=3.8)
    for i, (axes, (growth, settings)) in enumerate(zip(panes, growths.items(), strict=True)):
        table = source.theory(f"oracle, {growth}", "sparse.oracle", {names: settings})
        for column, (label, colour, dash, width) in STYLES.items():
            line(axes, table, "length", column, label, color=colour, ls=dash, lw=width)
        if i == 0:
            label = "attention, trained readout, theory"
            line(axes, head, "length", "test_error", label, color=ACCENT, ls=(0, (4, 1)), lw=1.5)
            marks(axes, runs, "length", "test_error", f"attention, trained, d = {size['dim']}")
        finish_panel(axes, "sequence length L", "test error", growth, log="x", ylim=(-0.01, 0.5), legend=None)
        axes.axhline(0.0, color=GREY, lw=0.6)
    handles, labels = panes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=7.8)
    caption = f"""Lowest test error of models that know the signal direction, against the length of the sequence. With a
        signal that grows like √log L (left) attention makes fewer and fewer errors while pooled and element-wise models
        end at chance; linear models need a signal that grows like √L (right). Also on the left: a readout trained with
        α₁ = 4 and a query of cosine 0.95 and sharpness √(2 log L), ridge 0.01, theory and training with d =
        {size["dim"]}, {size["trials"]} trials. R = 1, π = 0.5; softmax, element-wise and Bayes errors are sampled, the
        others exact."""
    pairs = compare(head, runs, ("length",), ("test_error", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
