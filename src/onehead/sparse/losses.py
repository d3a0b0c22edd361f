"""Convex losses of the margin: what a readout minimises.

A loss is a small class with three methods, each of arrays: ``value``, ``derivative`` and ``prox``. Your own
one is

    class Exponential(Loss):
        name = "exponential"
        def value(self, margin): return np.exp(-margin)
        def derivative(self, margin): return -np.exp(-margin)
        def prox(self, margin, step): ...   # argmin over p of value(p) + (p - margin)**2 / (2 step)

Everything else (curvature, averages over Gaussian margins) has a default that follows from these three.
"""

from abc import ABC, abstractmethod
from inspect import isabstract
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.gaussian import cumulative, density
from onehead.text import Bare

__all__ = ["LOSSES", "Array", "Hinge", "Logistic", "Loss", "Square", "SquaredHinge", "named"]

Array = NDArray[np.float64]

_WIDE = np.linspace(-10.0, 10.0, 401)  # standard deviations: the trapezoid rule is exact to 1e-12 for smooth losses
_WIDE_WEIGHT = np.exp(-0.5 * _WIDE**2) / np.exp(-0.5 * _WIDE**2).sum()


class Loss(ABC):
    """A convex loss l(t) of the margin t = y * logit (S1.3).

    ``separable`` says what minimising it does, without ridge, on data that a hyperplane separates: the
    weights run away along the maximum-margin direction, or stop at the hard-margin solution, or it is not
    known.
    """

    name: ClassVar[str]  # that of the class, unless it says another
    separable: ClassVar[Literal["direction", "hard margin", "unknown"]] = "unknown"

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        if getattr(cls, "name", None) in (None, *(base.__name__ for base in cls.__mro__)):
            cls.name = cls.__name__

    @abstractmethod
    def value(self, margin: Array) -> Array:
        """The loss l(t)."""

    @abstractmethod
    def derivative(self, margin: Array) -> Array:
        """Its derivative l'(t), at most zero where the loss falls."""

    @abstractmethod
    def prox(self, margin: Array, step: Array) -> Array:
        """Proximal point argmin_p l(p) + (p - t)^2 / (2 c), t the margin and c the step."""

    def curvature(self, margin: Array) -> Array:
        """Second derivative l''(t); by central differences unless a loss knows better."""
        width = 1e-5 * (1.0 + np.abs(margin))
        return np.asarray((self.derivative(margin + width) - self.derivative(margin - width)) / (2.0 * width))

    def slope_moments(self, mean: float, spread: float) -> tuple[float, float]:
        """E l'(t) and E l'(t)^2 for t ~ N(mean, spread^2)."""
        slope = self.derivative(mean + spread * _WIDE)
        return float(_WIDE_WEIGHT @ slope), float(_WIDE_WEIGHT @ slope**2)

    @property
    def first_slope(self) -> float:
        """Return c0 = -l'(0), the size of the first gradient step."""
        return -float(self.derivative(np.zeros(1))[0])

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(vars(self).items()))))


class Logistic(Loss):
    """l(t) = log(1 + e^-t)."""

    name = "logistic"
    separable = "direction"

    def value(self, margin: Array) -> Array:
        """log(1 + e^-t)."""
        return np.logaddexp(0.0, -margin)

    def derivative(self, margin: Array) -> Array:
        """-sig(-t)."""
        from scipy.special import expit  # noqa: PLC0415  (scipy is loaded when first needed)

        return np.asarray(-expit(-margin))

    def curvature(self, margin: Array) -> Array:
        """sig(t) sig(-t)."""
        s = self.derivative(margin)
        return -s * (1.0 + s)

    def prox(self, margin: Array, step: Array) -> Array:
        """Root of p = t + c sig(-p)."""
        from onehead.sparse.kernels import logistic_prox  # noqa: PLC0415  (numba is loaded when first needed)

        margin, step = np.broadcast_arrays(np.asarray(margin, dtype=float), np.asarray(step, dtype=float))
        out = np.empty(margin.size)
        logistic_prox(np.ascontiguousarray(margin).ravel(), np.ascontiguousarray(step).ravel(), out)
        return out.reshape(margin.shape)


class Square(Loss):
    """l(t) = (1 - t)^2 / 2."""

    name = "square"

    def value(self, margin: Array) -> Array:
        """(1 - t)^2 / 2."""
        return 0.5 * (1.0 - margin) ** 2

    def derivative(self, margin: Array) -> Array:
        """t - 1."""
        return margin - 1.0

    def curvature(self, margin: Array) -> Array:
        """One."""
        return np.ones_like(margin)

    def prox(self, margin: Array, step: Array) -> Array:
        """(t + c) / (1 + c)."""
        return (margin + step) / (1.0 + step)


