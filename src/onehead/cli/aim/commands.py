"""``onehead aim``: theory of the attention-indexed model at one sample ratio, or along a curve of them."""

from dataclasses import replace
from importlib import import_module
from typing import Any, cast

import click

from onehead import aim, plot
from onehead.aim.task import Learner, Ratio, Task
from onehead.cli.aim.flags import accuracy_option, aim_options, alpha_option, alphas_option, tuned_option
from onehead.cli.parsing.groups import OrderedGroup
from onehead.cli.parsing.options import bayes_option, explain_option, seed_option
from onehead.cli.parsing.values import Number, Range
from onehead.cli.rendering.output import progress, spinner
from onehead.cli.rendering.render import CommandResult, output_options
from onehead.fields import parameters_of

HATS = "q_hat, m_hat, sigma_hat"
SEVERAL_HEADS = {
    "head_error": "squared error of the attention of one head",
    "q_cross": "S_h'S_k/d between two heads",
    "m_cross": "S_h'S*_k/d between two heads",
}
VALUES = {"value_scale": "size of the values: mean of the heads, differences"}
SLOPES_SHOWN = ("test_error", "rank")  # derivatives in the table of --sensitivity; JSON has all
LAZY_COMMANDS = {
    "data": lambda: import_module("onehead.cli.aim.data").data,
    "bayes": lambda: import_module("onehead.cli.aim.bayes").bayes,
    "map": lambda: import_module("onehead.cli.aim.map").map_,
    "scaling": lambda: import_module("onehead.cli.aim.scaling").scaling,
    "features": lambda: import_module("onehead.cli.aim.scaling").features,
    "phase-diagram": lambda: import_module("onehead.cli.aim.scaling").phase_diagram,
    "train": lambda: import_module("onehead.cli.aim.train").train,
    "amp": lambda: import_module("onehead.cli.aim.train").amp,
    "compare": lambda: import_module("onehead.cli.aim.train").compare,
}


@click.group(cls=OrderedGroup, lazy_commands=LAZY_COMMANDS)
def command() -> None:
    """The attention-indexed model: an attention head trained with weight decay."""


@command.command()
@aim_options()
@alpha_option
@accuracy_option
@output_options(picture=False)
@explain_option
@click.option("--sensitivity", is_flag=True, help="Add the derivatives of all numbers by the continuous parameters.")
def predict(
    task: Task, learner: Learner, alpha: float, explain: bool, accuracy: float | None, sensitivity: bool
) -> CommandResult:
    """Errors, overlaps and rank of a trained head at one sample ratio.

    Example: onehead aim predict --alpha 0.5 --weight-decay 0.01
    """
    with spinner("solving"):
        point = aim.predict(task, learner, alpha, accuracy=accuracy)
        slopes = _sensitivity(point) if sensitivity else {}
    hats = f"{point.q_hat:.5g}, {point.m_hat:.5g}, {point.sigma_hat:.5g}"
    derivatives = {f"{name} by {by}": slopes[by][name] for by in slopes for name in SLOPES_SHOWN}
    shown = CommandResult.of(
        point,
        {
            **(
                {}
                if point.zero_one_error is None
                else {"zero_one_error": "share of rows whose top token is not the label"}
            ),
            **({} if point.sectors is None else {"sectors": "of the symmetric and of the antisymmetric part of S"}),
            **({} if point.effective_dim is None else {"effective_dim": "dimensions that the tokens fill"}),
            **({} if point.head_error is None else SEVERAL_HEADS),
            **(VALUES if learner.values == "learnt" else {}),
            HATS: "conjugate fields",
            "replicon": "the solution is stable below 1",
            "residual": "largest relative residual of the equations",
            "status": f"kind of truth: {point.kind}",
            **dict.fromkeys(derivatives, "derivative, the other parameters fixed"),
        },
        # a table can show an infinite sigma, JSON cannot
        table={HATS: hats, "sectors": _sectors(point), "value_scale": _texts(point.value_scale or ())}
        | ({"sigma": point.sigma} if "sigma" not in point.errors else {})
        | derivatives,
        title=f"alpha = {alpha:g}",
        explain=explain,
    )
    return replace(shown, value=point.to_dict() | {"sensitivity": slopes}) if slopes else shown


def _sensitivity(point: "aim.Prediction") -> dict[str, dict[str, float]]:
    """Derivatives by each continuous parameter."""
    from onehead.aim.verbs.sensitivity import sensitivity_parameters

    return {name: point.sensitivity(name) for name in sensitivity_parameters(point)}


