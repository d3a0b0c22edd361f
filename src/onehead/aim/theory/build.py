"""The equations of a head, made from a task and a learner in reduced units (1.5).

Which channels a kind of head has is decided here and nowhere else.
"""

from dataclasses import replace
from functools import partial
from typing import Any, cast

from onehead.aim.logits.geometry import Geometry, geometry_of, one_sector_rows, with_sampled_points, with_sampled_rows
from onehead.aim.losses import loss_for_labels
from onehead.aim.task import MAX_LOGITS, Learner, Task
from onehead.aim.theory.directions import NO_DIRECTIONS
from onehead.aim.theory.input.anisotropic import anisotropic_channel
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.input.leading import leading_count, leading_directions
from onehead.aim.theory.input.several_heads import SeveralHeadsInput
from onehead.aim.theory.input.singular_values import CHANNELS
from onehead.aim.theory.input.trace import trace_direction
from onehead.aim.theory.input.two_sectors import ExpectationConsistent, TwoSectorLinear
from onehead.aim.theory.input.unasked import unasked_field
from onehead.aim.theory.output.base import OutputChannel
from onehead.aim.theory.output.fluctuating import FluctuatingOutput
from onehead.aim.theory.output.kurtosis import KurtosisOutput
from onehead.aim.theory.output.leading import TiedLeadingOutput
from onehead.aim.theory.output.leading_cross import CrossLeadingOutput
from onehead.aim.theory.output.one_sector import OneSectorOutput
from onehead.aim.theory.output.sectors import SectorOutput
from onehead.aim.theory.output.several_heads import HeadModes, SeveralHeadsOutput
from onehead.aim.theory.several_heads import SeveralHeads, Values
from onehead.aim.theory.state_evolution import StateEvolution, Units
from onehead.errors import InvalidArgument

MAXIMUM_TOKENS_OWN_LOSS = 16  # with a user's loss, whose Hessian is not known to be a diagonal plus two rank-one terms
TWO_SECTOR_CHANNELS: dict[str, type[InputChannel]] = {"factorised": ExpectationConsistent, "direct": TwoSectorLinear}


def build_state_evolution(task: Task, learner: Learner) -> StateEvolution:
    """Return the equations of a task and a learner: the input channel and the output channel of its kind of head.

    Of several heads they are those of each by itself; `build_several_heads` couples them.

    Raises
    ------
    InvalidArgument
        If there is no theory for the combination.
    """
    geometry, loss = geometry_of(task.attention, task.mask, task.tokens), loss_for_labels(task.labels, learner.loss)
    if loss.compiled_kind is None and task.tokens > MAXIMUM_TOKENS_OWN_LOSS:
        raise InvalidArgument("tokens", task.tokens, f"at most {MAXIMUM_TOKENS_OWN_LOSS} with a loss of your own")
    kind = TWO_SECTOR_CHANNELS[learner.param] if geometry.sectors == 2 else CHANNELS[task.tied, learner.param]
    units, noise = Units(learner.beta, task.beta0, kind.degree), task.beta0**2 * task.noise
    decay = units.reduced_decay(learner.decay)
    if learner.sampled and (task.isotropic or learner.param == "direct"):
        raise InvalidArgument(
            "sampled", learner.sampled, "0 unless factorised training has a token spectrum: the theory is exact here"
        )
    if task.isotropic:
        settings: dict[str, Any] = {"scale": task.beta0, "decay": decay, "width": learner.width, "unit": geometry.unit}
        channel = kind(target=task.target, **settings)
    else:
        channel = anisotropic_channel(task, learner, decay)
    make = _output(task, learner, geometry)
    power = task.beta0**2 * task.target.second_moment + 0.5 * noise + make.keywords["directions"].separate_power
    output = make(loss=loss, label_power=power, branch=learner.branch)
    return StateEvolution(channel, output, noise, units)


def heads_are_coupled(task: Task, learner: Learner) -> bool:
    """Whether heads share values, or learn them; else each is a head of its own (M1)."""
    return bool(task.heads > 1 and task.sharing) or learner.values == "learnt"


def check_summed_loss(task: Task, learner: Learner) -> None:
    """Refuse a loss of several heads, or of learnt values, for which outputs that add up have no theory (M1)."""
    several = task.heads > 1 or learner.values == "learnt"
    if several and str(learner.loss) != "squared":
        raise InvalidArgument("loss", learner.loss, "squared for several heads, whose outputs add up")


