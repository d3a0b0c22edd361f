"""The output channel: from order parameters to conjugate fields, by averages over the proximal operator of one sample
(2.2).

In the coordinates u of `onehead.aim.logits.blocks`, with covariance C,

    prox(v) = argmin_u  (u - v)' C^-1 (u - v) / (2 Sigma) + sum_a loss(row a of u, row a of the label).

`OutputChannel` is abstract and says what the solver asks for. Each kind of logits has one final class: Gaussian logits
whose covariances are multiples of one matrix (`one_sector`) or not (`sectors`), leading directions of tied heads
(`leading`) and of cross-attention (`leading_cross`), and tokens that are not Gaussian (`kurtosis`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.arguments import BlockArrays, Branch, Modes, Nodes, Scaling
from onehead.aim.kernels.arguments import Start as KernelStart
from onehead.aim.kernels.dense import prox_sums
from onehead.aim.kernels.losses import SQUARED
from onehead.aim.kernels.two_tokens import two_column_sums, two_token_sums
from onehead.aim.kernels.two_tokens_simd import two_token_squared_sums
from onehead.aim.logits.blocks import Block
from onehead.aim.logits.geometry import Geometry
from onehead.aim.logits.quadrature import LogitRule
from onehead.aim.losses import LOSSES, Loss
from onehead.aim.theory.directions import NO_DIRECTIONS, Directions
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import FreshSamples, ProxAverages, ProxCache, Request, sum_in_slices
from onehead.errors import NotConverged

Array = NDArray[np.float64]

NEARLY_ALIGNED = 0.02  # share of Q q in Q q - m² below which Stein forms, which divide by it, lose digits
GRADIENT_TOLERANCE = 1e-6  # largest gradient entry of a proximal objective; Newton's method leaves about 1e-10


@dataclass(frozen=True, kw_only=True)
class OutputChannel(ABC):
    """Averages over one sample, conjugate fields and losses on fresh samples, as functions of the order parameters.

    Every method that takes ``*state`` expects `Overlaps.state`, and every method that takes ``*values`` expects
    `Overlaps.values`.

    Attributes
    ----------
    loss : Loss
        The training loss.
    geometry : Geometry
        Blocks of rows and their covariances.
    label_power : float
        Q = Q0 + Delta/2, the variance of the noisy label coordinates.
    branch : {"label", "global"}
        Minimum of the proximal objective: the one reached from the label, or the lowest one.
    prox_jumps : bool
        Whether proximal points are known to jump between minima, which Stein forms see and derivatives do not.
    single_minimum : bool
        Whether no proximal objective was seen to have more than one minimum.
    directions : Directions
        Explicit directions of the map.
    """

    loss: Loss
    geometry: Geometry
    label_power: float
    branch: str = "label"
    prox_jumps: bool = False
    single_minimum: bool = False
    directions: Directions = NO_DIRECTIONS

    @property
    @abstractmethod
    def extra_levels(self) -> tuple[int, ...]:
        """Quadrature levels beyond the default ones, up to the memory limit; used when `accuracy` is set."""

    @property
    @abstractmethod
    def coarse_fresh_slopes(self) -> bool:
        """Whether a coarse rule is enough for derivatives of the loss on fresh samples."""

    @property
    @abstractmethod
    def uses_controls(self) -> bool:
        """Whether averages are corrected by control variates, which need to know if proximal points have one
        minimum.
        """

    @abstractmethod
    def label_values(self) -> tuple[float, ...]:
        """Return the values of a map whose logits equal the noisy labels."""

    def averages(
        self,
        *state: float,
        level: int,
        check_rule: bool = False,
        detail: int = 0,
        search: bool = False,
        cache: ProxCache | None = None,
    ) -> ProxAverages:
        """Average over the proximal operator (2.2).

        Parameters
        ----------
        *state : float
            `Overlaps.state`.
        level : int
            Quadrature level; 0 is the coarsest.
        check_rule : bool
            Use the other rule of the same level, whose difference shows the quadrature error.
        detail : {0, 1, 2}
            0 gives the Stein forms alone, 1 the derivative forms too, 2 also E tr K².
        search : bool
            Count lower minima elsewhere.
        cache : ProxCache, optional
            Where proximal points are kept; every point starts at its label, or at the cached point if minima are
            tracked.
        """
        return self._average(state, Request(level, check_rule, detail, search, cache))

    @abstractmethod
    def _average(self, state: tuple[float, ...], asked: Request) -> ProxAverages:
        """Return the averages that `averages` describes."""

    @abstractmethod
    def parts(self, *state: float, level: int, cache: ProxCache | None = None) -> Sequence[ProxAverages]:
        """Return the averages, with their derivative forms, by each independent part of a rule of sampled points."""

    @abstractmethod
    def hats_of(self, averages: Any, *state: float, derivative: bool) -> Hats:
        """Return the hats per unit of α (2.2) from averages, in the Stein or in the derivative form."""

    @abstractmethod
    def nearly_aligned(self, *values: float) -> bool:
        """Whether learner and label are so close that the Stein forms, which divide by Q q - m², lose digits."""

    @abstractmethod
    def switch_mass(self, *state: float, level: int) -> float:
        """Share of samples with a lower minimum than the one near the label (2.7)."""

    @abstractmethod
    def has_one_minimum(self, *state: float, level: int, points: tuple[Array, ...] | None = None) -> bool:
        """Whether every prox that starts at the learner's logits ends where it does from the label (2.7).

        ``points`` are proximal points reached from the label, if they are known.
        """

    @abstractmethod
    def continuation_error(self, *values: float) -> float:
        """Relative error of continuing sampled rows to longer ones; zero where every row is sampled (L3)."""

    @abstractmethod
    def from_half_length(self) -> "OutputChannel":
        """Return the channel that extrapolates long rows from rows of half the sampled length (L6)."""

    def fresh_loss(
        self,
        *values: float,
        coarse: bool = False,
        check_rule: bool = False,
        power: float | None = None,
        loss: str | None = None,
    ) -> float:
        """Average a loss over fresh samples (2.4).

        Parameters
        ----------
        *values : float
            `Overlaps.values`.
        coarse : bool
            Use fewer points where points are sampled.
        check_rule : bool
            Use the other rule, whose difference shows the quadrature error.
        power : float, optional
            Variance of the label coordinates in the place of Q: that of clean labels is Q0.
        loss : str, optional
            Name of the loss; the training loss if not given.
        """
        return self._fresh_loss(values, FreshSamples(self._measure(loss), power, coarse, check_rule))

    def fresh_loss_error(self, *values: float, power: float | None = None, loss: str | None = None) -> float:
        """Quadrature error of `fresh_loss`."""
        return self._fresh_loss_error(values, FreshSamples(self._measure(loss), power))

    def _measure(self, loss: str | None) -> Loss:
        """Return the loss of this name; the training loss if there is none."""
        return self.loss if loss is None else LOSSES[loss]

    @abstractmethod
    def _fresh_loss(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Return the average that `fresh_loss` describes."""

    @abstractmethod
    def _fresh_loss_error(self, values: tuple[float, ...], asked: FreshSamples) -> float:
        """Return the quadrature error of `fresh_loss`."""

    @abstractmethod
    def zero_one(self, *values: float) -> float:
        """Share of rows of a fresh sample whose largest logit is not that of the label sampled from the target's
        softmax (U7).
        """

    @property
    @abstractmethod
    def noise_error(self) -> float:
        """Test error of an infinitely large map of pure noise: one token per row, at random (4.2)."""

    @abstractmethod
    def at_origin(self, level: int) -> Hats:
        """Return the hats per unit of α at S = 0, with the Sigmahat of a loss without curvature (4.6)."""

    @abstractmethod
    def at_origin_error(self, level: int) -> tuple[float, float]:
        """Quadrature errors of the means of qhat and mhat at S = 0."""

    def hats(self, *state: float, level: int, cache: ProxCache | None = None) -> Hats:
        """Return the hats per unit of α at a state (2.2), in the more accurate of the two forms."""
        sigmas = self.geometry.sectors
        derivative = self.use_derivatives(*state[:-sigmas])
        averages = self.averages(*state, level=level, detail=int(derivative), cache=cache)
        return self.hats_of(averages, *state, derivative=derivative)

    def use_derivatives(self, *values: float) -> bool:
        """Whether the derivative forms are the more accurate ones (2.6).

        Stein forms lose digits when recovery is nearly perfect and have the larger error on sampled points, but they
        are exact where the prox jumps.
        """
        return (self.geometry.sampled and not self.prox_jumps) or self.nearly_aligned(*values)

    def convex_at(self, *sigmas: float) -> bool:
        """Whether every proximal objective has one minimum (2.7): no logit has a larger Sigma than the largest
        sector.
        """
        return max(sigmas) <= self.loss.single_minimum_sigma(self.geometry.logit_load)

    def _modes(self, detail: int, search: bool, start: int, convex: bool) -> Modes:
        """Return the modes of a kernel; where every prox has one minimum, or tracks one, no other is searched for."""
        branch = int(Branch.LABEL)
        if not (start == KernelStart.WARM or convex):
            branch = int(Branch.GLOBAL if self.branch == "global" else Branch.COUNT if search else Branch.LABEL)
        return Modes(branch, int(detail), int(start), int(self.loss.hard))

    def _warm_start(
        self, cache: ProxCache | None, labels: tuple[Array, ...], choices: Sequence[int], *, convex: bool = False
    ) -> tuple[int, tuple[Array, ...]]:
        """Return where kernels start (`onehead.aim.kernels.arguments.Start`), and the cached points: one per hard
        label.

        Where every proximal objective has one minimum, as that of a hard label has, cached points are always a good
        start.
        """
        if cache is None:
            return int(KernelStart.LABEL), labels
        known = cache.points is not None or cache.starts_at_zero
        track = cache.track_minimum or cache.reuse_points or self.loss.hard or convex or self.single_minimum
        if cache.points is None:
            cache.points = tuple(np.zeros((len(u), k * u.shape[1])) for u, k in zip(labels, choices, strict=True))
        return int(KernelStart.WARM if known and track else KernelStart.KEEP), cache.points

    @staticmethod
    def _check_gradient(worst: float, *sigmas: float) -> None:
        """Refuse averages over proximal points that are not minima."""
        if not worst < GRADIENT_TOLERANCE:
            at = ", ".join(f"{sigma:.4g}" for sigma in sigmas)
            raise NotConverged(
                f"the proximal operator did not converge (gradient {worst:.1e} at Sigma = {at}); try a larger "
                f"weight_decay.",
                residual=worst,
            )

    def _dense_sums(
        self,
        block: Block,
        rule: LogitRule,
        points: Array,
        scaling: Scaling,
        modes: Modes,
        *,
        per_node: bool = False,
    ) -> Array:
        """Sum over the nodes of a block by the kernels for any number of coordinates; one or two have kernels of their
        own (2.5, U2.1).

        A row of the answer is a slice of the nodes, or one node.
        """
        arguments = (
            BlockArrays(block.select, block.metric, block.conditional_means),
            Nodes(*rule, points),
            scaling,
            modes,
        )
        kernel: Any = prox_sums
        functions: tuple[Any, ...] = (self.loss.compiled, self.loss.compiled_response)
        if block.is_pair or (block.is_line and not self.loss.hard):
            kernel, functions = two_token_sums if block.is_pair else two_column_sums, (self.loss.compiled_pair,)
        if block.is_pair and self.loss.compiled_kind == SQUARED and not per_node:
            kernel, functions = two_token_squared_sums, ()
        length = 1 if per_node else block.slice
        return sum_in_slices(kernel, 9, length, len(rule.weights), (*functions, *arguments))