class Hinge(Loss):
    """l(t) = max(1 - t, 0)."""

    name = "hinge"
    separable = "hard margin"

    def value(self, margin: Array) -> Array:
        """max(1 - t, 0)."""
        return np.maximum(1.0 - margin, 0.0)

    def derivative(self, margin: Array) -> Array:
        """-1 below the kink, 0 above it."""
        return -(margin < 1.0).astype(float)

    def curvature(self, margin: Array) -> Array:
        """Zero away from the kink."""
        return np.zeros_like(margin)

    def prox(self, margin: Array, step: Array) -> Array:
        """t above the kink, t + c well below it, 1 between."""
        return np.maximum(margin, np.minimum(margin + step, 1.0))

    def slope_moments(self, mean: float, spread: float) -> tuple[float, float]:
        """-P(t < 1) and P(t < 1): a step function defeats any quadrature rule."""
        share = float(cumulative((1.0 - mean) / spread)) if spread > 0.0 else float(mean < 1.0)
        return -share, share


class SquaredHinge(Loss):
    """l(t) = max(1 - t, 0)^2 / 2."""

    name = "squared-hinge"
    separable = "hard margin"

    def value(self, margin: Array) -> Array:
        """max(1 - t, 0)^2 / 2."""
        return 0.5 * np.maximum(1.0 - margin, 0.0) ** 2

    def derivative(self, margin: Array) -> Array:
        """-max(1 - t, 0)."""
        return -np.maximum(1.0 - margin, 0.0)

    def curvature(self, margin: Array) -> Array:
        """One below the kink, zero above it."""
        return (margin < 1.0).astype(float)

    def prox(self, margin: Array, step: Array) -> Array:
        """t above the kink, (t + c) / (1 + c) below it."""
        return np.where(margin >= 1.0, margin, (margin + step) / (1.0 + step))

    def slope_moments(self, mean: float, spread: float) -> tuple[float, float]:
        """First two moments of a Gaussian cut at the kink."""
        gap = 1.0 - mean
        if spread == 0.0:
            return -max(gap, 0.0), max(gap, 0.0) ** 2
        z = gap / spread
        below, at = float(cumulative(z)), float(density(z))
        return -(gap * below + spread * at), (gap**2 + spread**2) * below + gap * spread * at


_CHECKED: set[Loss] = set()
LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), Square(), Hinge(), SquaredHinge())}


def named(loss: object) -> Loss:
    """A loss given by its name, or a loss object itself.

    >>> named("hinge")
    Hinge()
    """
    if isinstance(loss, type) and issubclass(loss, Loss):
        if isabstract(loss):
            raise InvalidArgument("loss", loss, "a Loss with value, derivative and prox")
        loss = loss()
    if isinstance(loss, Loss):
        if type(loss).__module__ != __name__ and loss not in _CHECKED:  # those that ship are checked by the tests
            _check(loss)
            _CHECKED.add(loss)
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    raise InvalidArgument("loss", loss, f"{', '.join(LOSSES)}, or a Loss of your own", LOSSES)


def _check(loss: Loss) -> None:
    """Refuse a loss whose derivative or proximal point is wrong, with a sentence that says which.

    At a kink the slope of a difference lies between those on both sides: a derivative may be off at one place of many.
    """
    margin, width = np.linspace(-3.03, 3.17, 41), 1e-5
    step = np.full_like(margin, 0.7)
    with np.errstate(all="ignore"):
        value, slope, near = (np.asarray(found, dtype=float) for found in _numbers(loss, margin, step))
        rise = (np.asarray(loss.value(margin + width)) - np.asarray(loss.value(margin - width))) / (2.0 * width)
        around = near + np.linspace(-0.2, 0.2, 41)[:, None]
        costs = np.asarray(loss.value(around), dtype=float) + (around - margin) ** 2 / (2.0 * step)
        there = np.asarray(loss.value(near), dtype=float) + (near - margin) ** 2 / (2.0 * step)
    rounding = 1e-5 * (1.0 + np.abs(value))  # central differences with this width are good to about 1e-9
    faults = {
        "value, derivative or prox that are not finite": not np.isfinite([*value, *slope, *near]).all(),
        "a derivative that is not the slope of its value": np.sum(np.abs(rise - slope) > rounding) > 1,
        "a prox that is not where value(p) + (p - margin)^2/(2 step) is smallest": np.any(
            there > costs.min(axis=0) + rounding
        ),
    }
    for fault, wrong in faults.items():
        if wrong:
            raise InvalidArgument(
                f"loss {loss.name!r}", Bare(fault), "a convex function of the margin, with its derivative and prox"
            )


def _numbers(loss: Loss, margin: Array, step: Array) -> tuple[Any, Any, Any]:
    """Value, derivative and prox on arrays, as the theory calls them."""
    try:
        found = loss.value(margin), loss.derivative(margin), loss.prox(margin, step)
    except (TypeError, ValueError, ArithmeticError, NameError, AttributeError) as failure:
        raise InvalidArgument(
            f"loss {loss.name!r}", Bare(str(failure).rstrip(".")), "made of functions of arrays"
        ) from failure
    if any(np.shape(one) != margin.shape for one in found):
        raise InvalidArgument(
            f"loss {loss.name!r}", Bare("another shape"), "made of functions that keep the shape of an array"
        )
    return found
