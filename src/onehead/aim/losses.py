"""Losses that a head can be trained with: value, gradient and Hessian on one row of attention logits."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import isabstract
from typing import Any, ClassVar

import numpy as np
from numba import float64, types
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.compiled import compile_pointer, njit
from onehead.numerics.prox import compile_pair, compile_row, pair_of_row
from onehead.numerics.softmax import SoftmaxRow
from onehead.results import Kind
from onehead.text import Bare

__all__ = [
    "CROSS_ENTROPY",
    "LOSSES",
    "RESPONSE",
    "SQUARED",
    "CrossEntropy",
    "Loss",
    "Squared",
    "loss_named",
    "loss_on",
    "softmax",
]

_vector, _matrix = types.Array(float64, 1, "C"), types.Array(float64, 2, "C")
RESPONSE_SIGNATURE = types.void(_vector, _vector, _matrix)
RESPONSE = types.FunctionType(RESPONSE_SIGNATURE)
CROSS_ENTROPY, SQUARED = 0, 1  # as compiled code knows them
STEP_LABEL = 1e-5  # central difference in the label logits: error about 1e-10 of the derivative

Vector = NDArray[np.float64]


@njit(cache=True, nogil=True, error_model="numpy")
def softmax(logits, p):  # type: ignore[no-untyped-def]
    """Fill ``p`` with the softmax of ``logits``; no entry loses its relative precision."""
    if logits.shape[0] == 2:
        d = logits[0] - logits[1]
        e = np.exp(-abs(d))
        high = 1.0 / (1.0 + e)
        low = e * high
        p[0], p[1] = (high, low) if d >= 0.0 else (low, high)
        return
    top = logits[0]
    for b in range(1, logits.shape[0]):
        top = max(top, logits[b])
    total = 0.0
    for b in range(logits.shape[0]):
        p[b] = np.exp(logits[b] - top)
        total += p[b]
    for b in range(logits.shape[0]):
        p[b] /= total


class Loss(ABC):
    """What turns a row of logits and a row of labels into a loss.

    A loss needs one static method, written in the part of Python that numba compiles::

        row(logits, label, gradient, hessian) -> value

    ``logits`` and ``label`` have T entries, ``label`` is a probability vector. The method returns the loss of the row and
    fills its ``gradient`` (T,) and ``hessian`` (T, T) with respect to the logits. The loss must not change when a constant
    is added to all logits, nor when the tokens are renamed; both, and the derivatives, are checked on first use.

    ``convex`` says whether the loss is convex in the logits: the proximal operator then has one minimum.
    ``kind`` is the kind of truth of predictions made with it. ``pair(x, y, c)`` is a shortcut for T = 2 that the losses
    that ship have: loss, slope and curvature of a row with logits (x, 0) and label (y, c), c = 1 - y; and
    ``response(logits, label, out)`` one for T > 2: out[b, k] = - d(gradient_b)/d(label logit k), else found by differences.
    """

    name: ClassVar[str]  # that of the class, unless it says another
    convex: ClassVar[bool] = False
    hard: ClassVar[bool] = False  # whether labels are one token per row, drawn from the target's softmax (U7)
    lean: ClassVar[int | None] = None  # which of the losses whose Hessian is a diagonal and two directions (U2.1)
    yardstick: ClassVar[bool] = False  # whether it is the loss that test errors are measured with
    fresh: ClassVar["staticmethod[[SoftmaxRow], float] | None"] = (
        None  # of a row of a fresh sample, where a formula exists (2.9)
    )
    line: ClassVar["staticmethod[[Vector, Vector], Vector] | None"] = (
        None  # of many rows of two columns at once, label logits second
    )
    kind: ClassVar[Kind] = "conjecture"
    pair: ClassVar["staticmethod[[float, float, float], tuple[float, float, float]] | None"] = None
    response: ClassVar["staticmethod[[Vector, Vector, Vector], None] | None"] = None
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

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        if getattr(cls, "name", None) in (None, *(base.__name__ for base in cls.__mro__)):
            cls.name = cls.__name__

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def one_minimum(self, exposure: float) -> float:
        """Sigma up to which the proximal operator has one minimum, if logits of this variance stand in one row each (2.7)."""
        return float("inf") if self.convex else 0.0

    @property
    def compiled(self) -> Any:
        """The row function, compiled and checked once per class."""

        def make() -> Any:
            try:
                kernel = compile_row(type(self).row)
            except NumbaError as failure:
                raise _uncompiled(self.name, failure) from None
            if type(self).__module__ != __name__:  # the two that ship are checked by the tests
                _check(self.name, kernel)
            return kernel

        return self._once("row", make)

    @property
    def compiled_pair(self) -> Any:
        """The pair function, compiled once per class."""
        pair = type(self).pair
        return self._once("pair", lambda: compile_pair(pair) if pair is not None else pair_of_row(self.compiled))

    @property
    def compiled_response(self) -> Any:
        """The response to the label, compiled once per class."""
        own = type(self).response
        if own is None:
            return self._once("response", lambda: _response_of_row(self.compiled))
        return self._once("response", lambda: compile_pointer(RESPONSE_SIGNATURE, own))

    def _once(self, what: str, make: Callable[[], Any]) -> Any:
        """What a class has compiled already, or compiles now."""
        key = (type(self), what)
        if key not in self._compiled:
            self._compiled[key] = make()
        return self._compiled[key]


def _response_of_row(row: Any) -> Any:
    """The response of a compiled row function, by central differences in the label logits."""

    def response(logits: Vector, label: Vector, out: Vector) -> None:
        T = logits.shape[0]
        moved, gradient, hessian = np.empty(T), np.empty(T), np.empty((T, T))
        out[:] = 0.0
        for k in range(T):
            for side in range(2):
                step = STEP_LABEL if side == 0 else -STEP_LABEL
                growth = np.expm1(step)
                for b in range(T):  # softmax of the label logits with the k-th one moved
                    moved[b] = label[b] * (1.0 + growth if b == k else 1.0) / (1.0 + growth * label[k])
                row(logits, moved, gradient, hessian)
                for b in range(T):
                    out[b, k] -= gradient[b] / (2.0 * step)

    return compile_pointer(RESPONSE_SIGNATURE, response, cache=False)


def _squared_pair(x: float, y: float, c: float) -> tuple[float, float, float]:
    """2 (sig(x) - y)^2 (2.5), from the side on which the difference keeps its digits."""
    e = np.exp(-abs(x))
    f = 1.0 / (1.0 + e)
    low = e * f
    r = c - low if x >= 0.0 else low - y
    odd = f - low if x >= 0.0 else low - f
    slope = f * low
    return 2.0 * r * r, 4.0 * r * slope, 4.0 * slope * (slope - r * odd)


def _cross_entropy_pair(x: float, y: float, c: float) -> tuple[float, float, float]:
    """log(1 + e^x) - y x, with slope sig(x) - y."""
    e = np.exp(-abs(x))
    f = 1.0 / (1.0 + e)
    low = e * f
    if x >= 0.0:
        return np.log1p(e) + c * x, c - low, f * low
    return np.log1p(e) - y * x, low - y, f * low


def _squared_response(logits: Vector, label: Vector, out: Vector) -> None:
    """2 J(p) J(y) with J(x) = diag(x) - x x', p = softmax(l)."""
    T = logits.shape[0]
    p = out[0]  # overwritten last
    softmax(logits, p)
    overlap = 0.0
    for b in range(T):
        overlap += p[b] * label[b]
    for b in range(T - 1, -1, -1):
        mine = p[b]
        for k in range(T - 1, -1, -1):
            same = label[b] if b == k else 0.0
            out[b, k] = 2.0 * mine * (same + label[k] * (overlap - label[b] - p[k]))


