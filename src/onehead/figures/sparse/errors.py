"""Test and training error of attention, pooled and vectorised classifiers against the number of samples."""

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves
from onehead.figures.registry import Drawing
from onehead.plot.style import MODEL_COLOURS, finish_panel, panels

MODELS = {model: model for model in MODEL_COLOURS}


def draw(source: DataSource) -> Drawing:
    """Draw the test error and the training error."""
    measured = (0.5, 1.0, 2.0, 4.0, 6.0)
    alphas = sorted(
        {*source.pick((0.35, 0.7, 1.4, 2.5, 2.9, 3.3, 5.0, 8.0), tuple(0.3 + 0.3 * i for i in range(26))), *measured}
    )
    plan = {"ridge": 1e-5}
    theory = source.theory("theory", "sparse.predict", {"model": list(MODELS), "alpha": alphas}, plan)
    sizes = source.pick(
        {"attention": (300, 12), "pooled": (300, 12), "vectorised": (80, 12)},
        {"attention": (1000, 24), "pooled": (1000, 24), "vectorised": (200, 16)},
    )
    settings = [(model, dim, trials, alpha) for model, (dim, trials) in sizes.items() for alpha in measured]
    runs = source.train("trained", "sparse.train", {("model", "dim", "trials", "alpha"): settings}, plan)

    picture, (left, right) = panels(1, 2, width=4.6)
    curves(left, theory, runs, "alpha", "test_error", "model", MODELS)
    curves(right, theory, runs, "alpha", "train_error", "model", MODELS)
    xlabel = r"samples over dimension, $\alpha = n/d$"
    finish_panel(left, xlabel, "test error", "L = 10, R = 1, θ = 5, π = 0.5", ylim=(0.0, 0.5), legend="center right")
    left.legend(frameon=False, fontsize=7.8, loc="center right", bbox_to_anchor=(1.0, 0.3))
    finish_panel(right, xlabel, "training error", "", ylim=(-0.01, 0.2))
    caption = """Attention finds the one token that carries the signal and errs far less than linear classifiers of the
        mean token (pooled) or of all tokens (vectorised), which fit their training samples and still do not generalise;
        pooling stops fitting beyond its capacity, 2.95. L = 10, R = 1, θ = 5, π = 0.5, logistic loss, ridge 1e-5, β =
        8, half of the samples for the query;""" + ", ".join(f"{model} d = {dim}" for model, (dim, _) in sizes.items())
    caption += f", {sizes['attention'][1]} trials."
    pairs = compare(theory, runs, ("model", "alpha"), ("test_error", "train_error", "train_loss"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
