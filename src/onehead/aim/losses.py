"""Losses a head can be trained with: value, gradient and Hessian on one row of attention logits.

The compiled averages over samples are in `onehead.aim.kernels`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import isabstract
from typing import Any, ClassVar

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from onehead.aim.kernels.losses import CROSS_ENTROPY, RESPONSE_SIGNATURE, SQUARED, softmax
from onehead.aim.logits.softmax_row import SoftmaxRow
from onehead.errors import InvalidArgument
from onehead.numerics.jit import compile_pointer
from onehead.numerics.prox import compile_pair, compile_row, pair_of_row
from onehead.results import Kind
from onehead.sanitize import Unquoted

LABEL_LOGIT_STEP = 1e-5  # of central differences in the label logits: relative error about 1e-10

Vector = NDArray[np.float64]


class Loss(ABC):
    """Loss of a row of logits, given a row of labels; subclass it for a loss of your own.

    A loss needs one static method, written in the part of Python that numba compiles::

        row(logits, label, gradient, hessian) -> value

    ``logits`` and ``label`` have T entries, ``label`` is a probability vector. The method returns the loss of the row
    and fills its ``gradient`` (T,) and ``hessian`` (T, T) with respect to the logits. The loss must not change when a
    constant is added to all logits, nor when the tokens are permuted; both, and the derivatives, are checked on first
    use, and a mistake raises `onehead.errors.InvalidArgument`.

    Attributes
    ----------
    name : str
        Name in results and tables; that of the class by default.
    convex : bool
        Whether the loss is convex in the logits, so that the proximal operator has one minimum.
    kind : str
        Kind of truth of predictions made with it.
    pair : staticmethod, optional
        ``pair(x, y, c)``: value, slope and curvature of a row with logits (x, 0) and label (y, c), c = 1 - y; faster
        for T = 2.
    response : staticmethod, optional
        ``response(logits, label, out)`` with out[b, k] = -d(gradient_b)/d(label logit k), for T > 2; found by
        differences if not given.

    Examples
    --------
    >>> from onehead.aim import Loss, softmax
    >>> class HalfSquared(Loss):
    ...     @staticmethod
    ...     def row(logits, label, gradient, hessian):
    ...         softmax(logits, gradient)
    ...         ...
    >>> HalfSquared().name, HalfSquared().convex
    ('HalfSquared', False)
    """

    name: ClassVar[str]
    convex: ClassVar[bool] = False
    kind: ClassVar[Kind] = "conjecture"
    pair: ClassVar["staticmethod[[float, float, float], tuple[float, float, float]] | None"] = None
    response: ClassVar["staticmethod[[Vector, Vector, Vector], None] | None"] = None
    # Set by the built-in losses only:
    hard: ClassVar[bool] = False  # whether a label is one token per row, sampled from the target's softmax (U7)
    is_test_error: ClassVar[bool] = False  # whether test errors are measured with this loss
    compiled_kind: ClassVar[int | None] = None  # code of the kernels for Hessians diagonal + rank two (U2.1), if any
    # average loss of a row of a fresh sample in closed form, from its moments (2.9)
    fresh_formula: ClassVar["staticmethod[[SoftmaxRow], float] | None"] = None
    # losses of many rows of two columns at once, from logit differences of learner and label
    pair_losses: ClassVar["staticmethod[[Vector, Vector], Vector] | None"] = None
    _compiled: ClassVar[dict[tuple[type["Loss"], str], Any]] = {}

    @staticmethod
    @abstractmethod
    def row(
        logits: NDArray[np.float64],
        label: NDArray[np.float64],
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
    ) -> float:
        """Loss of one row; fills the gradient and the Hessian."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if getattr(cls, "name", None) in (None, *(base.__name__ for base in cls.__mro__)):
            cls.name = cls.__name__

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def single_minimum_sigma(self, logit_load: float) -> float:
        """Largest Σ at which the proximal operator surely has one minimum, for rows of this logit load (2.7)."""
        return float("inf") if self.convex else 0.0

    @property
    def compiled(self) -> Any:
        """Compiled row function; compiled and checked once per class."""

        def make() -> Any:
            try:
                kernel = compile_row(type(self).row)
            except NumbaError as failure:
                raise _compile_error(self.name, failure) from None
            if type(self).__module__ != __name__:  # the built-in losses are checked by the tests
                _check_row(self.name, kernel)
            return kernel

        return self._once("row", make)

    @property
    def compiled_pair(self) -> Any:
        """Compiled pair function; compiled once per class."""
        pair = type(self).pair
        return self._once("pair", lambda: compile_pair(pair) if pair is not None else pair_of_row(self.compiled))

    @property
    def compiled_response(self) -> Any:
        """Compiled response to the label logits; compiled once per class."""
        own = type(self).response
        if own is None:
            return self._once("response", lambda: _response_of_row(self.compiled))
        return self._once("response", lambda: compile_pointer(RESPONSE_SIGNATURE, own))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """Compiled function of this class from the cache, made on first use."""
        key = (type(self), name)
        if key not in self._compiled:
            self._compiled[key] = make()
        return self._compiled[key]