def _cross_entropy_response(logits: Vector, label: Vector, out: Vector) -> None:
    """J(y) = diag(y) - y y'."""
    T = logits.shape[0]
    for b in range(T):
        for k in range(T):
            out[b, k] = label[b] * ((1.0 if b == k else 0.0) - label[k])


def _squared_fresh(row: SoftmaxRow) -> float:
    """E |p - y|²."""
    return max(row.pp + row.yy - 2.0 * row.py, 0.0)


def _cross_entropy_fresh(row: SoftmaxRow) -> float:
    """E log Z - E sum y h."""
    return row.log_z - row.yh


def _squared_line(v: Vector, t: Vector) -> Vector:
    """2 (sig(v) - sig(t))²."""
    return np.asarray(0.5 * (np.tanh(0.5 * v) - np.tanh(0.5 * t)) ** 2)


def _cross_entropy_line(v: Vector, t: Vector) -> Vector:
    """log(1 + e^v) - sig(t) v."""
    return np.asarray(np.log1p(np.exp(-np.abs(v))) + np.maximum(v, 0.0) - 0.5 * (1.0 + np.tanh(0.5 * t)) * v)


class Squared(Loss):
    """The loss of the paper: || softmax(l) - y ||^2, a sum over entries without a factor 1/2."""

    name = "squared"
    kind = "claim"
    lean = SQUARED
    yardstick = True
    pair = staticmethod(_squared_pair)
    response = staticmethod(_squared_response)
    fresh = staticmethod(_squared_fresh)
    line = staticmethod(_squared_line)

    def one_minimum(self, exposure: float) -> float:
        """No row has a curvature below the one that two tokens have at p = (0.136, 0.864), y = (1, 0), whatever T is."""
        return 1.0 / (0.4809 * exposure)

    @staticmethod
    def row(
        logits: NDArray[np.float64],
        label: NDArray[np.float64],
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
    ) -> float:
        """With p = softmax(l), r = p - y, s = r.p: dl_b = 2 p_b (r_b - s) (2.6)."""
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
    """Cross-entropy with soft labels: - sum_b y_b log softmax(l)_b. Convex in the logits."""

    name = "cross-entropy"
    convex = True
    lean = CROSS_ENTROPY
    pair = staticmethod(_cross_entropy_pair)
    response = staticmethod(_cross_entropy_response)
    fresh = staticmethod(_cross_entropy_fresh)
    line = staticmethod(_cross_entropy_line)

    @staticmethod
    def row(
        logits: NDArray[np.float64],
        label: NDArray[np.float64],
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
    ) -> float:
        """With p = softmax(l): gradient p - y, Hessian diag(p) - p p'."""
        T = logits.shape[0]
        softmax(logits, gradient)
        top, mean = logits[0], 0.0
        for b in range(1, T):
            top = max(top, logits[b])
        total = 0.0
        for b in range(T):
            total += np.exp(logits[b] - top)
            mean += label[b] * (logits[b] - top)
        for b in range(T):
            for k in range(T):
                hessian[b, k] = gradient[b] * ((1.0 if b == k else 0.0) - gradient[k])
        for b in range(T):
            gradient[b] -= label[b]
        return float(np.log(total) - mean)


