"""``onehead aim train``, ``amp`` and ``compare``: real training and message passing, compared with the theory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from onehead import aim, plot
from onehead.aim.task import Learner, Task
from onehead.aim.training.settings import Method, Variant
from onehead.cli.aim.commands import thresholds_to_mark
from onehead.cli.aim.flags import aim_options, alpha_option, alphas_option, read_array
from onehead.cli.parsing.options import bayes_option, dims_option, seed_option
from onehead.cli.parsing.values import Number, flag_of, given, type_of
from onehead.cli.rendering.output import progress, spinner
from onehead.cli.rendering.render import CommandResult, output_options
from onehead.cli.rendering.shared_results import comparison_result, prediction_or_note
from onehead.cli.rendering.terminal import note
from onehead.errors import InvalidArgument
from onehead.fields import parameters_of
from onehead.sweep.settings import MessagePassing, Training

METHOD_FLAGS = ("optimiser", "start", "dtype")
VARIANT = parameters_of(Variant)
TRAINING, MESSAGE_PASSING = parameters_of(Training), parameters_of(MessagePassing)
TOKEN_LAWS = VARIANT["token_law"].choices
TOKEN_LAW_OPTION: dict[str, Any] = {
    "type": None,
    "metavar": "LAW|FILE",
    "help": f"{', '.join(TOKEN_LAWS)}, or a .npy file, one token per row.",
}
# parameters that are switches of another name, as in a sweep: parameter -> switch, and the value it stands for
SWITCHES = {"tied": ("untied", False), "dtype": ("float32", "float32")}
RENAMED = {"heads": "averaged_heads"}  # parameters of another name, because the task has heads of its own
CURVE_POINTS = 32  # points of the theoretical curve drawn with trained heads


def seeds_option(sentence: str) -> Callable[[Any], Any]:
    """Add ``--seeds``."""
    return click.option("--seeds", type=type_of(TRAINING["seeds"]), default=4, show_default=True, help=sentence)


def training_options(function: Any) -> Any:
    """Add the flags of the commands that train: the optimiser, and deviations of the layer from the theory."""
    workers = Number(integer=True, ge=1)
    text = "Threads, each of which trains one seed at a time."
    function = click.option("--workers", type=workers, default=1, show_default=True, help=text)(function)
    for name in reversed((*METHOD_FLAGS, *VARIANT)):
        if name in SWITCHES:
            switch, value = SWITCHES[name]
            declared = TRAINING[switch]
            attributes: dict[str, Any] = {"callback": _value_if_on(value), "help": declared.help}
            function = click.option(declared.flag, name, is_flag=True, **attributes)(function)
        else:
            function = flag_of(TRAINING[RENAMED.get(name, name)], **(TOKEN_LAW_OPTION if name == "token_law" else {}))(
                function
            )
    return seed_option()(function)


def _value_if_on(value: Any) -> Any:
    """Callback of click that turns a switch into a value, or None if it is off."""
    return lambda ctx, param, on: value if on else None


def _training_arguments(flags: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `aim.train` from the flags."""
    if flags["token_law"] not in (None, *TOKEN_LAWS):
        flags["token_law"] = _read_tokens(flags["token_law"])
    arguments = given(flags)
    method = Method(**{name: arguments.pop(name) for name in METHOD_FLAGS if name in arguments})
    flat = {name: RENAMED.get(name, name) for name in VARIANT}
    variant = Variant(**{name: arguments.pop(flat[name]) for name in VARIANT if flat[name] in arguments})
    return {**arguments, "variant": variant, "method": method}


def _read_tokens(path: str) -> Any:
    """Array of tokens from a .npy file, one token per row."""
    if not path.endswith(".npy") or not Path(path).is_file():
        raise InvalidArgument("--token-law", path, f"{', '.join(TOKEN_LAWS)}, or a .npy file that exists")
    return read_array("--token-law", path)


def _width_note(result: "aim.TrainingResult", learner: Learner) -> str:
    """Text with the trained width, if it is not the width asked for."""
    if result.trained_width == learner.width:
        return ""
    return f"width {result.trained_width:g} (a whole number of rows; predicted for it), "


