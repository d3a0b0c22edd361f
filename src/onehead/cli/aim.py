"""``onehead aim``: the attention-indexed model on the command line."""

from importlib import import_module

import click

from onehead import aim, plot
from onehead.aim.task import Learner, Task
from onehead.cli.aim_flags import accuracy_option, aim_options, alpha_option, alphas_option, bayes_option, tuned_option
from onehead.cli.frame import Answer, answered, failed_of, noted_of
from onehead.cli.groups import Guide
from onehead.cli.output import progress, working

__all__ = ["command"]

HATS = "q_hat, m_hat, sigma_hat"
OTHERS = {
    "bayes": lambda: import_module("onehead.cli.aim_bayes").bayes,
    "map": lambda: import_module("onehead.cli.aim_map").map_,
    "scaling": lambda: import_module("onehead.cli.aim_scaling").scaling,
    "features": lambda: import_module("onehead.cli.aim_scaling").features,
    "phase-diagram": lambda: import_module("onehead.cli.aim_scaling").phase_diagram,
    "train": lambda: import_module("onehead.cli.aim_train").train,
    "amp": lambda: import_module("onehead.cli.aim_train").amp,
    "compare": lambda: import_module("onehead.cli.aim_train").compare,
}


@click.group(cls=Guide, others=OTHERS)
def command() -> None:
    """The attention-indexed model: an attention head trained with weight decay."""


@command.command()
@aim_options()
@alpha_option
@accuracy_option
@answered(picture=False)
@click.option("--explain", is_flag=True, help="Say in words what the numbers mean.")
def predict(task: Task, learner: Learner, alpha: float, explain: bool, accuracy: float | None) -> Answer:
    """Errors, overlaps and rank of a trained head at one sample ratio.

    Example: onehead aim predict --alpha 0.5 --weight-decay 0.01
    """
    with working("solving"):
        point = aim.predict(task, learner, alpha, accuracy=accuracy)
    hats = f"{point.q_hat:.5g}, {point.m_hat:.5g}, {point.sigma_hat:.5g}"
    return Answer.of(
        point,
        {
            **(
                {"zero_one_error": "rows whose most attended token is not the label"}
                if point.zero_one_error is not None
                else {}
            ),
            **({"sectors": "of the symmetric and of the antisymmetric part of S"} if point.sectors is not None else {}),
            HATS: "conjugate unknowns",
            "replicon": "stable below 1",
            "residual": "largest relative change left in the equations",
            "status": f"kind of truth: {point.kind}",
        },
        # a table can say inf where JSON cannot
        shown={HATS: hats, "sectors": _sectors(point)}
        | ({"sigma": point.sigma} if "sigma" not in point.errors else {}),
        title=f"alpha = {alpha:g}",
        text=point.explain() if explain else "",
        warnings=point.certificate.warnings,
    )


def _sectors(point: "aim.Prediction") -> str:
    """q, m and Σ of the symmetric and the antisymmetric part."""
    return "; ".join(f"{name} {s:.5g}, {a:.5g}" for name, (s, a) in (point.sectors or {}).items())


@command.command()
@aim_options()
@alphas_option
@tuned_option
@bayes_option
@accuracy_option
@answered()
def curve(
    task: Task, learner: Learner, alphas: tuple[float, ...], tuned: bool, bayes: bool, accuracy: float | None
) -> Answer:
    """A learning curve.

    Example: onehead aim curve --alphas 0.05:2:46 --plot curve.png
    """
    with progress("learning curve", len(alphas)) as step:
        found = aim.curve(task, learner, alphas, tuned=tuned, bayes=bayes, accuracy=accuracy, progress=step)
    asked = [*(["weight_decay"] if tuned else []), *(["bayes_test_error"] if bayes else [])]
    errors = ("alpha", "test_error", *asked, "test_error_clean", "train_loss")
    return Answer(
        value=found.to_rows(),
        columns=(*errors, "rank", "q", "m", "sigma", "residual", "status"),
        draw=lambda: plot.learning_curve(found, thresholds=_marks(task, learner)),
        warnings=noted_of(found),
        failed=failed_of(found),
    )


def _marks(task: Task, learner: Learner) -> "aim.Thresholds":
    """Thresholds for a picture."""
    with working("thresholds"):
        return aim.thresholds(task, learner)