def _unasked_outlier(law: "aim.Spectrum") -> str:
    """Text with the singular value that the mean of the tokens adds, and its overlaps."""
    row = law.unasked_outlier
    if row is None or row.position is None:
        return "none"
    return f"{row.position:.5g} (overlap {row.query_overlap:.3g} with the mean, {row.key_overlap:.3g} with the field)"


def _texts(values: tuple[float, ...]) -> str:
    """Text with some numbers."""
    return ", ".join(f"{value:.5g}" for value in values)


def _sectors(point: "aim.Prediction") -> str:
    """Text with q, m and Σ of the symmetric and the antisymmetric part."""
    return "; ".join(f"{name} {s:.5g}, {a:.5g}" for name, (s, a) in (point.sectors or {}).items())


@command.command()
@aim_options()
@alphas_option
@tuned_option
@bayes_option
@accuracy_option
@output_options()
def curve(
    task: Task, learner: Learner, alphas: tuple[float, ...], tuned: bool, bayes: bool, accuracy: float | None
) -> CommandResult:
    """Learning curve: predictions at many sample ratios.

    Example: onehead aim curve --alphas 0.05:2:46 --plot curve.png
    """
    with progress("learning curve", len(alphas)) as step:
        found = aim.curve(task, learner, alphas, tuned=tuned, bayes=bayes, accuracy=accuracy, progress=step)
    optional = [*(["weight_decay"] if tuned else []), *(["bayes_test_error"] if bayes else [])]
    errors = ("alpha", "test_error", *optional, "test_error_clean", "train_loss")
    return CommandResult.of_points(
        found,
        (*errors, "rank", "q", "m", "sigma", "residual", "status"),
        draw=lambda: plot.learning_curve(found, thresholds=thresholds_to_mark(task, learner)),
    )


def thresholds_to_mark(task: Task, learner: Learner) -> "aim.Thresholds | None":
    """Thresholds to mark in a picture; None for several heads, where they are not known."""
    if task.heads > 1 or learner.values == "learnt":
        return None
    with spinner("thresholds"):
        return aim.thresholds(task, learner)


@command.command()
@aim_options()
@click.option(
    "--samples-per-dim",
    type=Range(gt=0.0, le=1e9),
    help="Numbers of samples over d at which to report how much is learned of the logits that all queries share.",
)
@output_options(csv_rows=False, picture=False)
def thresholds(task: Task, learner: Learner, samples_per_dim: tuple[float, ...] | None) -> CommandResult:
    """Sample ratios at which the behaviour of the trained head changes.

    Example: onehead aim thresholds --kappa0 0.5 --noise 0.5
    """
    with spinner("solving"):
        found = aim.thresholds(task, learner)
        early = aim.unasked_curve(task, learner, samples_per_dim) if samples_per_dim else ()
    result = CommandResult.of(
        found,
        {"emergence": f"below it S = 0 at weight decay {learner.weight_decay}"},
        title="thresholds (values of alpha)",
        warnings=[*found.status.split("; ")[1:], *found.certificate.warnings],
    )
    return _with_unasked_curve(result, early) if early else result


def _with_unasked_curve(result: CommandResult, early: "tuple[aim.UnaskedPoint, ...]") -> CommandResult:
    """Add how much is learned of the logits that all queries share from n ~ d samples."""
    names = ("samples_per_dim", "samples", "unasked_scale", "unasked_scale_err", "unasked_noise")
    rows = [{name: value for name, value in point.to_dict().items() if name in names} for point in early]
    lines = {f"n = {point.samples_per_dim:g} d": point for point in early}
    return replace(
        result,
        value={**cast("dict[str, Any]", result.value), "unasked_curve": rows},
        table={
            **cast("dict[str, Any]", result.table),
            **{name: _with_error(one.unasked_scale, one.errors["unasked_scale"]) for name, one in lines.items()},
        },
        columns={
            **cast("dict[str, str]", result.columns),
            **dict.fromkeys(lines, aim.UnaskedPoint.MEANINGS["unasked_scale"]),
        },
    )


POSITIVE = Number(gt=0.0)
RATIO_BOUNDS: Any = parameters_of(Ratio)["alpha"].bounds
ANY_RATIO = Number(special_values=("inf",), **RATIO_BOUNDS)


