"""``onehead aim train``, ``amp`` and ``compare``: real training and message passing beside the theory."""

from pathlib import Path
from tokenize import TokenError  # numpy lets it through for a hostile header
from typing import TYPE_CHECKING, Any

import click

from onehead.cli.aim_flags import aim_options, alpha_option, alphas_option
from onehead.cli.output import (
    check_picture,
    note,
    output_options,
    print_json,
    print_rows,
    progress,
    save_figure,
    write_csv,
)
from onehead.cli.values import Number, Typed, Whole, Word
from onehead.errors import InvalidArgument, OneheadError

if TYPE_CHECKING:
    from onehead.aim.task import Learner, Task
    from onehead.aim.training.results import TrainingResult
    from onehead.aim.verbs.predict import Prediction

__all__ = ["amp", "compare", "train"]

LAWS = ("gaussian", "rademacher", "sparse", "sphere", "heavy-tailed")


class Wholes(Typed):
    """A comma list of integers."""

    name = "integers"

    def __init__(self, low: int) -> None:
        self.each = Whole(low)
        self.allowed = f"a comma list, each {self.each.allowed}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Parse to a tuple."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.each.convert(item, param, ctx) for item in str(value).split(","))
        except (ValueError, click.BadParameter):
            self.refuse(value, param, ctx)
            raise


def training_options(function: Any) -> Any:
    """Flags of the commands that train: the optimiser, and where the layer leaves the theory."""
    for option in reversed(
        (
            click.option("--seed", type=Whole(0), default=0, show_default=True, help="Root of the random numbers."),
            click.option(
                "--optimiser",
                type=Word("lbfgs", "adam", "amp"),
                default="lbfgs",
                show_default=True,
                help="How to minimise.",
            ),
            click.option(
                "--output",
                type=Word("label", "sequence"),
                default="label",
                show_default=True,
                help="Compare attention matrices or the sequences they make.",
            ),
            click.option("--untied", is_flag=True, help="Query and key have their own weights."),
            click.option("--heads", type=Whole(1, 64), default=1, show_default=True, help="Heads, averaged."),
            click.option(
                "--token-law",
                metavar="LAW|FILE",
                default="gaussian",
                show_default=True,
                help=f"{', '.join(LAWS)}, or a .npy file with one token per row.",
            ),
            click.option(
                "--correlation",
                type=Number(0.0, 0.999),
                default=0.0,
                show_default=True,
                help="Share that all tokens of a sequence have in common.",
            ),
            click.option("--float32", is_flag=True, help="Matrix products in single precision."),
            click.option("--workers", type=Whole(1), default=1, show_default=True, help="Threads, one seed each."),
        )
    ):
        function = option(function)
    return function


