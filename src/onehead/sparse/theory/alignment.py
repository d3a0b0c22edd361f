"""Infinite-dimensional limits of readout and query after the two gradient steps (S3)."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from onehead.sparse.losses import Logistic, Square
from onehead.sparse.task import PROBLEM, Protocol, Task
from onehead.validation import checked

Four = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Readout w1 after the first step and query q after the second, for d -> infinity."""

    cos_query: float
    cos_readout: float
    norm_query: float
    norm_readout: float
    overlap_query: float
    overlap_readout: float
    query_readout: float
    bias: float
    sharpness: float


class Query(TypedDict):
    """The two numbers of a query that the theory needs: its cosine with the signal and its sharpness beta |q|."""

    cos_query: float
    sharpness: float


def _slope_moments(task: Task, protocol: Protocol, *, mean_plus: float, mean_minus: float, spread: float) -> Four:
    """Return m_p = pi E[h|+], m_0 = E[h], k_p = pi E[h^2|+], k_0 = E[h^2] of h = y l'(y u), u ~ N(mean_y, spread^2)."""
    pi = task.positive_rate
    plus, plus2 = protocol.loss.slope_moments(mean_plus, spread)
    minus, minus2 = protocol.loss.slope_moments(-mean_minus, spread)
    m_p, k_p = pi * plus, pi * plus2
    return m_p, m_p - (1.0 - pi) * minus, k_p, k_p + (1.0 - pi) * minus2


def _first_step(task: Task, protocol: Protocol) -> Four:
    """Return theta R/L, e = eta_w c0, the bias b1 and omega = <w1, xi> = e pi theta R/L of the first step."""
    pi, c0 = task.positive_rate, protocol.loss.first_slope
    shift, e = task.strength * task.signal_tokens / task.length, protocol.eta_w * c0
    return shift, e, protocol.eta_b * c0 * (2.0 * pi - 1.0), e * pi * shift


def mean_slope(task: Task, protocol: Protocol) -> float:
    """Return m_0 = E[h] of the training samples after the first step, h = dl/dlogit (S3)."""
    shift, e, bias, omega = _first_step(task, protocol)
    self_term = e / (protocol.alpha0 * task.length)
    spread = float(np.sqrt((omega**2 + e * self_term) / task.length))
    return _slope_moments(
        task, protocol, mean_plus=omega * shift + bias + self_term, mean_minus=bias - self_term, spread=spread
    )[1]


def two_steps(task: Task, protocol: Protocol) -> Steps:
    """Return norms, overlaps and cosines of readout and query after the two gradient steps (S3).

    With e = eta_w c0:  omega = <w1, xi> = e pi theta R/L,  |w1|^2 = omega^2 + e^2/(alpha0 L),  and with
    f = eta_q beta/L, A = (L-1) m_0, B = theta^2 nu omega m_p,
    V = [(L-1) |w1|^2 k_0 + theta^2 omega^2 nu k_p]/alpha0:
    q = -f (A w1 + B xi + sqrt(V) random direction).
    The averages m, k run over logits of the training samples themselves. Each sample contributed to w1, which shifts
    its logit by y S with the self term S = e/(alpha0 L).
    """
    L, theta, nu = task.length, task.strength, task.mask_variance
    shift, e, bias, omega = _first_step(task, protocol)
    norm2 = omega**2 + e**2 / (protocol.alpha0 * L)
    self_term = e / (protocol.alpha0 * L)
    m_p, m_0, k_p, k_0 = _slope_moments(
        task,
        protocol,
        mean_plus=omega * shift + bias + self_term,
        mean_minus=bias - self_term,
        spread=float(np.sqrt(norm2 / L)),
    )
    A = (L - 1.0) * m_0
    B = theta**2 * nu * omega * m_p
    V = ((L - 1.0) * norm2 * k_0 + theta**2 * omega**2 * nu * k_p) / protocol.alpha0
    length = float(np.sqrt(A**2 * norm2 + 2.0 * A * B * omega + B**2 + V))
    direction = -1.0 if protocol.eta_q < 0.0 else 1.0
    f = protocol.eta_q * protocol.beta / L
    return Steps(
        cos_query=-direction * (A * omega + B) / length if length > 0.0 else 0.0,
        cos_readout=omega / float(np.sqrt(norm2)),
        norm_query=abs(f) * length,
        norm_readout=float(np.sqrt(norm2)),
        overlap_query=-f * (A * omega + B),
        overlap_readout=omega,
        query_readout=-f * (A * norm2 + B * omega),
        bias=bias,
        sharpness=protocol.beta * abs(f) * length,
    )


