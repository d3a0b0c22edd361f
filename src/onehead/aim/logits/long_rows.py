"""Long rows: the limit of infinitely many columns (L2), and the extrapolation of shorter rows towards it.

In the limit a column depends on the others only through the normaliser of its row. With Y = n y and P = n p, the
weights of label and learner times the number of columns, and Sigma in units of ``S``, the prox of a row decouples into

    cross-entropy  argmin_u (u - z)²/2S + P - Y u,              E P = 1,
    squared        argmin_u (u - z)²/2S + (P - Y)² - 2 s P,     E P = 1,  s = E (P - Y) P,          P = exp(u - phi).

Corrections are a series in 1/n.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.losses import CROSS_ENTROPY, SQUARED
from onehead.errors import NotConverged
from onehead.numerics.gaussian import lattice

Array = NDArray[np.float64]

SPACING, RADIUS = 0.25, 8.5  # range of label and learner, in standard deviations
FINE = 0.1  # spacing of the nodes of one variable
EXACT = 1e-11  # tolerance of the normaliser
MOST = 60  # Newton steps
WIDE_LABEL = 9.0  # variance of a label from which on a few of 4,096 columns have a large share of the weight


class _Column(NamedTuple):
    """A proximal point, with slope and curvature of its loss and the response of the slope to the label's logit."""

    u: Array
    P: Array
    curvature: Array
    answer: Array


def _cross_entropy(z: Array, Y: Array, S: float, phi: float) -> _Column:
    """Return the proximal point of the cross-entropy, by Lambert's W function."""
    from scipy.special import wrightomega  # scipy is loaded when first needed

    far = z + S * Y
    u = far - wrightomega(far - phi + np.log(S))
    P = np.exp(u - phi)
    return _Column(u, P, P, Y)


def _squared(z: Array, Y: Array, S: float, phi: float, s: float) -> _Column:
    """Return the minimum of the squared loss that Newton's method reaches from the label by descent."""

    def height(u: Array) -> Array:
        P = np.exp(u - phi)
        return np.asarray((u - z) ** 2 / (2.0 * S) + (P - Y) ** 2 - 2.0 * s * P)

    u = phi + np.log(Y)
    for _ in range(MOST):
        P = np.exp(u - phi)
        slope, bend = (u - z) / S + 2.0 * P * (P - Y - s), 1.0 / S + 2.0 * P * (2.0 * P - Y - s)
        step = -slope / np.where(bend > 0.0, bend, np.abs(bend) + 1.0 / S)
        step, here = np.clip(step, -2.0, 2.0), height(u)
        for _ in range(40):
            worse = height(u + step) > here + 1e-14 * (1.0 + np.abs(here))
            if not worse.any():
                break
            step = np.where(worse, 0.5 * step, step)
        u = u + step
        if np.max(np.abs(step)) < 1e-12:
            break
    P = np.exp(u - phi)
    return _Column(u, P, 2.0 * P * (2.0 * P - Y - s), 2.0 * P * Y)


def soft_label_limit(kind: int, Q: float, q: float, m: float, S: float) -> Array:
    """Return the `onehead.aim.theory.output.averages.Averages` per column; the loss is per row, without log n, or times
    n if squared (L2.1).
    """
    rule = lattice(2, spacing=SPACING, radius=RADIUS, offset=0.5)
    label = np.sqrt(Q) * rule.nodes[:, 0]
    z = m / Q * label + np.sqrt(max(q - m * m / Q, 0.0)) * rule.nodes[:, 1]
    Y = np.exp(label)
    Y /= rule.average(Y)
    top, s, average = float(z.max()), 0.0, rule.average
    phi = top + float(np.log(average(np.exp(z - top))))
    for _ in range(MOST):
        column = _cross_entropy(z, Y, S, phi) if kind == CROSS_ENTROPY else _squared(z, Y, S, phi, s)
        P, give = column.P, 1.0 / (1.0 + S * column.curvature)
        gap = np.array([average(P) - 1.0, average((P - Y) * P) - s])
        by_phi, by_s = -P * give, 2.0 * S * P * P * give  # derivatives of P
        slopes = np.array(
            [
                [average(by_phi), average(by_s)],
                [average((2.0 * P - Y) * by_phi), average((2.0 * P - Y) * by_s) - 1.0],
            ]
        )
        if kind == CROSS_ENTROPY:
            gap, slopes = gap[:1], slopes[:1, :1]
        if np.max(np.abs(gap)) < EXACT:
            break
        step = -np.linalg.solve(slopes, gap)
        step *= min(1.0, 1.0 / float(np.max(np.abs(step))))
        phi, s = phi + float(step[0]), s + (float(step[1]) if kind == SQUARED else 0.0)
    else:
        advice = "a smaller beta0, or fewer tokens" if Q > WIDE_LABEL else "a larger weight_decay"
        raise NotConverged(
            f"the normaliser of a long row was not found at q = {q:.4g}, m = {m:.4g}; try {advice}.",
            residual=float(np.max(np.abs(gap))),
        )
    away, share = column.u - z, S * column.curvature * give
    loss = average((P - Y) ** 2) if kind == SQUARED else phi - average(Y * column.u)
    crossed = average(S * column.answer * give)
    found = (average(away**2), average(away * label), average(away * z), average(share), average(share**2), crossed)
    return np.array([*found, loss, 0.0])