def _settings(flags: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `train` that the flags stand for."""
    from onehead.aim.training.results import Method, Variant

    law: Any = flags["token_law"]
    if law not in LAWS:
        law = _rows(law)
    return {
        "variant": Variant(
            output=flags["output"],
            tied=not flags["untied"],
            heads=flags["heads"],
            token_law=law,
            correlation=flags["correlation"],
        ),
        "method": Method(optimiser=flags["optimiser"], dtype="float32" if flags["float32"] else "float64"),
        "seed": flags["seed"],
        "workers": flags["workers"],
    }


def _rows(path: str) -> Any:
    import numpy as np

    if not path.endswith(".npy") or not Path(path).is_file():
        raise InvalidArgument("--token-law", path, f"{', '.join(LAWS)}, or a .npy file that exists")
    try:
        with open(path, "rb") as file:  # np.load would also open archives
            return np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, MemoryError, TokenError):
        raise InvalidArgument("--token-law", path, "a .npy file of numbers") from None


def _prediction(task: "Task", learner: "Learner", alpha: float) -> "Prediction | None":
    """The prediction to lay beside a run; where theory gives none, say so and go on."""
    from onehead import aim

    try:
        return aim.predict(task, learner, alpha)
    except OneheadError as failure:
        note(f"no prediction to compare with: {failure}")
        return None


@click.command()
@aim_options
@alpha_option
@click.option("--seeds", type=Whole(1), default=4, show_default=True, help="Independent instances.")
@training_options
@output_options()
def train(
    task: "Task",
    learner: "Learner",
    alpha: float,
    dim: int,
    seeds: int,
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
    **flags: Any,
) -> None:
    """Train a real head of finite size, and lay it beside the prediction.

    Example: onehead aim train --dim 100 --alpha 0.5 --seeds 4
    """
    from onehead.aim.training.train import train as run

    check_picture(plot)
    settings = _settings(flags)
    with progress("seeds", seeds) as step:
        result = run(task, learner, dim=dim, alpha=alpha, seeds=seeds, progress=lambda _: step(), **settings)
    theory = _prediction(task, learner, alpha)
    if csv_file:
        write_csv(csv_file, [{"alpha": alpha, "dim": dim, **each.to_dict()} for each in result.runs])
    if plot:
        _draw_spectrum(plot, result, theory)
    agreement = [item.to_dict() for item in result.against(theory)] if theory is not None else []
    if as_json:
        print_json({**result.to_dict(), "agreement": agreement})
        return
    print_rows(
        agreement or [result.to_dict()],
        ["quantity", "measured", "standard_error", "predicted", "difference", "z", "verdict"]
        if agreement
        else ["test_error", "test_error_clean", "train_loss", "rank", "q", "m"],
        title=f"{result.setting}; d = {dim}, n = {result.samples}, {result.seeds} seeds, "
        f"{result.seconds:.2g} s per seed; {result.status}",
    )
    for warning in result.certificate.warnings:
        note(f"note: {warning}.")


def _draw_spectrum(path: str, result: "TrainingResult", theory: "Prediction | None") -> None:
    from onehead import aim
    from onehead.plot import training as pictures

    if theory is None:
        note(f"{path} was not drawn: there is no predicted spectrum to draw over.")
        return
    law = aim.spectrum(theory)
    save_figure(path, lambda: pictures.trained_spectrum(result, law))


@click.command()
@aim_options
@alpha_option
@click.option("--iterations", type=Whole(1), default=80, show_default=True, help="Iterations.")
@click.option(
    "--damping",
    type=Number(0.0, 1.0, open_low=True),
    default=0.7,
    show_default=True,
    help="Share of the new iterate in each step; 1 is undamped.",
)
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Root of the random numbers.")
@output_options()
def amp(
    task: "Task",
    learner: "Learner",
    alpha: float,
    dim: int,
    iterations: int,
    damping: float,
    seed: int,
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
) -> None:
    """Message passing on one instance, beside its state evolution.

    Example: onehead aim amp --dim 120 --alpha 0.5 --iterations 40
    """
    from onehead.aim.training.amp import amp as run
    from onehead.plot import training as pictures

    check_picture(plot)
    result = run(task, learner, dim=dim, alpha=alpha, iterations=iterations, damping=damping, seed=seed)
    rows = result.to_rows()
    if csv_file:
        write_csv(csv_file, rows)
    if plot:
        save_figure(plot, lambda: pictures.message_passing(result))
    if as_json:
        print_json(rows)
        return
    print_rows(
        rows,
        ["iteration", "q", "q_theory", "m", "m_theory", "sigma", "sigma_theory"],
        title=f"d = {dim}, damping {damping:g}; {result.certificate.status}",
    )


@click.command()
@aim_options
@alphas_option
@click.option("--dims", type=Wholes(2), default="60,100", show_default=True, help="Dimensions, a comma list.")
@click.option("--seeds", type=Whole(1), default=4, show_default=True, help="Independent instances per dimension.")
@training_options
@output_options()
def compare(
    task: "Task",
    learner: "Learner",
    alphas: tuple[float, ...],
    dims: tuple[int, ...],
    seeds: int,
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
    **flags: Any,
) -> None:
    """Theory beside training at several dimensions, with z-scores and the limit of infinite dimension.

    Example: onehead aim compare --alphas 0.2,0.5,1 --dims 60,100 --seeds 4
    """
    from onehead.aim.training.compare import compare as run
    from onehead.plot import training as pictures

    check_picture(plot)
    settings = _settings(flags)
    with progress("runs", len(alphas) * len(dims) * seeds) as step:
        table = run(task, learner, alphas, dims, seeds, progress=lambda _: step(), **settings)
    rows = table.to_rows()
    if csv_file:
        write_csv(csv_file, rows)
    if plot:
        save_figure(plot, lambda: pictures.comparison(table))
    if as_json:
        print_json(rows)
        return
    names = ("test_error", "train_loss")
    columns = [f"{name}{end}" for name in names for end in ("_theory", "", "_err", "_z")]
    shown = [{**row, "dim": row["dim"] or "∞"} for row in rows]
    print_rows(shown, ["alpha", "dim", "seeds", *columns, "status"], title=table.setting)
