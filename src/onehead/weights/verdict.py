"""Verdict on a head: whether it differs from random weights, and by which property of its spectrum.

* ``low rank``: some singular values are zero although the shape does not force them to be.
* ``features``: some singular values lie beyond the edge of the bulk.
* ``deformed``: the bulk is wider or narrower than that of random heads, or query and key are correlated.
* ``noise``: none of these; the head cannot be told from random weights.

The verdict is the first of these that applies. The limits below are chosen such that fewer than one random head in a
hundred of the same shape gets a verdict other than noise; `FALSE_ALARM_RATES` holds the measured rates. The
measurements themselves are made in `onehead.weights.report`.
"""

from typing import NamedTuple

import numpy as np

VERDICTS = ("low rank", "features", "deformed", "noise")  # in the order in which they are tried

MINIMUM_VALUES = 16  # singular values below which neither the edge nor the spread is informative
# share of the possible values that must be zero for low rank: a square random head may lose its smallest value
MINIMUM_ZERO_SHARE = 0.05
# limits in standard deviations of random heads
FULL_SPREAD_LIMIT = 3.5  # spread of the whole spectrum: outliers count only if it shows them too
BULK_SPREAD_LIMIT = 4.5  # spread of the bulk, a distance in two numbers
SYMMETRIC_SHARE_LIMIT = 4.0

# (largest number of possible values, rate): largest share of random heads of such shapes with a verdict other than
# noise, from 3,000 to 5,000 heads per shape; measured by `python -m studies.initial_heads --alarms`
FALSE_ALARM_RATES: tuple[tuple[float, float], ...] = ((24, 0.0024), (np.inf, 0.002))


class Evidence(NamedTuple):
    """Measurements of a head on which its verdict is based.

    ``nonzero`` of the ``possible`` singular values are not zero. ``outlier_strengths`` are the outliers of the head
    itself over the bulk edge, largest first; ``shared_outliers`` counts those of a key that several queries share.
    ``bulk_deviation`` and ``full_deviation`` are deviations of the spread from random heads, without and with the
    outliers, None for a shape that the null model does not cover. ``symmetric_share``, ``share_deviation``,
    ``effective_rank`` and ``random_rank`` (the effective rank of random heads) are those of the bulk.
    """

    nonzero: int
    possible: int
    outlier_strengths: tuple[float, ...]
    shared_outliers: int
    bulk_deviation: float | None
    full_deviation: float | None
    share_deviation: float
    symmetric_share: float
    random_rank: float
    effective_rank: float


class Verdict(NamedTuple):
    """One of `VERDICTS`, or None where there are too few values, and a sentence with the numbers behind it."""

    name: str | None
    evidence: str


def judge_head(found: Evidence) -> Verdict:
    """Return the verdict on a head and the evidence for it.

    Examples
    --------
    >>> quiet = Evidence(32, 32, (), 0, 1.2, 1.2, -0.3, 0.501, 30.7, 30.6)
    >>> judge_head(quiet).name, judge_head(quiet._replace(outlier_strengths=(57.0,), full_deviation=900.0)).name
    ('noise', 'features')
    """
    low_rank = found.possible - found.nonzero >= max(2.0, MINIMUM_ZERO_SHARE * found.possible)
    wide_bulk = found.bulk_deviation is not None and found.bulk_deviation > BULK_SPREAD_LIMIT and not low_rank
    correlated = abs(found.share_deviation) > SYMMETRIC_SHARE_LIMIT
    visible = low_rank or found.full_deviation is None or found.full_deviation > FULL_SPREAD_LIMIT
    strengths = found.outlier_strengths if visible else ()
    name = "low rank" if low_rank else "features" if strengths else "deformed" if wide_bulk or correlated else "noise"
    if name != "low rank" and found.possible < MINIMUM_VALUES:
        return Verdict(None, f"{found.possible} singular values are too few for a verdict")
    of_bulk = " of the bulk" if found.outlier_strengths or found.shared_outliers else ""
    texts = [f"rank {found.nonzero} of {found.possible}"] if low_rank else []
    if strengths:
        texts.append(_directions(strengths))
    if wide_bulk:
        texts.append(
            f"effective rank{of_bulk} {found.effective_rank:.1f}, random {found.random_rank:.1f} "
            f"({found.bulk_deviation:.3g} sd)"
        )
    if correlated:
        texts.append(f"symmetric share{of_bulk} {found.symmetric_share:.2f} ({found.share_deviation:+.3g} sd)")
    if name == "noise":
        spread = "" if found.bulk_deviation is None else f"bulk {found.bulk_deviation:.1f} sd, "
        texts.append(f"{spread}symmetric share {found.share_deviation:+.1f} sd from random")
    if found.shared_outliers:
        texts.append(f"{found.shared_outliers} direction{'s' * (found.shared_outliers > 1)} of the shared key")
    return Verdict(name, "; ".join(texts))


def _directions(strengths: tuple[float, ...]) -> str:
    if len(strengths) == 1:
        return f"1 direction {strengths[0]:.3g} x the bulk edge"
    return f"{len(strengths)} directions up to {strengths[0]:.3g} x the bulk edge"


def false_alarm(head_dim: int, hidden: int) -> float:
    """Return the measured share of random heads of about this shape that get a verdict other than noise."""
    return next(rate for most, rate in FALSE_ALARM_RATES if min(head_dim, hidden) <= most)