def _response_of_row(row: Any) -> Any:
    """Response of a compiled row function, by central differences in the label logits."""

    def response(logits: Vector, label: Vector, out: Vector) -> None:
        T = logits.shape[0]
        moved, gradient, hessian = np.empty(T), np.empty(T), np.empty((T, T))
        out[:] = 0.0
        for k in range(T):
            for side in range(2):
                step = LABEL_LOGIT_STEP if side == 0 else -LABEL_LOGIT_STEP
                growth = np.expm1(step)
                for b in range(T):  # softmax of the label logits after moving the k-th one
                    moved[b] = label[b] * (1.0 + growth if b == k else 1.0) / (1.0 + growth * label[k])
                row(logits, moved, gradient, hessian)
                for b in range(T):
                    out[b, k] -= gradient[b] / (2.0 * step)

    return compile_pointer(RESPONSE_SIGNATURE, response, cache=False)


def _squared_pair(x: float, y: float, c: float) -> tuple[float, float, float]:
    """Value, slope and curvature of 2 (sig(x) - y)^2 (2.5), in the form that avoids cancellation."""
    e = np.exp(-abs(x))
    f = 1.0 / (1.0 + e)
    low = e * f
    r = c - low if x >= 0.0 else low - y
    odd = f - low if x >= 0.0 else low - f
    slope = f * low
    return 2.0 * r * r, 4.0 * r * slope, 4.0 * slope * (slope - r * odd)


def _cross_entropy_pair(x: float, y: float, c: float) -> tuple[float, float, float]:
    """Value, slope and curvature of log(1 + e^x) - y x."""
    e = np.exp(-abs(x))
    f = 1.0 / (1.0 + e)
    low = e * f
    if x >= 0.0:
        return np.log1p(e) + c * x, c - low, f * low
    return np.log1p(e) - y * x, low - y, f * low


def _squared_response(logits: Vector, label: Vector, out: Vector) -> None:
    """Response 2 J(p) J(y) with J(x) = diag(x) - x x', p = softmax(l)."""
    T = logits.shape[0]
    p = out[0]  # scratch space; row 0 is overwritten last
    softmax(logits, p)
    overlap = 0.0
    for b in range(T):
        overlap += p[b] * label[b]
    for b in range(T - 1, -1, -1):
        p_b = p[b]
        for k in range(T - 1, -1, -1):
            diagonal = label[b] if b == k else 0.0
            out[b, k] = 2.0 * p_b * (diagonal + label[k] * (overlap - label[b] - p[k]))


def _cross_entropy_response(logits: Vector, label: Vector, out: Vector) -> None:
    """Response J(y) = diag(y) - y y'."""
    T = logits.shape[0]
    for b in range(T):
        for k in range(T):
            out[b, k] = label[b] * ((1.0 if b == k else 0.0) - label[k])