def hard_label_limit(Q: float, q: float, m: float, sigma: float, columns: int) -> Array:
    """Return the averages of one row with a hard label, in which only the column of the label can have a large weight
    (L2.7).

    Its logit is pulled by the missing weight 1 - p, which is one only as long as e^Sigma is small compared with the
    number of columns.
    """
    from scipy.special import expit  # scipy is loaded when first needed

    rule = lattice(1, spacing=FINE, radius=RADIUS, offset=0.5)
    start = m + np.sqrt(q) * rule.nodes[:, 0] - np.log(columns) - 0.5 * q  # start of log(p / (1 - p))
    low, high = start, start + sigma
    odds = low
    for _ in range(MOST):
        gap = odds - start - sigma * expit(-odds)
        low, high = np.where(gap < 0.0, odds, low), np.where(gap < 0.0, high, odds)
        new = odds - gap / (1.0 + sigma * expit(odds) * expit(-odds))
        new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
        if np.max(np.abs(new - odds)) < EXACT * (1.0 + sigma):
            break
        odds = new
    pull = sigma * expit(-odds)
    give = pull * expit(odds) / (1.0 + pull * expit(odds))
    far, bent = rule.average(pull), rule.average(give)
    along = (rule.average(pull**2), Q * far - m * (far + bent), m * far - q * (far + bent))
    return np.array(
        [*along, far + bent, rule.average(give**2), far, rule.average(np.logaddexp(0.0, -odds)) - np.log(columns), 0.0]
    )


class LengthExtrapolation(NamedTuple):
    """Extrapolation of averages over a row to a longer row: their distance from the limit falls as 1/n.

    ``power`` is the exponent of n in Sigma at which the proximal step of a column does not depend on n.
    """

    kind: int
    hard: bool
    short: int
    long: int

    @property
    def power(self) -> int:
        """Exponent of n in the units of Sigma (L1)."""
        return 0 if self.hard else 2 if self.kind == SQUARED else 1

    def sigma(self, sigma: float) -> float:
        """Return Sigma of the short row."""
        return sigma * (self.short / self.long) ** self.power

    def sums(self, found: Array, Q: float, q: float, m: float, sigma: float) -> Array:
        """Return sums over slices of the long row from those of the short one; the largest gradient entry is kept."""
        if self.hard:
            limits = [hard_label_limit(Q, q, m, sigma, columns) for columns in (self.short, self.long)]
        else:
            limits = 2 * [soft_label_limit(self.kind, Q, q, m, sigma / self.long**self.power)]
        growth = np.zeros(8) if self.hard else np.array([*[1.0] * 6, -1.0 if self.kind == SQUARED else 0.0, 0.0])
        offset = np.zeros((2, 8))
        if self.kind == CROSS_ENTROPY:
            offset[:, 6] = np.log([self.short, self.long])
        share, near = 1.0 / len(found), self.short / self.long
        short = (found[:, :8] - share * offset[0]) / self.short**growth
        long = (share * limits[1] + near * (short - share * limits[0])) * self.long**growth + share * offset[1]
        return np.hstack([long, found[:, 8:]])