@command.command()
@aim_options()
@alpha_option
@click.option("--time", type=POSITIVE, help="λt: law after a finite time of gradient descent, not at the minimum.")
@click.option("--start", type=POSITIVE, help="With --time: singular value of the map at the start  [default: 0.1]")
@click.option("--cut", type=POSITIVE, help="With --time: value above which ones are counted  [default: 0.001]")
@click.option("--train", is_flag=True, help="With --time and --dim: gradient descent of a head of this size beside it.")
@accuracy_option
@output_options()
def spectrum(
    task: Task,
    learner: Learner,
    alpha: float,
    accuracy: float | None,
    time: float | None,
    known_dim: int | None,
    **flags: Any,
) -> CommandResult:
    """Eigenvalue distribution of the trained map, at the minimum or after a finite time of gradient descent.

    Example: onehead aim spectrum --alpha 4 --plot spectrum.png
    """
    settings = {name: flags[name] for name in ("start", "cut") if flags[name] is not None}
    if time is None and settings:
        raise click.UsageError("--start and --cut belong to --time.")
    if flags["train"] and (time is None or known_dim is None):
        raise click.UsageError("--train needs --time, and --dim, the dimension of the head that is trained.")
    with spinner("solving"):
        point = aim.predict(task, learner, alpha, accuracy=accuracy)
        if time is not None:
            law = aim.training_time(point, time, **settings)
            return _finite_time(law, _descent(law, known_dim) if flags["train"] and known_dim is not None else None)
        found = aim.spectrum(point)
    bulks = ", ".join(f"[{low:.5g}, {high:.5g}]" for low, high in found.edges) or "none"
    return CommandResult.of(
        found,
        ({"unasked_outlier": "singular value that the mean of the tokens adds"} if task.unasked else {})
        | ({} if found.levels else {"levels": None}),
        kind=True,
        table={
            "edges": bulks,
            "outliers": len(found.outliers),
            **({"unasked_outlier": _unasked_outlier(found)} if task.unasked else {}),
            **({"levels": _levels(found.levels)} if found.levels else {}),
        },
        title=f"spectrum at alpha = {alpha:g}",
        rows=[{"x": x, "share": share} for x, share in found.levels]
        or [{"x": x, "density": y} for x, y in zip(found.x, found.density_values, strict=True)],
        draw=lambda: plot.spectrum(found),
    )


def _descent(law: "aim.FiniteTimeSpectrum", dim: int) -> "aim.GradientDescent":
    """Gradient descent of a head of finite size up to the time of a law."""
    point = law.point
    return aim.gradient_descent(
        point.task, point.learner, dim=dim, alpha=point.alpha, times=[law.time], start=law.start, cut=law.cut
    )


def _finite_time(found: "aim.FiniteTimeSpectrum", run: "aim.GradientDescent | None") -> CommandResult:
    """Result of ``spectrum --time``, with gradient descent beside it."""
    result = CommandResult.of(
        found,
        {"status": f"kind of truth: {found.kind}"},
        title=f"singular values after λt = {found.time:g}",
        rows=[{"x": x, "density": y} for x, y in zip(found.x, found.density_values, strict=True)],
        draw=lambda: plot.fading(found, trained=run),
        warnings=found.certificate.warnings,
    )
    if run is None:
        return result
    shown = {
        "trained rank_above": run.rank_above[0],
        "trained largest": float(run.values[0, 0]),
        "trained second_moment": float((run.values[0] ** 2).mean()),
    }
    return replace(
        result,
        value={**cast("dict[str, Any]", result.value), "trained": run.to_dict()},
        table={**cast("dict[str, Any]", result.table), **shown},
        columns={**cast("dict[str, str]", result.columns), **dict.fromkeys(shown, f"gradient descent, d = {run.dim}")},
    )


