"""``onehead aim train``, ``amp`` and ``compare``: real training and message passing beside the theory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from onehead import aim, plot
from onehead.aim.task import Learner, Task
from onehead.aim.training.settings import Method, Variant
from onehead.cli.aim_flags import aim_options, alpha_option, alphas_option, bayes_option, read_array
from onehead.cli.compared import compared
from onehead.cli.frame import Answer, answered
from onehead.cli.output import note, progress, working
from onehead.cli.values import Number, Range, flag_of, given, type_of
from onehead.errors import InvalidArgument, OneheadError
from onehead.fields import words_of
from onehead.sweep.settings import MessagePassing, Training

__all__ = ["amp", "compare", "train"]

METHOD = ("optimiser", "dtype")
VARIANT = words_of(Variant)
TRAINING, PASSING = words_of(Training), words_of(MessagePassing)
LAWS = VARIANT["token_law"].choices
FILE: dict[str, Any] = {
    "type": None,
    "metavar": "LAW|FILE",
    "help": f"{', '.join(LAWS)}, or a .npy file, one token per row.",
}
# two words are switches with names of their own, as in a sweep: word -> switch, the value it stands for
SWITCHES = {"tied": ("untied", False), "dtype": ("float32", "float32")}
SMOOTH = 32  # points of the theory below trained heads

seed_option = click.option(
    "--seed", type=Number(whole=True, ge=0), default=0, show_default=True, help="Root of the random numbers."
)


def seeds_option(sentence: str) -> Callable[[Any], Any]:
    """Add ``--seeds``."""
    return click.option("--seeds", type=type_of(TRAINING["seeds"]), default=4, show_default=True, help=sentence)


def training_options(function: Any) -> Any:
    """Flags of the commands that train: the optimiser, and where the layer leaves the theory."""
    workers = Number(whole=True, ge=1)
    text = "Threads, one seed each."
    function = click.option("--workers", type=workers, default=1, show_default=True, help=text)(function)
    for name in reversed((*METHOD, *VARIANT)):
        if name in SWITCHES:
            switch, value = SWITCHES[name]
            said = TRAINING[switch]
            function = click.option(said.flag, name, is_flag=True, callback=_switch(value), help=said.help)(function)
        else:
            function = flag_of(TRAINING[name], **(FILE if name == "token_law" else {}))(function)
    return seed_option(function)


def _switch(value: Any) -> Any:
    return lambda ctx, param, on: value if on else None


def _settings(flags: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `train` that the flags stand for."""
    if flags["token_law"] not in (None, *LAWS):
        flags["token_law"] = _rows(flags["token_law"])
    said = given(flags)
    method = Method(**{name: said.pop(name) for name in METHOD if name in said})
    variant = Variant(**{name: said.pop(name) for name in VARIANT if name in said})
    return {**said, "variant": variant, "method": method}


def _rows(path: str) -> Any:
    if not path.endswith(".npy") or not Path(path).is_file():
        raise InvalidArgument("--token-law", path, f"{', '.join(LAWS)}, or a .npy file that exists")
    return read_array("--token-law", path)


def _rounded(result: "aim.TrainingResult", learner: Learner) -> str:
    """The width that was trained, where it is not the one asked for."""
    if result.trained_width == learner.width:
        return ""
    return f"width {result.trained_width:g} (a whole number of rows; predicted for it), "


def _prediction(task: Task, learner: Learner, alpha: float) -> "aim.Prediction | None":
    """The prediction to lay beside a run; where theory gives none, say so and go on."""
    try:
        return aim.predict(task, learner, alpha)
    except OneheadError as failure:
        note(f"no prediction to compare with: {failure}")
        return None


@click.command()
@aim_options()
@alpha_option
@seeds_option(TRAINING["seeds"].help)
@training_options
@answered()
def train(task: Task, learner: Learner, alpha: float, dim: int, seeds: int, **flags: Any) -> Answer:
    """Train a real head of finite size, and lay it beside the prediction.

    Example: onehead aim train --dim 100 --alpha 0.5 --seeds 4
    """
    settings = _settings(flags)
    with progress("seeds", seeds) as step:
        result = aim.train(task, learner, dim=dim, alpha=alpha, seeds=seeds, progress=lambda _: step(), **settings)
    theory = _prediction(*result.trained)
    agreement = [item.to_dict() for item in result.against(theory)] if theory is not None else []
    row = result.to_dict()

    def draw() -> Any:
        if theory is None:
            return note("the picture was not drawn: there is no predicted spectrum to draw over.")
        return plot.trained_spectrum(result, aim.spectrum(theory))

    return Answer(
        value={**row, "agreement": agreement},
        shown=agreement or [row],
        columns=("quantity", "measured", "standard_error", "predicted", "difference", "z", "verdict")
        if agreement
        else ("test_error", "test_error_clean", "train_loss", "rank", "q", "m"),
        title=f"{result.setting}; d = {dim}, n = {result.samples}, {_rounded(result, learner)}{result.seeds} seeds, "
        f"{result.seconds:.2g} s per seed; {result.status}",
        rows=[{"alpha": alpha, "dim": dim, **each.to_dict()} for each in result.runs],
        draw=draw,
        warnings=result.certificate.warnings,
    )


@click.command()
@aim_options()
@alpha_option
@flag_of(PASSING["iterations"])
@flag_of(PASSING["damping"])
@flag_of(PASSING["method"])
@seed_option
@answered()
def amp(task: Task, learner: Learner, alpha: float, dim: int, seed: int, **flags: Any) -> Answer:
    """Message passing on one instance, beside its state evolution.

    Example: onehead aim amp --dim 120 --alpha 0.5 --iterations 40
    """
    chosen = MessagePassing(alpha=alpha, dim=dim, **given(flags))
    with working("passing messages"):
        result = aim.amp(task, learner, seed=seed, **dict(chosen))
    return Answer(
        value=result.to_rows(),
        columns=("iteration", "q", "q_theory", "m", "m_theory", "sigma", "sigma_theory"),
        title=f"d = {dim}, damping {chosen.damping:g}; {result.certificate.status}",
        draw=lambda: plot.message_passing(result),
    )


@click.command()
@aim_options()
@alphas_option
@click.option("--dims", type=Range(whole=True, ge=2), default="60,100", show_default=True, help="Dimensions.")
@seeds_option("Independent instances per dimension.")
@bayes_option
@training_options
@answered()
def compare(
    task: Task,
    learner: Learner,
    alphas: tuple[float, ...],
    dims: tuple[int, ...],
    seeds: int,
    bayes: bool,
    **flags: Any,
) -> Answer:
    """Theory beside training at several dimensions, with z-scores and the limit of infinite dimension.

    Example: onehead aim compare --alphas 0.2,0.5,1 --dims 60,100 --seeds 4
    """
    settings = _settings(flags)
    with progress("runs", len(alphas) * len(dims) * seeds) as step:
        table = aim.compare(task, learner, alphas, dims, seeds, bayes=bayes, progress=lambda _: step(), **settings)

    def draw() -> Any:
        """One dimension has no limit to draw: a learning curve, smooth, with the trained heads on it."""
        between = np.geomspace(min(alphas), max(alphas), SMOOTH)
        with progress("learning curve", SMOOTH) as step:
            found = aim.curve(task, learner, between, bayes=bayes, progress=step)
        with working("thresholds"):
            marks = aim.thresholds(task, learner)
        return plot.learning_curve(found, [point.runs[0] for point in table.points], thresholds=marks)

    alone = len(dims) == 1 and len(alphas) > 2
    return compared(table, "seeds", bayes=bayes, draw=draw if alone else None)
