"""The output channel: Gaussian logits, noisy labels, the proximal operator, and averages over all of them.

In the coordinates u of `onehead.aim.equations.geometry`, with covariance C,

    prox(v) = argmin_u  (u - v)' C^-1 (u - v) / (2 Sigma) + sum_a loss(row a of u, row a of the label).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.geometry import geometry, logit_rule, row_rule
from onehead.aim.equations.kernels import loss_sums, origin_sums, pair_sums, prox_sums
from onehead.aim.losses import CHANNELS, Channel
from onehead.errors import NotConverged
from onehead.numerics.parallel import thread_map, threads

__all__ = ["Averages", "OutputChannel", "ProxMemory"]

Array = NDArray[np.float64]

SLICE = 2048  # nodes per slice: fixed, so that sums do not depend on the number of threads
SHORT_SLICE = 256  # for more tokens, whose nodes cost more
GRADIENT_TOLERANCE = 1e-6  # largest gradient of a prox objective; Newton leaves about 1e-10


class Averages(NamedTuple):
    """Gaussian averages over one sample, z* the noisy label coordinates, z the learner's (2.2).

    ``distance`` E|prox - z|^2, ``along_label`` E (prox - z).z*, ``along_own`` E (prox - z).z,
    ``trace`` E tr(1 - dprox/dz), ``trace_square`` E tr K^2, ``cross`` E tr dprox/dz*, ``loss`` E loss at the prox,
    ``switch_mass`` the Gaussian mass where the global minimum is not the one reached from the label.
    """

    distance: float
    along_label: float
    along_own: float
    trace: float
    trace_square: float
    cross: float
    loss: float
    switch_mass: float


def _sliced(kernel: Any, size: int, before: tuple[Any, ...], nodes: tuple[Array, ...], after: tuple[Any, ...]) -> Array:
    """Run a kernel over fixed slices of the nodes, a run of slices per thread; one row of sums per slice."""
    length = SLICE if nodes[0].shape[1] <= 2 else SHORT_SLICE
    count = -(-len(nodes[0]) // length)
    out = np.empty((count, size))
    bounds = np.linspace(0, count, min(threads(), count) + 1).astype(int)
    thread_map(lambda i: kernel(*before, *nodes, *after, length, bounds[i], bounds[i + 1], out), range(len(bounds) - 1))
    return out


@dataclass
class ProxMemory:
    """Remembers the proximal points of the last evaluation.

    With ``follow`` the next evaluation starts from them, so that every point stays in its minimum and the averages are
    smooth where minima compete; without, it starts from the labels as usual and only the last points are kept.
    """

    follow: bool
    points: Array | None = None


@dataclass(frozen=True, kw_only=True)
class OutputChannel:
    """The output channel of one task and loss: averages at given overlaps.

    ``label_power`` is Q = Q0 + Delta/2, the variance of the noisy label coordinates.
    """

    channel: Channel
    tokens: int
    label_power: float
    branch: str = "label"

    def convex_at(self, sigma: float) -> bool:
        """Whether the prox has one minimum: always for a convex loss, for the squared one with T = 2 up to Sigma = 1 (2.7)."""
        return self.channel.convex or (self.channel.name == "squared" and self.tokens == 2 and sigma <= 1.0)

    def averages(
        self,
        q: float,
        m: float,
        sigma: float,
        *,
        level: int,
        twin: bool = False,
        detail: int = 0,
        search: bool = False,
        memory: ProxMemory | None = None,
    ) -> Averages:
        """Averages over the prox at overlaps (q, m) and step ``sigma`` (2.2).

        Every prox starts at its label, or where ``memory`` left it; ``search`` counts lower minima elsewhere.
        ``detail`` 0 gives the Stein forms alone, 1 also ``trace`` and ``cross``, 2 also ``trace_square``.
        """
        shape, rule = geometry(self.tokens), logit_rule(self.tokens, level, twin)
        Q = self.label_power
        mode, recall, kept = int(search), 0, rule.label
        if self.branch == "global":
            mode = 2
        if memory is not None:
            recall = 1 if memory.points is None or not memory.follow else 2
            memory.points = kept = np.empty_like(rule.label) if memory.points is None else memory.points
            mode = 0 if recall == 2 else mode
        if self.convex_at(sigma):
            mode = 0
        kernel: Any = prox_sums
        before: tuple[Any, ...] = (self.channel.compiled, self.channel.compiled_response, shape.select)
        if self.tokens == 2:
            kernel, before = pair_sums, (self.channel.compiled_pair,)
        sums = _sliced(
            kernel,
            9,
            (*before, shape.metric, shape.row_fits),
            (rule.label, rule.free, rule.weights, kept),
            (np.sqrt(Q), m / Q, np.sqrt(max(q - m * m / Q, 0.0)), sigma, mode, detail, recall),
        )
        worst = float(sums[:, 8].max())
        if not worst < GRADIENT_TOLERANCE:
            raise NotConverged(
                f"a proximal step kept a gradient of {worst:.1e} at q = {q:.4g}, m = {m:.4g}, Sigma = {sigma:.4g}; "
                "try a larger weight_decay.",
                residual=worst,
            )
        return Averages(*(float(value) for value in sums[:, :8].sum(axis=0)))

    def fresh_loss(
        self,
        q: float,
        m: float,
        *,
        coarse: bool = False,
        twin: bool = False,
        power: float | None = None,
        loss: str | None = None,
    ) -> float:
        """E loss on fresh samples; ``power`` replaces Q (clean labels), ``loss`` names another yardstick (2.4)."""
        Q = self.label_power if power is None else power
        yardstick = self.channel if loss is None else CHANNELS[loss]
        sums = _sliced(
            loss_sums,
            1,
            (yardstick.compiled,),
            row_rule(self.tokens, coarse=coarse, twin=twin),
            (np.sqrt(Q), m / Q, np.sqrt(max(q - m * m / Q, 0.0))),
        )
        return self.tokens * float(sums.sum())

    @lru_cache(maxsize=64)  # noqa: B019  (frozen and small: the same few channels are asked again and again)
    def at_origin(self, level: int) -> tuple[float, float]:
        """(qhat, mhat) per unit of alpha at S = 0: 2 E|grad|^2 and -2 E tr d(grad)/dz* (4.6)."""
        shape, rule = geometry(self.tokens), logit_rule(self.tokens, level, False)
        sums = _sliced(
            origin_sums,
            2,
            (self.channel.compiled, self.channel.compiled_response, shape.select, shape.covariance),
            (rule.label, rule.weights),
            (np.sqrt(self.label_power),),
        ).sum(axis=0)
        return 2.0 * float(sums[0]), 2.0 * float(sums[1])