@click.command()
@aim_options()
@alpha_option
@seeds_option(TRAINING["seeds"].help)
@training_options
@output_options()
def train(task: Task, learner: Learner, alpha: float, dim: int, seeds: int, **flags: Any) -> CommandResult:
    """Train a real head of finite size, and compare it with the prediction.

    Example: onehead aim train --dim 100 --alpha 0.5 --seeds 4
    """
    arguments = _training_arguments(flags)
    with progress("seeds", seeds) as step:
        result = aim.train(task, learner, dim=dim, alpha=alpha, seeds=seeds, progress=lambda _: step(), **arguments)
    theory = prediction_or_note(lambda: aim.predict(*result.trained))
    parts = result.by_start or (result,)
    agreement = [
        ({"start": part.method.start} if len(parts) > 1 else {}) | item.to_dict()
        for part in parts
        for item in (part.against(theory) if theory is not None else ())
    ]
    row = result.to_dict()

    start = ("start",) if len(parts) > 1 else ()

    def draw() -> Any:
        if theory is None:
            return note("no picture was drawn: there is no predicted spectrum.")
        return plot.trained_spectrum(result, aim.spectrum(theory))

    return CommandResult(
        value={**row, "agreement": agreement},
        table=agreement or [row],
        columns=(*start, "quantity", "measured", "standard_error", "predicted", "difference", "z", "verdict")
        if agreement
        else ("test_error", "test_error_clean", "train_loss", "rank", "q", "m"),
        title=f"{result.setting}; d = {dim}, n = {result.samples}, {_width_note(result, learner)}{result.seeds} seeds, "
        f"{result.seconds:.2g} s per seed; {result.status}",
        rows=[{"alpha": alpha, "dim": dim, **each.to_dict()} for each in result.runs],
        draw=draw,
        warnings=result.certificate.warnings,
    )


@click.command()
@aim_options()
@alpha_option
@flag_of(MESSAGE_PASSING["iterations"])
@flag_of(MESSAGE_PASSING["damping"])
@flag_of(MESSAGE_PASSING["method"])
@seed_option()
@output_options()
def amp(task: Task, learner: Learner, alpha: float, dim: int, seed: int, **flags: Any) -> CommandResult:
    """Message passing on one instance, compared with its state evolution.

    Example: onehead aim amp --dim 120 --alpha 0.5 --iterations 40
    """
    chosen = MessagePassing(alpha=alpha, dim=dim, **given(flags))
    with spinner("passing messages"):
        result = aim.amp(task, learner, seed=seed, **dict(chosen))
    return CommandResult(
        value=result.to_rows(),
        columns=(
            *("iteration", "q", "q_theory", "m", "m_theory", "sigma", "sigma_theory"),
            *(("unasked_scale", "unasked_scale_theory") if task.unasked else ()),
        ),
        title=f"d = {dim}, damping {chosen.damping:g}; {result.certificate.status}",
        draw=lambda: plot.message_passing(result),
    )


@click.command()
@aim_options()
@alphas_option
@dims_option("60,100", smallest=2)
@seeds_option("Number of independent instances per dimension.")
@bayes_option
@training_options
@output_options()
def compare(
    task: Task,
    learner: Learner,
    alphas: tuple[float, ...],
    dims: tuple[int, ...],
    seeds: int,
    bayes: bool,
    **flags: Any,
) -> CommandResult:
    """Theory and training at several dimensions, with z-scores and the limit of infinite dimension.

    Example: onehead aim compare --alphas 0.2,0.5,1 --dims 60,100 --seeds 4
    """
    arguments = _training_arguments(flags)
    with progress("runs", len(alphas) * len(dims) * seeds) as step:
        table = aim.compare(task, learner, alphas, dims, seeds, bayes=bayes, progress=lambda _: step(), **arguments)

    def draw() -> Any:
        """Learning curve with the trained heads on it; a picture over 1/d needs more than one dimension."""
        between = np.geomspace(min(alphas), max(alphas), CURVE_POINTS)
        with progress("learning curve", CURVE_POINTS) as step:
            found = aim.curve(task, learner, between, bayes=bayes, progress=step)
        marks = thresholds_to_mark(task, learner)
        return plot.learning_curve(found, [point.runs[0] for point in table.points], thresholds=marks)

    one_dim = len(dims) == 1 and len(alphas) > 2
    return comparison_result(table, "seeds", bayes=bayes, draw=draw if one_dim else None)
