"""``onehead aim``: the attention-indexed model on the command line."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

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
from onehead.cli.values import Number, Range, Typed, Whole, Word
from onehead.errors import SolveError

if TYPE_CHECKING:
    from onehead.aim import Learner, Prediction, Task

__all__ = ["aim_options", "command"]

RATIO = Number(0.0, 1e6, open_low=True)
RATIOS = Range(0.0, 1e6, open_low=True)


class Decay(Typed):
    """A positive number, or the word 0+ for the limit."""

    name = "number|0+"
    allowed = "a number > 0 and <= 1e+06, or the word 0+ (the limit λ → 0⁺)"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Parse and check."""
        if value == "0+":
            return "0+"
        try:
            return Number(0.0, 1e6, open_low=True).convert(value, param, ctx)
        except click.BadParameter:
            self.refuse(value, param, ctx)
            raise


def aim_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of every ``aim`` command; the command gets a ``task`` and a ``learner``."""

    @wraps(function)
    def call(**flags: Any) -> Any:
        from onehead.aim import Learner, MarchenkoPastur, Task

        flags.pop("target")
        kappa0 = flags.pop("kappa0")
        task = Task(
            target=MarchenkoPastur(kappa0=kappa0),
            **{key: flags.pop(key) for key in ("noise", "tokens", "beta0")},
        )
        names = ("weight_decay", "width", "param", "beta", "loss", "branch")
        learner = Learner(**{key: flags.pop(key) for key in names})
        return function(task=task, learner=learner, **flags)

    for option in reversed(
        (
            click.option("--target", type=Word("mp"), default="mp", show_default=True, help="Spectrum of the target."),
            click.option(
                "--kappa0",
                type=Number(1e-3, 1e3),
                default=0.5,
                show_default=True,
                help="Width of the target over d (κ₀).",
            ),
            click.option(
                "--noise",
                type=Number(0.0, 1e3),
                default=0.5,
                show_default=True,
                help="Noise before the softmax (Δ).",
            ),
            click.option("--tokens", type=Whole(2, 16), default=2, show_default=True, help="Tokens in a sequence (T)."),
            click.option(
                "--beta",
                type=Number(0.0, 100.0, open_low=True),
                default=1.0,
                show_default=True,
                help="Inverse temperature of the learner (β).",
            ),
            click.option(
                "--beta0",
                type=Number(0.0, 100.0, open_low=True),
                default=1.0,
                show_default=True,
                help="Inverse temperature of the target (β₀).",
            ),
            click.option(
                "--weight-decay",
                type=Decay(),
                default=0.01,
                show_default=True,
                help="Weight decay (λ); 0+ is the limit.",
            ),
            click.option(
                "--loss",
                type=Word("squared", "cross-entropy"),
                default="squared",
                show_default=True,
                help="Training loss.",
            ),
            click.option(
                "--width",
                type=Number(0.0, 1e3, open_low=True),
                default=1.0,
                show_default=True,
                help="Width of the learner over d (κ).",
            ),
            click.option(
                "--param",
                type=Word("factorised", "direct"),
                default="factorised",
                show_default=True,
                help="Train factors W or the map S itself.",
            ),
            click.option(
                "--branch",
                type=Word("label", "global"),
                default="label",
                show_default=True,
                help="Minimum to follow where the output layer has several.",
            ),
        )
    ):
        call = option(call)
    return call


alpha_option = click.option("--alpha", type=RATIO, required=True, help="Samples over d² (α = n/d²).")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
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
@click.option(
    "--alphas",
    type=RATIOS,
    required=True,
    help="Sample ratios: start:stop:count, log:start:stop:count or a list.",
)
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
