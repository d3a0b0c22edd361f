"""Pictures of sparse-token results: each function takes results and axes, computes nothing, returns the axes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._call import drawing, on, pen
from onehead.plot._maps import SPARSE
from onehead.plot.style import ACCENT, GREY, THEORY, TRAINING, dress, guide

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.sparse import (
        Alignment,
        AmpResult,
        Best,
        Capacity,
        Curve,
        Oracle,
        Prediction,
        TrainingResult,
        Tuned,
    )

__all__ = ["alignment", "best_error", "capacity", "error_curve", "hard_phase", "oracle", "tuned"]

COLOURS = {"attention": THEORY, "pooled": TRAINING, "vectorised": ACCENT}
STYLES = {"attention": "-", "pooled": "--", "vectorised": ":"}
RATES = ("test_error", "train_error", "train_loss")  # numbers that are not negative


def _spread_out(values: Sequence[float]) -> bool:
    """Whether an axis reads better in logarithms."""
    return len(values) > 0 and min(values) > 0.0 and max(values) / min(values) >= 20.0


def _finish(
    axes: "Axes", name: str, values: Sequence[float], ylabel: str, ylim: tuple[float, None] | None = None
) -> "Axes":
    axes.grid(alpha=0.25, linewidth=0.6)
    log = "x" if _spread_out(values) else ""
    return dress(axes, SPARSE.get(name, name.replace("_", " ")), ylabel, log=log, ylim=ylim, fontsize=10.0)


@drawing
def alignment(
    results: "Sequence[Alignment]",
    x: Sequence[float],
    name: str = "alpha0",
    ax: "Axes | None" = None,
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
) -> "Axes":
    """Cosines of query and first readout with the signal, against ``x``; ``quantity`` draws one of them alone."""
    axes = on(ax)
    lines = {
        "cos_query": ("query", COLOURS["attention"], "-"),
        "cos_readout": ("first readout", COLOURS["pooled"], "--"),
    }
    _lines(axes, x, results, lines, quantity, label, color)
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    return _finish(axes, name, x, "cosine with the signal")


def _lines(
    axes: "Axes",
    x: Sequence[float],
    results: Sequence[Any],
    lines: Mapping[str, tuple[str, Any, Any]],
    quantity: str | None,
    label: str | None,
    color: Any,
) -> None:
    """A line for every number, or for one of them; what a result does not have is left out."""
    if quantity is not None and quantity not in lines:
        raise InvalidArgument("quantity", quantity, " or ".join(lines), lines)
    look, shown = pen(axes, label, color), [*lines] if quantity is None else [quantity]
    for name in shown:
        text, colour, dash = lines[name]
        points = [(a, b) for a, b in zip(x, [getattr(r, name) for r in results], strict=True) if b is not None]
        if not points:
            continue
        words = look.main(text, text) if name == shown[0] else {"label": text}
        width = 4.0 if name == "bayes" and look.first else 1.5  # what lies on it stays visible
        usual = look.colour(colour)
        axes.plot(
            *zip(*points, strict=True), linestyle=dash, color=usual, linewidth=width, marker=_dot(points), **words
        )


def _dot(points: Sequence[Any]) -> str:
    """One point has no line."""
    return "o" if len(points) == 1 else ""


@drawing
def error_curve(
    curves: "Curve | Sequence[Curve] | Mapping[str, Curve | tuple[Sequence[float], Sequence[Prediction]]]",
    name: str = "alpha",
    ax: "Axes | None" = None,
    runs: "TrainingResult | Sequence[TrainingResult] | Mapping[str, Any] | None" = None,
    best: "tuple[Sequence[float], Sequence[Best]] | None" = None,
    *,
    quantity: str = "test_error",
    label: str | None = None,
    color: Any = None,
) -> "Axes":
    """Predicted test errors against α, or another word, with measurements and the best possible learner laid over them.

    Parameters
    ----------
    curves : Curve, sequence of Curve, or mapping
        Answers of ``curve``; or labels with such answers, or with values of a word and the predictions there.
    name : str
        The word across.
    ax : matplotlib Axes, optional
        Where to draw; else a new figure. Further curves are laid over it by calling again with the same axes.
    runs : TrainingResult, sequence of them, or mapping, optional
        Trained models; or labels with values of the word and the runs there.
    best : pair of values and answers of ``bayes``, optional
        A curve that was made with ``bayes=True`` has its own.
    quantity : str
        The number that is drawn.
    label, color : optional
        Of a single curve.
    """
    axes, seen = on(ax), list[float]()
    if best is not None:
        _best_line(axes, *best)
    for told, x, y, beside in _series(curves, quantity):
        look = pen(axes, label if label is not None or told in COLOURS else told, color)
        words = look.main(told, told)
        plain = told in COLOURS and color is None and label is None
        dash, colour = (STYLES[told], COLOURS[told]) if plain else ("-", look.color)
        if beside is not None and best is None:
            axes.plot(x, beside, color="0.75", linewidth=4.0, label="best possible learner")
        axes.plot(x, y, color=colour, linestyle=dash, marker=_dot(y), **words)
        seen += list(x)
    for told, x, measured in _runs(runs):
        means, errors = ([f(r, quantity) for r in measured] for f in (getattr, _error))
        usual = COLOURS.get(told, TRAINING) if color is None else color
        own = told if label is None else label
        axes.errorbar(x, means, errors, fmt="o", ms=4, color=usual, label=f"{own}, trained", zorder=5)
        seen += list(x)
    ylim = (0.0, None) if quantity in RATES else None
    return _finish(axes, name, seen, quantity.replace("_", " "), ylim)


def _error(run: Any, name: str) -> float:
    """The standard error of a mean, nothing where a single run has none."""
    return float(np.nan_to_num(run.errors.get(name, 0.0)))


Line = tuple[str, Sequence[float], Sequence[float], Any]


def _series(curves: Any, quantity: str) -> Iterator[Line]:
    """Label, places and heights of every curve, and the best possible learner where it has one."""
    if isinstance(curves, Mapping):
        for told, given in curves.items():
            if isinstance(given, tuple):
                x, results = given
                yield told, x, [getattr(r, quantity) for r in results], None
            else:
                yield (told, *_columns(given, quantity))
        return
    for given in curves if isinstance(curves, (list, tuple)) else [curves]:
        if not hasattr(given, "column"):
            raise InvalidArgument("curves", given, "an answer of curve, a list of them, or a mapping of labels to them")
        yield (getattr(given, "model", "theory"), *_columns(given, quantity))


def _columns(curve: Any, quantity: str) -> tuple[Any, Any, Any]:
    """Sample ratios in order, the number there, and that of the best possible learner."""
    alpha = curve.column("alpha")
    order = np.argsort(alpha)
    best = (
        curve.column("bayes_test_error")[order] if quantity == "test_error" and getattr(curve, "best", None) else None
    )
    return alpha[order], curve.column(quantity)[order], best


def _runs(runs: Any) -> Iterator[tuple[str, Sequence[float], Sequence[Any]]]:
    """Label, places and results of every group of trained models; those of one model belong together."""
    if isinstance(runs, Mapping):
        yield from ((told, *given) for told, given in runs.items())
        return
    several = list(runs) if isinstance(runs, (list, tuple)) else [runs] if runs is not None else []
    for model in dict.fromkeys(run.model for run in several):
        own = [run for run in several if run.model == model]
        yield model, [run.protocol.alpha for run in own], own


def _best_line(axes: "Axes", x: Sequence[float], results: "Sequence[Best]") -> None:
    """The best possible learner, wide and grey as any rule is elsewhere; message passing where it stays behind."""
    axes.plot(x, [r.test_error for r in results], color="0.75", linewidth=4.0, label="best possible learner")
    if any(r.hard for r in results):
        behind = [r.test_error_amp if r.hard else np.nan for r in results]
        axes.plot(x, behind, color=GREY, linestyle=(0, (1, 1.2)), linewidth=1.8, label="message passing, hard phase")


@drawing
def best_error(
    results: "Sequence[Best]",
    x: Sequence[float],
    name: str = "alpha",
    ax: "Axes | None" = None,
    runs: "tuple[Sequence[float], Sequence[AmpResult]] | None" = None,
) -> "Axes":
    """Error of the best possible learner against ``x``; against length or strength the phases, where there are any.

    Measurements, with standard errors, are laid over the errors; ``ax`` is where to draw.
    """
    if runs is None and name in ("length", "strength") and any(r.algorithmic_threshold is not None for r in results):
        return hard_phase(results, x, name, ax)
    axes = on(ax)
    _best_line(axes, x, results)
    axes.plot(x, [r.floor for r in results], color=THEORY, linestyle="--", linewidth=1.2, label="signal known")
    if runs is not None:
        where, found = runs
        label = f"{found[0].method}, d = {found[0].dim}" if found else ""
        means, errors = [r.test_error for r in found], [r.errors["test_error"] for r in found]
        axes.errorbar(where, means, errors, fmt="o", ms=4, color=TRAINING, label=label)
    if name == "alpha" and results and results[0].algorithmic_threshold is not None:
        guide(axes, x=results[0].information_threshold, text="possible from here on", at=0.6)
        guide(axes, x=results[0].algorithmic_threshold, text="easy from here on", at=0.6)
    return _finish(axes, name, x, "test error", (0.0, None))


@drawing
def hard_phase(results: "Sequence[Best]", x: Sequence[float], name: str = "length", ax: "Axes | None" = None) -> "Axes":
    """Samples from which the signal can be found, and found quickly, against ``x``; for balanced classes those of the two steps, too."""
    axes = on(ax)
    kept = [(at, r) for at, r in zip(x, results, strict=True) if r.algorithmic_threshold is not None]
    where = [at for at, _ in kept]
    possible, easy = (
        [float(getattr(r, key)) for _, r in kept] for key in ("information_threshold", "algorithmic_threshold")
    )
    axes.plot(where, easy, color=THEORY, label="message passing finds it")
    axes.plot(where, possible, color=ACCENT, linestyle="--", label="anybody could find it")
    axes.fill_between(where, possible, easy, color=TRAINING, alpha=0.18, linewidth=0.0, label="hard")
    if all(r.task.positive_rate == 0.5 for _, r in kept):
        steps = [4.0 * r.task.length / (r.task.strength**3 * r.task.signal_tokens**2) for _, r in kept]
        axes.plot(where, steps, color=TRAINING, linestyle="-.", label="two gradient steps")
    _finish(axes, name, where, SPARSE["alpha"])
    axes.set_yscale("log")
    return axes


@drawing
def capacity(
    results: "Sequence[Capacity]",
    x: Sequence[float],
    name: str = "cos_query",
    ax: "Axes | None" = None,
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
) -> "Axes":
    """Largest separable sample ratios of the three models, against ``x``; ``quantity`` draws one model alone."""
    axes = on(ax)
    _lines(
        axes, x, results, {model: (model, COLOURS[model], STYLES[model]) for model in STYLES}, quantity, label, color
    )
    axes.set_yscale("log")
    for write in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        write("{x:g}")
    return _finish(axes, name, x, "largest separable sample ratio")


@drawing
def oracle(
    results: "Sequence[Oracle]",
    x: Sequence[float],
    name: str = "length",
    ax: "Axes | None" = None,
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
) -> "Axes":
    """Best achievable errors against ``x``; ``quantity`` draws one rule alone."""
    axes = on(ax)
    lines = {
        "bayes": ("any rule", "0.8", "-"),
        "softmax": ("softmax attention", COLOURS["attention"], "-"),
        "hardmax": ("hardmax attention", COLOURS["attention"], "--"),
        "elementwise": ("element-wise attention", "#7a4b9a", "-"),
        "pooled": ("pooled", COLOURS["pooled"], "-"),
        "vectorised": ("best linear", COLOURS["vectorised"], ":"),
    }
    _lines(axes, x, results, lines, quantity, label, color)
    return _finish(axes, name, x, "lowest test error", (0.0, None))


@drawing
def tuned(found: "Tuned", ax: "Axes | None" = None) -> "Axes":
    """Predicted test error over split and sharpness, each at its best ridge, with the optimum marked."""
    axes = on(ax)
    splits, sharpnesses = (sorted({row[i] for row in found.scan}) for i in (0, 1))
    best: dict[tuple[float, float], float] = {}
    for split, sharpness, _, error in found.scan:
        best[split, sharpness] = min(error, best.get((split, sharpness), 1.0))
    values = np.array([[best[split, sharpness] for split in splits] for sharpness in sharpnesses])
    levels = np.linspace(values.min(), min(values.max(), 0.5), 15)
    filled = axes.contourf(splits, sharpnesses, values, levels=levels, cmap="Blues_r", extend="max")
    axes.figure.colorbar(filled, ax=axes, label="test error at the best ridge", format="%.3f")
    axes.plot([found.alpha0 / found.alpha], [found.sharpness], "o", color=TRAINING, ms=8, label="best")
    errors = f"{found.test_error:.4f}, {found.given_test_error:.4f} as given, {found.pooled_test_error:.4f} pooled"
    title = rf"$\alpha={found.alpha:g}$: test error {errors}"
    dress(axes, SPARSE["split"], SPARSE["sharpness"], title, log="y", legend="upper right", frameon=True)
    axes.set_yticks(sharpnesses, [f"{value:g}" for value in sharpnesses])
    axes.minorticks_off()
    return axes
