"""Convex losses of the margin, which the readout minimises (S1.3).

A loss is a class with three methods on arrays: ``value``, ``derivative`` and ``prox``. A loss of your own looks like

    class Exponential(Loss):
        name = "exponential"
        def value(self, margin): return np.exp(-margin)
        def derivative(self, margin): return -np.exp(-margin)
        def prox(self, margin, step): ...   # argmin over p of value(p) + (p - margin)**2 / (2 step)

Curvature and averages over Gaussian margins have defaults that follow from these three.
"""

from abc import ABC, abstractmethod
from inspect import isabstract
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.gaussian import cumulative, density
from onehead.sanitize import Unquoted

Array = NDArray[np.float64]

_WIDE = np.linspace(-10.0, 10.0, 401)  # in standard deviations; the trapezoidal rule errs by 1e-12 for smooth losses
_WIDE_WEIGHT = np.exp(-0.5 * _WIDE**2) / np.exp(-0.5 * _WIDE**2).sum()


class Loss(ABC):
    """Base class of a convex loss l(t) of the margin t = y * logit (S1.3).

    ``separable`` is the limit of vanishing ridge on separable data: the weights diverge along the maximum-margin
    ``"direction"``, or tend to the ``"hard margin"`` solution, or the limit is ``"unknown"``.

    Examples
    --------
    >>> class Exponential(Loss):
    ...     def value(self, margin):
    ...         return np.exp(-margin)
    ...
    ...     def derivative(self, margin):
    ...         return -np.exp(-margin)
    ...
    ...     def prox(self, margin, step):  # root of p = t + c e^-p
    ...         from scipy.special import lambertw
    ...
    ...         return margin + lambertw(step * np.exp(-margin)).real
    >>> str(Exponential()), Exponential().first_slope
    ('Exponential', 1.0)
    """

    name: ClassVar[str]  # by default the name of the class
    separable: ClassVar[Literal["direction", "hard margin", "unknown"]] = "unknown"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if getattr(cls, "name", None) in (None, *(base.__name__ for base in cls.__mro__)):
            cls.name = cls.__name__

    @abstractmethod
    def value(self, margin: Array) -> Array:
        """Return the loss l(t)."""

    @abstractmethod
    def derivative(self, margin: Array) -> Array:
        """Return the derivative l'(t), negative where the loss decreases."""

    @abstractmethod
    def prox(self, margin: Array, step: Array) -> Array:
        """Return the proximal point argmin_p l(p) + (p - t)^2 / (2 c) of margin t and step c."""

    def curvature(self, margin: Array) -> Array:
        """Return the second derivative l''(t), by central differences unless overridden."""
        width = 1e-5 * (1.0 + np.abs(margin))
        return np.asarray((self.derivative(margin + width) - self.derivative(margin - width)) / (2.0 * width))

    def slope_moments(self, mean: float, spread: float) -> tuple[float, float]:
        """Return E l'(t) and E l'(t)^2 for t ~ N(mean, spread^2)."""
        slope = self.derivative(mean + spread * _WIDE)
        return float(_WIDE_WEIGHT @ slope), float(_WIDE_WEIGHT @ slope**2)

    @property
    def first_slope(self) -> float:
        """Slope c0 = -l'(0), which sets the size of the first gradient step."""
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
    """Logistic loss l(t) = log(1 + e^-t)."""

    name = "logistic"
    separable = "direction"

    def value(self, margin: Array) -> Array:
        """Return log(1 + e^-t)."""
        return np.logaddexp(0.0, -margin)

    def derivative(self, margin: Array) -> Array:
        """Return -sig(-t)."""
        from scipy.special import expit  # scipy is loaded when first needed

        return np.asarray(-expit(-margin))

    def curvature(self, margin: Array) -> Array:
        """Return sig(t) sig(-t)."""
        s = self.derivative(margin)
        return -s * (1.0 + s)

    def prox(self, margin: Array, step: Array) -> Array:
        """Return the root of p = t + c sig(-p)."""
        from onehead.sparse.kernels import logistic_prox  # numba is loaded when first needed

        margin, step = np.broadcast_arrays(np.asarray(margin, dtype=float), np.asarray(step, dtype=float))
        out = np.empty(margin.size)
        logistic_prox(np.ascontiguousarray(margin).ravel(), np.ascontiguousarray(step).ravel(), out)
        return out.reshape(margin.shape)


class Square(Loss):
    """Square loss l(t) = (1 - t)^2 / 2."""

    name = "square"

    def value(self, margin: Array) -> Array:
        """Return (1 - t)^2 / 2."""
        return 0.5 * (1.0 - margin) ** 2

    def derivative(self, margin: Array) -> Array:
        """Return t - 1."""
        return margin - 1.0

    def curvature(self, margin: Array) -> Array:
        """Return one."""
        return np.ones_like(margin)

    def prox(self, margin: Array, step: Array) -> Array:
        """Return (t + c) / (1 + c)."""
        return (margin + step) / (1.0 + step)