@checked(**PROBLEM)
def misalignment_constant(task: Task, protocol: Protocol) -> float:
    """Return C of |cos_query| = 1 - C/alpha0 + o(1/alpha0), the rate at which the query aligns with the signal (S3).

    C = [((L-1) m_0)^2 e^2/L + (L-1) omega^2 k_0 + theta^2 omega^2 nu k_p] / (2 omega^2 ((L-1) m_0 + theta^2
    nu m_p)^2) with the averages taken at alpha0 = infinity.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Learning rates and loss; its sample ratios are not used.

    Returns
    -------
    float
        The constant C; infinite where even the limit alpha0 -> infinity does not align with the signal.

    Raises
    ------
    InvalidArgument
        If an argument has the wrong type.

    Examples
    --------
    >>> round(misalignment_constant(Task(length=10, strength=5.0), Protocol()), 6)
    0.081642
    """
    L, theta, nu = task.length, task.strength, task.mask_variance
    shift, e, bias, omega = _first_step(task, protocol)
    m_p, m_0, k_p, k_0 = _slope_moments(
        task, protocol, mean_plus=omega * shift + bias, mean_minus=bias, spread=omega / float(np.sqrt(L))
    )
    along_signal = omega**2 * ((L - 1.0) * m_0 + theta**2 * nu * m_p) ** 2
    orthogonal = ((L - 1.0) * m_0 * e) ** 2 / L + (L - 1.0) * omega**2 * k_0 + theta**2 * omega**2 * nu * k_p
    return orthogonal / (2.0 * along_signal) if along_signal > 0.0 else np.inf


@checked(**PROBLEM)
def critical_bias_rate(task: Task, protocol: Protocol) -> float | None:
    """Return the bias rate eta_b at which, for small eta_w, the query changes sign (S3).

    Logistic: p_c = pi (L-1 + theta^2 nu)/(L-1 + pi theta^2 nu), eta_c = 2 logit(p_c)/(2 pi - 1).
    Square: theta^2 nu pi (1 - eta (2 pi - 1)) = (L-1)(eta - 1)(2 pi - 1). Rare positives need eta_b above it,
    rare negatives below it. Negative values mean that every rate eta_b >= 0 aligns (or, for rare negatives,
    none does).

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Supplies the loss.

    Returns
    -------
    float or None
        The critical rate; None for balanced classes, for a single token, and for losses other than logistic and square.

    Raises
    ------
    InvalidArgument
        If an argument has the wrong type.

    Examples
    --------
    >>> rare = Task(length=10, signal_tokens=1, strength=4.0, positive_rate=0.2)
    >>> eta = critical_bias_rate(rare, Protocol(eta_w=1e-6))
    >>> round(eta, 3)
    1.436
    """
    L, pi = task.length, task.positive_rate
    imbalance = 2.0 * pi - 1.0
    signal_power = task.strength**2 * task.mask_variance
    if imbalance == 0.0 or L == 1:
        return None
    if isinstance(protocol.loss, Logistic):
        p = pi * (L - 1.0 + signal_power) / (L - 1.0 + pi * signal_power)
        return 2.0 * float(np.log(p / (1.0 - p))) / imbalance
    if isinstance(protocol.loss, Square):
        return (pi * signal_power + (L - 1.0) * imbalance) / (imbalance * (L - 1.0 + pi * signal_power))
    return None


def query_of(task: Task, protocol: Protocol) -> Query:
    """Return cos_query and sharpness as the protocol gives them, or else from the two gradient steps."""
    if protocol.cos_query is not None and protocol.sharpness is not None:
        return {"cos_query": protocol.cos_query, "sharpness": protocol.sharpness}
    steps = two_steps(task, protocol)
    return {"cos_query": steps.cos_query, "sharpness": steps.sharpness}
