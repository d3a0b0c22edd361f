"""``onehead aim``: the attention-indexed model on the command line."""

from typing import TYPE_CHECKING, Any

import click

from onehead.cli.aim_flags import aim_options, alpha_option, alphas_option
from onehead.cli.aim_scaling import features, phase_diagram, scaling
from onehead.cli.aim_train import amp, compare, train
from onehead.cli.groups import Guide
from onehead.cli.output import (
    check_picture,
    note,
    output_options,
    print_json,
    print_rows,
    print_table,
    progress,
    save_figure,
    working,
    write_csv,
)
from onehead.errors import SolveError

if TYPE_CHECKING:
    from onehead.aim import Learner, Prediction, Task

__all__ = ["command"]


@click.group(cls=Guide, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The attention-indexed model: a tied attention head trained with weight decay."""


@command.command()
@aim_options
@alpha_option
@output_options(picture=False)
@click.option("--explain", is_flag=True, help="Say in words what the numbers mean.")
def predict(task: "Task", learner: "Learner", alpha: float, as_json: bool, csv_file: str | None, explain: bool) -> None:
    """Errors, overlaps and rank of a trained head at one sample ratio.

    Example: onehead aim predict --alpha 0.5 --weight-decay 0.01
    """
    from onehead import aim

    with working("solving"):
        point = aim.predict(task, learner, alpha)
    if csv_file:
        write_csv(csv_file, [point.to_dict()])
    if as_json:
        print_json(point.to_dict())
        return
    if explain:
        click.echo(point.explain())
        return
    print_table(_meanings(point), title=f"alpha = {alpha:g}")
    for warning in point.certificate.warnings:
        note(f"note: {warning}.")


def _meanings(point: "Prediction") -> list[tuple[str, Any, str]]:
    certificate = point.certificate
    return [
        ("test_error", point.test_error, "on fresh samples, labels with noise"),
        ("test_error_clean", point.test_error_clean, "on fresh samples, labels without noise"),
        ("excess_error", point.excess_error, "above the limit of infinitely many samples"),
        ("train_loss", point.train_loss, "objective over d² at the minimum, penalty included"),
        ("rank", point.rank, "share of eigenvalues of S that are not zero"),
        ("q", point.q, "Tr S²/d"),
        ("m", point.m, "Tr S S*/d, overlap with the target"),
        ("sigma", point.sigma, "Σ, reaction of the logits to one sample"),
        (
            "q_hat, m_hat, sigma_hat",
            f"{point.q_hat:.5g}, {point.m_hat:.5g}, {point.sigma_hat:.5g}",
            "conjugate unknowns",
        ),
        ("replicon", certificate.replicon, "stable below 1"),
        ("residual", certificate.residual, "largest relative change left in the equations"),
        ("quadrature_error", certificate.quadrature_error, "of the test error, from a second rule"),
        ("status", point.status, f"kind of truth: {point.kind}"),
    ]


@command.command()
@aim_options
@alphas_option
@output_options()
def curve(
    task: "Task",
    learner: "Learner",
    alphas: tuple[float, ...],
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
) -> None:
    """A learning curve.

    Example: onehead aim curve --alphas 0.05:2:46 --plot curve.png
    """
    from onehead import aim
    from onehead import plot as pictures

    check_picture(plot)
    with progress("learning curve", len(alphas)) as step:
        found = aim.curve(task, learner, alphas, progress=step)
    rows = found.to_rows()
    if csv_file:
        write_csv(csv_file, rows)
    if plot:
        marks = aim.thresholds(task, learner)
        save_figure(plot, lambda: pictures.learning_curve(found, thresholds=marks))
    if as_json:
        print_json(rows)
    else:
        print_rows(
            rows,
            [
                "alpha",
                "test_error",
                "test_error_clean",
                "train_loss",
                "rank",
                "q",
                "m",
                "sigma",
                "residual",
                "status",
            ],
        )
    if found.failures:
        raise SolveError(f"{len(found.failures)} of {len(found)} points failed; the first: {found.failures[0].reason}")


@command.command()
@aim_options
@output_options(csv_rows=False, picture=False)
def thresholds(task: "Task", learner: "Learner", as_json: bool) -> None:
    """Sample ratios where behaviour changes, in units of alpha.

    Example: onehead aim thresholds --kappa0 0.5 --noise 0.5
    """
    from onehead import aim

    with working("solving"):
        found = aim.thresholds(task, learner)
    if as_json:
        print_json(found.to_dict())
        return
    row = found.to_dict()
    meaning = {
        "interpolation": "up to here every label can be fitted (λ → 0⁺)",
        "recovery": "from here on λ → 0⁺ finds the target exactly (no noise)",
        "bayes_optimal": "the best possible learner recovers from here on (no noise)",
        "direct": "interpolation when S is trained directly",
        "emergence": f"below, S = 0 at weight decay {learner.weight_decay}",
        "peak_test_error": "test error at interpolation (λ → 0⁺)",
    }
    print_table([(key, row[key], text) for key, text in meaning.items()], title="thresholds (values of alpha)")


@command.command()
@aim_options
@alpha_option
@output_options()
def spectrum(
    task: "Task", learner: "Learner", alpha: float, as_json: bool, csv_file: str | None, plot: str | None
) -> None:
    """Law of the eigenvalues of the trained map.

    Example: onehead aim spectrum --alpha 4 --plot spectrum.png
    """
    from onehead import aim
    from onehead import plot as pictures

    check_picture(plot)
    with working("solving"):
        law = aim.spectrum(aim.predict(task, learner, alpha))
    row = law.to_dict()
    if csv_file:
        write_csv(csv_file, [{"x": x, "density": y} for x, y in zip(row["x"], row["density"], strict=True)])
    if plot:
        save_figure(plot, lambda: pictures.spectrum(law))
    if as_json:
        print_json(row)
        return
    bulks = ", ".join(f"[{low:.5g}, {high:.5g}]" for low, high in law.edges) or "none"
    print_table(
        [
            ("zero_mass", law.zero_mass, "share of eigenvalues that are exactly zero"),
            ("rank", law.rank, "share that are not"),
            ("edges", bulks, "one interval per bulk"),
            ("outliers", len(law.outliers), "eigenvalues outside the bulks"),
            ("mean", law.mean, "Tr S/d"),
            ("second_moment", law.second_moment, "Tr S²/d"),
            ("status", law.certificate.status, f"kind of truth: {law.certificate.kind}"),
        ],
        title=f"spectrum at alpha = {alpha:g}",
    )


@command.command()
@aim_options
@alpha_option
@output_options()
def tune(task: "Task", learner: "Learner", alpha: float, as_json: bool, csv_file: str | None, plot: str | None) -> None:
    """The weight decay with the lowest predicted test error.

    Example: onehead aim tune --alpha 0.5 --noise 0.5
    """
    from onehead import aim
    from onehead import plot as pictures

    check_picture(plot)
    with progress("weight decays", 36) as step:
        best = aim.tune(task, learner, alpha, progress=step)
    if csv_file:
        write_csv(csv_file, [{"weight_decay": decay, "test_error": error} for decay, error in best.scan])
    if plot:
        save_figure(plot, lambda: pictures.tuning(best))
    if as_json:
        print_json(best.to_dict())
        return
    print_table(
        [
            ("weight_decay", best.weight_decay or "0+", "λ with the lowest test error"),
            ("test_error", best.test_error, "there"),
            ("gain", best.gain, f"over weight decay {learner.weight_decay}"),
            ("good range", f"{best.flat_from:.3g} to {best.flat_to:.3g}", "within 0.1 % of the best"),
            ("status", best.certificate.status, f"kind of truth: {best.certificate.kind}"),
        ],
        title=f"best weight decay at alpha = {alpha:g}",
    )


for other in (scaling, features, phase_diagram, train, amp, compare):
    command.add_command(other)