class Hinge(Loss):
    """Hinge loss l(t) = max(1 - t, 0)."""

    name = "hinge"
    separable = "hard margin"

    def value(self, margin: Array) -> Array:
        """Return max(1 - t, 0)."""
        return np.maximum(1.0 - margin, 0.0)

    def derivative(self, margin: Array) -> Array:
        """Return -1 below the kink and 0 above it."""
        return -(margin < 1.0).astype(float)

    def curvature(self, margin: Array) -> Array:
        """Return zero, the second derivative away from the kink."""
        return np.zeros_like(margin)

    def prox(self, margin: Array, step: Array) -> Array:
        """Return t above the kink, t + c below 1 - c, and 1 between."""
        return np.maximum(margin, np.minimum(margin + step, 1.0))

    def slope_moments(self, mean: float, spread: float) -> tuple[float, float]:
        """Return -P(t < 1) and P(t < 1); a step function is not suited to quadrature."""
        share = float(cumulative((1.0 - mean) / spread)) if spread > 0.0 else float(mean < 1.0)
        return -share, share


class SquaredHinge(Loss):
    """Squared hinge loss l(t) = max(1 - t, 0)^2 / 2."""

    name = "squared-hinge"
    separable = "hard margin"

    def value(self, margin: Array) -> Array:
        """Return max(1 - t, 0)^2 / 2."""
        return 0.5 * np.maximum(1.0 - margin, 0.0) ** 2

    def derivative(self, margin: Array) -> Array:
        """Return -max(1 - t, 0)."""
        return -np.maximum(1.0 - margin, 0.0)

    def curvature(self, margin: Array) -> Array:
        """Return one below the kink and zero above it."""
        return (margin < 1.0).astype(float)

    def prox(self, margin: Array, step: Array) -> Array:
        """Return t above the kink and (t + c) / (1 + c) below it."""
        return np.where(margin >= 1.0, margin, (margin + step) / (1.0 + step))

    def slope_moments(self, mean: float, spread: float) -> tuple[float, float]:
        """Return the first two moments of a Gaussian truncated at the kink."""
        gap = 1.0 - mean
        if spread == 0.0:
            return -max(gap, 0.0), max(gap, 0.0) ** 2
        z = gap / spread
        below, at = float(cumulative(z)), float(density(z))
        return -(gap * below + spread * at), (gap**2 + spread**2) * below + gap * spread * at


_CHECKED: set[Loss] = set()
LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), Square(), Hinge(), SquaredHinge())}


def named(loss: object) -> Loss:
    """Return a loss by its name, or check and return a loss object.

    >>> named("hinge")
    Hinge()
    """
    if isinstance(loss, type) and issubclass(loss, Loss):
        if isabstract(loss):
            raise InvalidArgument("loss", loss, "a Loss with value, derivative and prox")
        loss = loss()
    if isinstance(loss, Loss):
        if type(loss).__module__ != __name__ and loss not in _CHECKED:  # built-in losses are checked by the tests
            _check(loss)
            _CHECKED.add(loss)
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    raise InvalidArgument("loss", loss, f"{', '.join(LOSSES)}, or a Loss of your own", LOSSES)


def _check(loss: Loss) -> None:
    """Refuse a loss whose derivative or proximal point is wrong, with a message that says which.

    A central difference across a kink lies between the slopes on its two sides, so that the derivative may differ from
    it at one of the test points.
    """
    margin, width = np.linspace(-3.03, 3.17, 41), 1e-5
    step = np.full_like(margin, 0.7)
    with np.errstate(all="ignore"):
        value, slope, prox = (np.asarray(found, dtype=float) for found in _numbers(loss, margin, step))
        difference = (np.asarray(loss.value(margin + width)) - np.asarray(loss.value(margin - width))) / (2.0 * width)
        around = prox + np.linspace(-0.2, 0.2, 41)[:, None]
        costs = np.asarray(loss.value(around), dtype=float) + (around - margin) ** 2 / (2.0 * step)
        cost = np.asarray(loss.value(prox), dtype=float) + (prox - margin) ** 2 / (2.0 * step)
    rounding = 1e-5 * (1.0 + np.abs(value))  # central differences with this width have errors of about 1e-9
    faults = {
        "value, derivative or prox that are not finite": not np.isfinite([*value, *slope, *prox]).all(),
        "a derivative that is not the slope of its value": np.sum(np.abs(difference - slope) > rounding) > 1,
        "a prox that is not where value(p) + (p - margin)^2/(2 step) is smallest": np.any(
            cost > costs.min(axis=0) + rounding
        ),
    }
    for fault, wrong in faults.items():
        if wrong:
            raise InvalidArgument(
                f"loss {loss.name!r}", Unquoted(fault), "a convex function of the margin, with its derivative and prox"
            )


def _numbers(loss: Loss, margin: Array, step: Array) -> tuple[Any, Any, Any]:
    """Return value, derivative and prox on arrays; refuse a loss that fails on them or changes their shape."""
    try:
        found = loss.value(margin), loss.derivative(margin), loss.prox(margin, step)
    except (TypeError, ValueError, ArithmeticError, NameError, AttributeError) as failure:
        raise InvalidArgument(
            f"loss {loss.name!r}", Unquoted(str(failure).rstrip(".")), "made of functions of arrays"
        ) from failure
    if any(np.shape(one) != margin.shape for one in found):
        raise InvalidArgument(
            f"loss {loss.name!r}", Unquoted("another shape"), "made of functions that keep the shape of an array"
        )
    return found