def build_several_heads(task: Task, learner: Learner) -> SeveralHeads:
    """Return the equations of heads that share values or learn them (M2, M3, M7).

    Raises
    ------
    InvalidArgument
        If there is no theory for the combination.
    """
    cross = task.attention == "cross" and task.mask == "none" and task.labels == "soft"
    if not cross or not task.standard_tokens:
        raise InvalidArgument(
            "values", learner.values, "fixed unless attention is cross, with soft labels and without a mask"
        )
    if task.heads * (task.tokens - 1) > MAX_LOGITS:
        raise InvalidArgument("tokens", task.tokens, f"at most {1 + MAX_LOGITS // task.heads} for {task.heads} heads")
    for name, wanted in (("loss", "squared"), ("weight_decay", "a number > 0"), ("width", "at least 1")):
        value = getattr(learner, name)
        known = (
            value == "squared" if name == "loss" else learner.decay > 0.0 if name == "weight_decay" else value >= 1.0
        )
        if not known:
            raise InvalidArgument(name, value, f"{wanted} for heads that share values or learn them")
    if learner.leading not in ("auto", 0):
        raise InvalidArgument("leading", learner.leading, "0 or auto for heads that share values or learn them")
    single = build_state_evolution(task, learner.changed(values="fixed", value_decay=None, leading=0))
    output = cast(OneSectorOutput, single.output)  # a cross-attention head with isotropic tokens has no other
    modes = HeadModes(task.heads, task.sharing)
    values = Values()
    if learner.values == "learnt":
        values = Values(learnt=True, decay=learner.value_decay or learner.decay)
    return SeveralHeads(SeveralHeadsOutput(modes, output), SeveralHeadsInput(modes, single.input), values)


def _output(task: Task, learner: Learner, geometry: Geometry) -> "partial[Any]":
    """Return the output channel of a kind of head, but for the arguments that all have."""
    count = leading_count(task, learner)
    if task.depends_on_kurtosis:
        directions = trace_direction(task)
        return partial(KurtosisOutput, geometry=geometry, directions=directions, excess=directions.excess)
    if count:
        leading = TiedLeadingOutput if task.tied else CrossLeadingOutput
        return partial(leading, geometry=with_sampled_points(geometry), directions=leading_directions(task, count))
    loss = loss_for_labels(task.labels, learner.loss)
    # a lattice is as fast for hard labels, and more accurate close to separability; not for many sizes of a field
    if task.unasked and loss.compiled_kind is not None and (task.fluctuation or not loss.hard):
        geometry = with_sampled_rows(geometry)
    if task.unasked and task.fluctuation:
        settings: dict[str, Any] = {"directions": unasked_field(task), "fluctuation": task.fluctuation}
        return partial(FluctuatingOutput, geometry=geometry, **settings)
    own = geometry.sectors == 2 or task.own_field
    kind: type[OutputChannel] = SectorOutput if own else OneSectorOutput
    return partial(kind, geometry=geometry, directions=unasked_field(task) if task.unasked else NO_DIRECTIONS)


def gaussian_independent_head(problem: StateEvolution) -> StateEvolution | None:
    """Return an easier head whose solution is close, or None if the head has one sector and no explicit direction.

    It has Gaussian logits in the place of explicit directions, and cross-attention in the place of two sectors (U5.5).
    """
    output, known = problem.output, problem.directions
    geometry = output.geometry
    if known.separate and problem.sectors == 1:
        return None
    if problem.sectors == 2 and not geometry.blocks[0].shares_logits:
        geometry = one_sector_rows(geometry)
    else:
        geometry = geometry_of("tied" if geometry.unit == 2.0 else "cross", "none", geometry.tokens)
    easier = OneSectorOutput(
        loss=output.loss,
        geometry=geometry,
        label_power=output.label_power - known.separate_power,
        branch=output.branch,
    )
    channel = problem.input
    if problem.sectors == 2:
        own = {name: getattr(channel, name) for name in ("target", "scale", "decay", "width", "unit", "spectral_shift")}
        channel = CHANNELS[False, "factorised" if channel.degree == 1 else "direct"](**own)
    return replace(problem, input=channel, output=easier)
