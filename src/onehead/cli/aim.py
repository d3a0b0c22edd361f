"""``onehead aim``: the attention-indexed model on the command line."""

from typing import TYPE_CHECKING

import click

from onehead.cli.aim_flags import aim_options, alpha_option, alphas_option
from onehead.cli.aim_scaling import features, phase_diagram, scaling
from onehead.cli.aim_train import amp, compare, train
from onehead.cli.frame import Answer, answered, failed_of
from onehead.cli.groups import Guide
from onehead.cli.output import progress, working

if TYPE_CHECKING:
    from onehead.aim import Learner, Task

__all__ = ["command"]


@click.group(cls=Guide, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The attention-indexed model: a tied attention head trained with weight decay."""


@command.command()
@aim_options()
@alpha_option
@answered(picture=False)
@click.option("--explain", is_flag=True, help="Say in words what the numbers mean.")
def predict(task: "Task", learner: "Learner", alpha: float, explain: bool) -> Answer:
    """Errors, overlaps and rank of a trained head at one sample ratio.

    Example: onehead aim predict --alpha 0.5 --weight-decay 0.01
    """
    from onehead import aim

    with working("solving"):
        point = aim.predict(task, learner, alpha)
    row = point.to_dict()
    hats = "q_hat, m_hat, sigma_hat"
    endless = {"sigma": point.sigma, hats: f"{point.q_hat:.5g}, {point.m_hat:.5g}, {point.sigma_hat:.5g}"}
    return Answer(
        value=row,
        shown={**row, **endless},  # a table can say inf where JSON cannot
        columns={
            "test_error": "on fresh samples, labels with noise",
            "test_error_clean": "on fresh samples, labels without noise",
            "excess_error": "above the limit of infinitely many samples",
            "train_loss": "objective over d² at the minimum, penalty included",
            "rank": "share of eigenvalues of S that are not zero",
            "q": "Tr S²/d",
            "m": "Tr S S*/d, overlap with the target",
            "sigma": "Σ, reaction of the logits to one sample",
            hats: "conjugate unknowns",
            "replicon": "stable below 1",
            "residual": "largest relative change left in the equations",
            "quadrature_error": "of the test error, from a second rule",
            "status": f"kind of truth: {point.kind}",
        },
        title=f"alpha = {alpha:g}",
        text=point.explain() if explain else "",
        warnings=point.certificate.warnings,
    )


@command.command()
@aim_options()
@alphas_option
@answered()
def curve(task: "Task", learner: "Learner", alphas: tuple[float, ...]) -> Answer:
    """A learning curve.

    Example: onehead aim curve --alphas 0.05:2:46 --plot curve.png
    """
    from onehead import aim, plot

    with progress("learning curve", len(alphas)) as step:
        found = aim.curve(task, learner, alphas, progress=step)
    errors = ("alpha", "test_error", "test_error_clean", "train_loss")
    return Answer(
        value=found.to_rows(),
        columns=(*errors, "rank", "q", "m", "sigma", "residual", "status"),
        draw=lambda: plot.learning_curve(found, thresholds=aim.thresholds(task, learner)),
        failed=failed_of(found),
    )


@command.command()
@aim_options()
@answered(csv_rows=False, picture=False)
def thresholds(task: "Task", learner: "Learner") -> Answer:
    """Sample ratios where behaviour changes, in units of alpha.

    Example: onehead aim thresholds --kappa0 0.5 --noise 0.5
    """
    from onehead import aim

    with working("solving"):
        found = aim.thresholds(task, learner)
    return Answer(
        value=found.to_dict(),
        columns={
            "interpolation": "up to here every label can be fitted (λ → 0⁺)",
            "recovery": "from here on λ → 0⁺ finds the target exactly (no noise)",
            "bayes_optimal": "the best possible learner recovers from here on (no noise)",
            "direct": "interpolation when S is trained directly",
            "emergence": f"below, S = 0 at weight decay {learner.weight_decay}",
            "peak_test_error": "test error at interpolation (λ → 0⁺)",
        },
        title="thresholds (values of alpha)",
    )


@command.command()
@aim_options()
@alpha_option
@answered()
def spectrum(task: "Task", learner: "Learner", alpha: float) -> Answer:
    """Law of the eigenvalues of the trained map.

    Example: onehead aim spectrum --alpha 4 --plot spectrum.png
    """
    from onehead import aim, plot

    with working("solving"):
        law = aim.spectrum(aim.predict(task, learner, alpha))
    row = law.to_dict()
    bulks = ", ".join(f"[{low:.5g}, {high:.5g}]" for low, high in law.edges) or "none"
    return Answer(
        value=row,
        shown={**row, "edges": bulks, "outliers": len(law.outliers)},
        columns={
            "zero_mass": "share of eigenvalues that are exactly zero",
            "rank": "share that are not",
            "edges": "one interval per bulk",
            "outliers": "eigenvalues outside the bulks",
            "mean": "Tr S/d",
            "second_moment": "Tr S²/d",
            "status": f"kind of truth: {law.certificate.kind}",
        },
        title=f"spectrum at alpha = {alpha:g}",
        rows=[{"x": x, "density": y} for x, y in zip(row["x"], row["density"], strict=True)],
        draw=lambda: plot.spectrum(law),
    )


@command.command()
@aim_options()
@alpha_option
@answered()
def tune(task: "Task", learner: "Learner", alpha: float) -> Answer:
    """The weight decay with the lowest predicted test error.

    Example: onehead aim tune --alpha 0.5 --noise 0.5
    """
    from onehead import aim, plot

    with progress("weight decays", 36) as step:
        best = aim.tune(task, learner, alpha, progress=step)
    row = best.to_dict()
    good = f"{best.flat_from:.3g} to {best.flat_to:.3g}"
    return Answer(
        value=row,
        shown={**row, "weight_decay": best.weight_decay or "0+", "gain": best.gain, "good range": good},
        columns={
            "weight_decay": "λ with the lowest test error",
            "test_error": "there",
            "gain": f"over weight decay {learner.weight_decay}",
            "good range": "within 0.1 % of the best",
            "status": f"kind of truth: {best.certificate.kind}",
        },
        title=f"best weight decay at alpha = {alpha:g}",
        rows=[{"weight_decay": decay, "test_error": error} for decay, error in best.scan],
        draw=lambda: plot.tuning(best),
    )


for other in (scaling, features, phase_diagram, train, amp, compare):
    command.add_command(other)