class HardCrossEntropy(CrossEntropy):
    """The same with labels that are one token per row; on fresh samples its average is that of soft labels (U7)."""

    hard = True


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), CrossEntropy())}


def loss_named(loss: "str | Loss | type[Loss]") -> Loss:
    """The loss that a user's word, object or class stands for."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        if isabstract(loss):
            raise InvalidArgument("loss", loss, "a Loss with a static method row(logits, label, gradient, hessian)")
        return loss()
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    raise InvalidArgument("loss", loss, f"{' or '.join(LOSSES)}, or a Loss", LOSSES)


def loss_on(labels: str, loss: "str | Loss") -> Loss:
    """The loss on labels of this kind, ``soft`` or ``hard``."""
    found = loss_named(loss)
    if labels == "soft":
        return found
    if type(found) is not CrossEntropy:
        raise InvalidArgument("loss", found.name, "cross-entropy with hard labels")
    return HardCrossEntropy()


def _uncompiled(name: str, failure: NumbaError) -> InvalidArgument:
    """What numba says about a row function that it does not understand, in one sentence."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(failure))  # colours of a terminal
    said = [
        line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("File ", "-", "Failed"))
    ]
    place = re.search(r"line (\d+)", text)
    told = (said or [type(failure).__name__])[0].rstrip(".") + (f", line {place[1]}" if place else "")
    allowed = "a row function in the part of Python that numba compiles (numbers, loops, numpy arrays)"
    return InvalidArgument(f"loss {name!r}", Bare(told), allowed)


def _check(name: str, row: Any) -> None:
    """Refuse a row function whose derivatives or symmetries are wrong, with a sentence that says which."""
    T, step = 3, 1e-5
    logits, label = np.array([0.3, -0.8, 1.1]), np.array([0.2, 0.5, 0.3])
    gradient, hessian = np.empty(T), np.empty((T, T))
    value = row(logits, label, gradient, hessian)
    analytic, curvature = gradient.copy(), hessian.copy()
    slopes, curvatures = np.empty(T), np.empty((T, T))
    for k in range(T):
        ahead, behind = logits.copy(), logits.copy()
        ahead[k] += step
        behind[k] -= step
        up = row(ahead, label, gradient, hessian)
        above = gradient.copy()
        slopes[k] = (up - row(behind, label, gradient, hessian)) / (2.0 * step)
        curvatures[:, k] = (above - gradient) / (2.0 * step)
    close = 1e-6 * (1.0 + abs(value))  # central differences with this step are good to about 1e-9
    turned = row(logits[::-1].copy(), label[::-1].copy(), gradient, hessian)
    shifted = row(logits + 0.7, label, gradient, hessian)
    for fault, wrong in (
        ("fills a gradient that is not the slope of its value", np.abs(slopes - analytic).max() > close),
        (
            "fills a Hessian that is not the slope of its gradient",
            np.abs(curvatures - curvature).max() > close,
        ),
        ("changes when a constant is added to all logits", abs(shifted - value) > close),
        ("changes when the tokens are renamed", abs(turned - value) > close),
    ):
        if wrong:
            raise InvalidArgument(f"loss {name!r}", fault, "a smooth function of the softmax, with its derivatives")