def _squared_fresh(row: SoftmaxRow) -> float:
    """Average squared loss E |p - y|² of a row."""
    return max(row.pp + row.yy - 2.0 * row.py, 0.0)


def _cross_entropy_fresh(row: SoftmaxRow) -> float:
    """Average cross-entropy E log Z - E sum y h of a row."""
    return row.log_z - row.yh


def _squared_pair_losses(v: Vector, t: Vector) -> Vector:
    """Squared losses 2 (sig(v) - sig(t))² of rows with logit differences v and label logit differences t."""
    return np.asarray(0.5 * (np.tanh(0.5 * v) - np.tanh(0.5 * t)) ** 2)


def _cross_entropy_pair_losses(v: Vector, t: Vector) -> Vector:
    """Cross-entropies log(1 + e^v) - sig(t) v of rows with logit differences v and label logit differences t."""
    return np.asarray(np.log1p(np.exp(-np.abs(v))) + np.maximum(v, 0.0) - 0.5 * (1.0 + np.tanh(0.5 * t)) * v)


class Squared(Loss):
    """Squared loss of the paper: || softmax(l) - y ||^2, a sum over entries without a factor 1/2.

    Examples
    --------
    >>> from onehead.aim import Learner, Squared
    >>> Learner(loss=Squared()).loss.name
    'squared'
    """

    name = "squared"
    kind = "claim"
    compiled_kind = SQUARED
    is_test_error = True
    pair = staticmethod(_squared_pair)
    response = staticmethod(_squared_response)
    fresh_formula = staticmethod(_squared_fresh)
    pair_losses = staticmethod(_squared_pair_losses)

    def single_minimum_sigma(self, logit_load: float) -> float:
        """Bound from the most negative curvature, at p = (0.136, 0.864), y = (1, 0), for any T (2.7)."""
        return 1.0 / (0.4809 * logit_load)

    @staticmethod
    def row(
        logits: NDArray[np.float64],
        label: NDArray[np.float64],
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
    ) -> float:
        """Value |r|², gradient 2 p_b (r_b - s) and Hessian, with p = softmax(l), r = p - y, s = r.p (2.6)."""
        T = logits.shape[0]
        softmax(logits, gradient)  # the gradient array holds p until the end
        value, s, tilt = 0.0, 0.0, 0.0
        for b in range(T):
            r = gradient[b] - label[b]
            value += r * r
            s += r * gradient[b]
            tilt += gradient[b] * (r + gradient[b])
        for k in range(T):
            pull = gradient[k] * (2.0 * gradient[k] - label[k] - tilt)
            for b in range(T):
                p = gradient[b]
                jacobian = p * ((1.0 if b == k else 0.0) - gradient[k])
                hessian[b, k] = 2.0 * (jacobian * (p - label[b] - s) + p * (jacobian - pull))
        for b in range(T):
            gradient[b] = 2.0 * gradient[b] * (gradient[b] - label[b] - s)
        return float(value)


class CrossEntropy(Loss):
    """Cross-entropy with soft labels: - sum_b y_b log softmax(l)_b. Convex in the logits.

    Examples
    --------
    >>> from onehead.aim import CrossEntropy, Learner
    >>> Learner(loss=CrossEntropy).loss.convex
    True
    """

    name = "cross-entropy"
    convex = True
    compiled_kind = CROSS_ENTROPY
    pair = staticmethod(_cross_entropy_pair)
    response = staticmethod(_cross_entropy_response)
    fresh_formula = staticmethod(_cross_entropy_fresh)
    pair_losses = staticmethod(_cross_entropy_pair_losses)

    @staticmethod
    def row(
        logits: NDArray[np.float64],
        label: NDArray[np.float64],
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
    ) -> float:
        """Value, gradient p - y and Hessian diag(p) - p p' of the cross-entropy, with p = softmax(l)."""
        T = logits.shape[0]
        softmax(logits, gradient)
        largest, mean = logits[0], 0.0
        for b in range(1, T):
            largest = max(largest, logits[b])
        total = 0.0
        for b in range(T):
            total += np.exp(logits[b] - largest)
            mean += label[b] * (logits[b] - largest)
        for b in range(T):
            for k in range(T):
                hessian[b, k] = gradient[b] * ((1.0 if b == k else 0.0) - gradient[k])
        for b in range(T):
            gradient[b] -= label[b]
        return float(np.log(total) - mean)