@command.command()
@aim_options()
@answered(csv_rows=False, picture=False)
def thresholds(task: Task, learner: Learner) -> Answer:
    """Sample ratios where behaviour changes, in units of alpha.

    Example: onehead aim thresholds --kappa0 0.5 --noise 0.5
    """
    with working("solving"):
        found = aim.thresholds(task, learner)
    emergence = f"below, S = 0 at weight decay {learner.weight_decay}"
    return Answer.of(
        found,
        {"emergence": emergence} | ({"separability": None} if found.separability is None else {}),
        title="thresholds (values of alpha)",
        warnings=[*found.status.split("; ")[1:], *found.certificate.warnings],
    )


@command.command()
@aim_options()
@alpha_option
@accuracy_option
@answered()
def spectrum(task: Task, learner: Learner, alpha: float, accuracy: float | None) -> Answer:
    """Law of the eigenvalues of the trained map.

    Example: onehead aim spectrum --alpha 4 --plot spectrum.png
    """
    with working("solving"):
        law = aim.spectrum(aim.predict(task, learner, alpha, accuracy=accuracy))
    bulks = ", ".join(f"[{low:.5g}, {high:.5g}]" for low, high in law.edges) or "none"
    return Answer.of(
        law,
        {"status": f"kind of truth: {law.kind}"} | ({} if law.levels else {"levels": None}),
        shown={
            "edges": bulks,
            "outliers": len(law.outliers),
            **({"levels": _levels(law.levels)} if law.levels else {}),
        },
        title=f"spectrum at alpha = {alpha:g}",
        rows=[{"x": x, "share": share} for x, share in law.levels]
        or [{"x": x, "density": y} for x, y in zip(law.x, law.density_values, strict=True)],
        draw=lambda: plot.spectrum(law),
    )


def _levels(levels: tuple[tuple[float, float], ...]) -> str:
    """The largest eigenvalues of a law without a density, with their shares."""
    said = [f"{x:.5g} ({share:.1%})" for x, share in levels[:-7:-1]]
    return ", ".join(said) + (f" and {len(levels) - len(said)} more" if len(levels) > len(said) else "")


@command.command()
@aim_options()
@alpha_option
@accuracy_option
@answered(picture=False)
def directions(task: Task, learner: Learner, alpha: float, accuracy: float | None) -> Answer:
    """What a trained map has in the leading directions of its target.

    Example: onehead aim directions --target power-law --gamma 0.75 --dim 100 --samples 1585 --weight-decay 1/d
    """
    with working("solving"):
        found = aim.directions(aim.predict(task, learner, alpha, accuracy=accuracy))
    rows = [one.to_dict() for one in found.directions]
    numbers = ("learned", "scatter", "position", "overlap")
    return Answer(
        value=found.to_dict(),
        columns=("target", *numbers),
        shown=[
            {"target": row["target"], **{name: _stated(row[name], row[f"{name}_err"]) for name in numbers}}
            for row in rows
        ],
        rows=rows,
        title=f"alpha = {alpha:g}: q = {_stated(found.q, found.errors['q'])}, m = {_stated(found.m, found.errors.get('m'))}",
        warnings=found.certificate.warnings,
    )


def _stated(value: float | None, error: float | None) -> str:
    """A number with its error; a dash for one that there is not."""
    if value is None:
        return "-"
    return f"{value:.5g}" + (f" ± {error:.1g}" if error else "")


@command.command()
@aim_options()
@alpha_option
@bayes_option
@accuracy_option
@answered()
def tune(task: Task, learner: Learner, alpha: float, bayes: bool, accuracy: float | None) -> Answer:
    """The weight decay with the lowest predicted test error.

    Example: onehead aim tune --alpha 0.5 --noise 0.5
    """
    with progress("weight decays", 36) as step:
        best = aim.tune(task, learner, alpha, bayes=bayes, accuracy=accuracy, progress=step)
    good = f"{best.flat_from:.3g} to {best.flat_to:.3g}"
    beside = ("bayes_test_error", "gap", "data_multiple", "logit_nuclear")
    return Answer.of(
        best,
        {
            "gain": f"over weight decay {learner.weight_decay}",
            "flat_from": None,
            "flat_to": None,
            "good range": "within 0.1 % of the best",
            "status": f"kind of truth: {best.kind}",
            **({} if bayes else dict.fromkeys(beside)),
        },
        shown={"weight_decay": best.weight_decay or "0+", "gain": best.gain, "good range": good}
        | ({"data_multiple": best.data_multiple} if bayes else {}),  # a table can say inf where JSON cannot
        title=f"best weight decay at alpha = {alpha:g}",
        rows=[{"weight_decay": decay, "test_error": error} for decay, error in best.scan],
        draw=lambda: plot.tuning(best),
        warnings=[text.rstrip(".") for text in best.beside] if bayes else [],
    )
