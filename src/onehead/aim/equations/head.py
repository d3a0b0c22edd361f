"""The equations of a head: what a task and a learner become in reduced units (1.5).

Which channels a kind of head has is decided here and asked nowhere else.
"""

from functools import partial
from typing import Any

from onehead.aim.equations.geometry import Geometry, geometry_of, on_samples
from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.kurtosis import KurtosisOutput, check_known, trace_of
from onehead.aim.equations.leading import directions_of, leading_count
from onehead.aim.equations.leading_evolution import KurtosisEvolution, LeadingEvolution
from onehead.aim.equations.leading_output import LeadingOutput
from onehead.aim.equations.leading_rows import LeadingRows
from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.sector_evolution import SectorEvolution
from onehead.aim.equations.sectors import Consistent, SectorLinear, SectorOutput
from onehead.aim.equations.state_evolution import StateEvolution, Units
from onehead.aim.equations.untied import CHANNELS
from onehead.aim.losses import loss_on
from onehead.aim.task import Learner, Task
from onehead.errors import InvalidArgument

__all__ = ["equations_of"]

MOST_OWN = 16  # tokens with a loss whose Hessian is not known to be simple
SECTORS: dict[str, type[InputChannel]] = {"factorised": Consistent, "direct": SectorLinear}


def equations_of(task: Task, learner: Learner) -> StateEvolution:
    """The equations of a task and a learner: an input channel and the output channel of its kind of head."""
    geometry, loss = geometry_of(task.attention, task.mask, task.tokens), loss_on(task.labels, learner.loss)
    if loss.lean is None and task.tokens > MOST_OWN:
        raise InvalidArgument("tokens", task.tokens, f"at most {MOST_OWN} with a loss of your own")
    kind = SECTORS[learner.param] if geometry.sectors == 2 else CHANNELS[task.tied, learner.param]
    units, noise = Units(learner.beta, task.beta0, kind.degree), task.beta0**2 * task.noise
    channel = kind(
        target=task.target,
        scale=task.beta0,
        decay=units.reduced_decay(learner.decay),
        width=learner.width,
        unit=geometry.unit,
    )
    power = task.beta0**2 * task.target.second_moment + 0.5 * noise
    evolution, output = _output_of(task, learner, geometry)
    shown = output(loss=loss, label_power=power, branch=learner.branch)
    return evolution(channel, shown, noise, units)


def _output_of(task: Task, learner: Learner, geometry: Geometry) -> tuple[type[StateEvolution], Any]:
    """The kind of the equations of a head, and its output channel but for the words that all have."""
    count = leading_count(task, learner)
    if task.sees_kurtosis:
        check_known(task)
        told = partial(KurtosisOutput, geometry=geometry, kurtosis=task.kurtosis, directions=trace_of(task))
        return KurtosisEvolution, told
    if count:
        led = LeadingOutput if task.tied else LeadingRows
        return LeadingEvolution, partial(led, geometry=on_samples(geometry), directions=directions_of(task, count))
    if geometry.sectors == 2:
        return SectorEvolution, partial(SectorOutput, geometry=geometry)
    return StateEvolution, partial(OutputChannel, geometry=geometry)