class HardCrossEntropy(CrossEntropy):
    """Cross-entropy with hard labels, one token per row; on fresh samples its average is that of soft labels (U7)."""

    hard = True


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), CrossEntropy())}


def loss_by_name(loss: "str | Loss | type[Loss]") -> Loss:
    """Return the loss that a name, a `Loss` object or a `Loss` class stands for."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        if isabstract(loss):
            raise InvalidArgument("loss", loss, "a Loss with a static method row(logits, label, gradient, hessian)")
        return loss()
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    raise InvalidArgument("loss", loss, f"{' or '.join(LOSSES)}, or a Loss", LOSSES)


def loss_for_labels(labels: str, loss: "str | Loss") -> Loss:
    """Return the loss to use with ``labels`` "soft" or "hard"; hard labels take the cross-entropy only."""
    found = loss_by_name(loss)
    if labels == "soft":
        return found
    if type(found) is not CrossEntropy:
        raise InvalidArgument("loss", found.name, "cross-entropy with hard labels")
    return HardCrossEntropy()


def _compile_error(name: str, failure: NumbaError) -> InvalidArgument:
    """Refusal of a row function that numba cannot compile, with the first line of its message."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(failure))  # colours of a terminal
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("File ", "-", "Failed"))
    ]
    line_number = re.search(r"line (\d+)", text)
    reason = (lines or [type(failure).__name__])[0].rstrip(".") + (f", line {line_number[1]}" if line_number else "")
    allowed = "a row function in the part of Python that numba compiles (numbers, loops, numpy arrays)"
    return InvalidArgument(f"loss {name!r}", Unquoted(reason), allowed)


def _check_row(name: str, row: Any) -> None:
    """Refuse a row function with wrong derivatives or without the symmetries of a loss, naming what is wrong."""
    T, step = 3, 1e-5
    logits, label = np.array([0.3, -0.8, 1.1]), np.array([0.2, 0.5, 0.3])
    gradient, hessian = np.empty(T), np.empty((T, T))
    value = row(logits, label, gradient, hessian)
    own_gradient, own_hessian = gradient.copy(), hessian.copy()
    numerical_gradient, numerical_hessian = np.empty(T), np.empty((T, T))
    for k in range(T):
        ahead, behind = logits.copy(), logits.copy()
        ahead[k] += step
        behind[k] -= step
        value_ahead = row(ahead, label, gradient, hessian)
        gradient_ahead = gradient.copy()
        numerical_gradient[k] = (value_ahead - row(behind, label, gradient, hessian)) / (2.0 * step)
        numerical_hessian[:, k] = (gradient_ahead - gradient) / (2.0 * step)
    tolerance = 1e-6 * (1.0 + abs(value))  # central differences with this step are accurate to about 1e-9
    reversed_value = row(logits[::-1].copy(), label[::-1].copy(), gradient, hessian)
    shifted_value = row(logits + 0.7, label, gradient, hessian)
    for fault, wrong in (
        (
            "fills a gradient that is not the slope of its value",
            np.abs(numerical_gradient - own_gradient).max() > tolerance,
        ),
        (
            "fills a Hessian that is not the slope of its gradient",
            np.abs(numerical_hessian - own_hessian).max() > tolerance,
        ),
        ("changes when a constant is added to all logits", abs(shifted_value - value) > tolerance),
        ("changes when the tokens are renamed", abs(reversed_value - value) > tolerance),
    ):
        if wrong:
            raise InvalidArgument(f"loss {name!r}", fault, "a smooth function of the softmax, with its derivatives")