@command.command()
@aim_options("product", attention="cross", values="learnt", heads=2)
@click.option(
    "--alpha", type=ANY_RATIO, required=True, help="Sample ratio α = n/d², or inf (weight decays are then λ/α)."
)
@click.option("--train", is_flag=True, help="Train heads of dimension --dim from several starts beside it.")
@seed_option()
@output_options(picture=False, csv_rows=False)
def survivors(
    task: Task, learner: Learner, alpha: float | str, train: bool, known_dim: int | None, seed: int
) -> CommandResult:
    """Which of several heads that learn their values survive where the target has one head.

    Example: onehead aim survivors --heads 2 --alpha inf --weight-decay 0.1
    """
    if train and known_dim is None:
        raise click.UsageError("--train needs --dim, the dimension of the heads that are trained.")
    alpha = float(alpha)
    with spinner("solving"):
        if train and known_dim is not None:
            found = aim.train_survivors(task, learner, alpha, dim=known_dim, seed=seed)
        else:
            found = aim.survivors(task, learner, alpha, seed=seed)
    shown = {name: _texts(getattr(found, name)) for name in ("scales", "trace_norms")}
    reached = {f"from {one.start}": f"{one.alive} alive, objective {one.objective:.6g}" for one in found.starts}
    trained = {
        f"trained from {one.start}": f"{one.alive} alive, scales {_texts(one.scales)}, objective {one.objective:.6g}"
        for one in found.trained
    }
    return CommandResult.of(
        found,
        {
            "status": f"kind of truth: {found.kind}",
            **dict.fromkeys(reached, "minimum that this start reaches"),
            **dict.fromkeys(trained, f"training, d = {known_dim}"),
        },
        table=shown | reached | trained,
        title=f"{task.heads} heads for one, alpha = {alpha:g}",
        warnings=found.certificate.warnings,
    )


def _levels(levels: tuple[tuple[float, float], ...]) -> str:
    """Text with the largest eigenvalues of a law without a density, and their shares."""
    texts = [f"{x:.5g} ({share:.1%})" for x, share in levels[:-7:-1]]
    return ", ".join(texts) + (f" and {len(levels) - len(texts)} more" if len(levels) > len(texts) else "")


@command.command()
@aim_options()
@alpha_option
@accuracy_option
@output_options(picture=False)
def directions(task: Task, learner: Learner, alpha: float, accuracy: float | None) -> CommandResult:
    """Strength, position and overlap of a trained map in the leading directions of its target.

    Example: onehead aim directions --target power-law --gamma 0.75 --dim 100 --samples 1585 --weight-decay 1/d
    """
    with spinner("solving"):
        found = aim.directions(aim.predict(task, learner, alpha, accuracy=accuracy))
    rows = [one.to_dict() for one in found.directions]
    numbers = ("learned", "scatter", "position", "overlap")
    q, m = _with_error(found.q, found.errors["q"]), _with_error(found.m, found.errors.get("m"))
    return CommandResult(
        value=found.to_dict(),
        columns=("target", *numbers),
        table=[
            {"target": row["target"], **{name: _with_error(row[name], row[f"{name}_err"]) for name in numbers}}
            for row in rows
        ],
        rows=rows,
        title=f"alpha = {alpha:g}: q = {q}, m = {m}",
        warnings=found.certificate.warnings,
    )


def _with_error(value: float | None, error: float | None) -> str:
    """Text with a number and its error; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.5g}" + (f" ± {error:.1g}" if error else "")


@command.command()
@aim_options()
@alpha_option
@bayes_option
@accuracy_option
@output_options()
def tune(task: Task, learner: Learner, alpha: float, bayes: bool, accuracy: float | None) -> CommandResult:
    """Weight decay with the lowest predicted test error.

    Example: onehead aim tune --alpha 0.5 --noise 0.5
    """
    from onehead.aim.verbs.bayes import describe_bayes_gap

    with progress("weight decays", 36) as step:
        best = aim.tune(task, learner, alpha, bayes=bayes, accuracy=accuracy, progress=step)
    good = f"{best.flat_from:.3g} to {best.flat_to:.3g}"
    comparison = describe_bayes_gap(task, alpha, best.test_error) if bayes and not best.point.directions else []
    bayes_quantities = ("bayes_test_error", "gap", "data_multiple", "logit_nuclear")
    return CommandResult.of(
        best,
        {
            "gain": f"test error at weight decay {learner.weight_decay}, minus the lowest",
            "flat_from": None,
            "flat_to": None,
            "good range": "within 0.1 % of the best",
            **({} if bayes else dict.fromkeys(bayes_quantities)),
        },
        kind=True,
        table={"weight_decay": best.weight_decay or "0+", "gain": best.gain, "good range": good}
        | ({"data_multiple": best.data_multiple} if bayes else {}),  # a table can show inf, JSON cannot
        title=f"best weight decay at alpha = {alpha:g}",
        rows=[{"weight_decay": decay, "test_error": error} for decay, error in best.scan],
        draw=lambda: plot.tuning(best),
        warnings=[text.rstrip(".") for text in comparison],
    )
