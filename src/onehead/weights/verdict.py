"""One word for a head, and the evidence for it: can it be told from its initialisation, and by what?

* ``low rank``: the spectrum has zeros that the shape does not force.
* ``features``: some singular values stand beyond the edge of the bulk.
* ``deformed``: the bulk is wider or narrower than that of random heads, or query and key have to do with each other.
* ``noise``: none of these; the head cannot be told from its initialisation.

The strongest that applies is the word. Limits are such that random heads of the same shape get another word than noise in fewer than
one case in a hundred; `FALSE_ALARMS` is the rate that was measured.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["WORDS", "Evidence", "Verdict", "false_alarm", "judge_head"]

WORDS = ("low rank", "features", "deformed", "noise")  # strongest first

FEWEST = 16  # values below which neither edge nor spread says anything
MISSING = 0.05  # share of the possible values that must be zero: a square random head may lose its smallest one
WHOLE_LIMIT = 3.5  # standard deviations of the spread with the outliers: what stands out must be seen in it too
BULK_LIMIT = 4.5  # standard deviations of the spread, two numbers at once
SHARE_LIMIT = 4.0  # of the symmetric share

# number of possible values up to which it holds, and the largest share of random heads that got another word than noise: over shapes
# with 3,000 to 5,000 heads each, `python -m studies.initial_heads --alarms`
FALSE_ALARMS: tuple[tuple[float, float], ...] = ((24, 0.0024), (np.inf, 0.002))


class Evidence(NamedTuple):
    """What is known of a head: non-zero values out of those possible, its outliers in units of the edge, and deviations.

    ``strengths`` are those of outliers of its own, ``shared`` counts those of a key that several queries share. ``bulk`` and
    ``whole`` are deviations of the spread without outliers and with them, none where the shape has no table.
    """

    nonzero: int
    possible: int
    strengths: tuple[float, ...]
    shared: int
    bulk: float | None
    whole: float | None
    share: float
    symmetric_share: float
    usual_rank: float
    effective_rank: float


class Verdict(NamedTuple):
    """The word, or none where there are too few values, and a sentence with the numbers behind it."""

    word: str | None
    evidence: str


def judge_head(found: Evidence) -> Verdict:
    """The word of a head and its evidence.

    Examples
    --------
    >>> quiet = Evidence(32, 32, (), 0, 1.2, 1.2, -0.3, 0.501, 30.7, 30.6)
    >>> judge_head(quiet).word, judge_head(quiet._replace(strengths=(57.0,), whole=900.0)).word
    ('noise', 'features')
    """
    low = found.possible - found.nonzero >= max(2.0, MISSING * found.possible)
    bulk = found.bulk is not None and found.bulk > BULK_LIMIT and not low
    sides = abs(found.share) > SHARE_LIMIT
    strengths = found.strengths if low or found.whole is None or found.whole > WHOLE_LIMIT else ()
    word = "low rank" if low else "features" if strengths else "deformed" if bulk or sides else "noise"
    if word != "low rank" and found.possible < FEWEST:
        return Verdict(None, f"{found.possible} singular values are too few for a verdict")
    texts = [f"rank {found.nonzero} of {found.possible}"] if low else []
    if strengths:
        texts.append(_directions(strengths))
    if bulk:
        texts.append(f"effective rank {found.effective_rank:.1f}, random {found.usual_rank:.1f} ({found.bulk:.3g} sd)")
    if sides:
        whose = " of the bulk" if found.strengths or found.shared else ""
        texts.append(f"symmetric share{whose} {found.symmetric_share:.2f} ({found.share:+.3g} sd)")
    if word == "noise":
        texts.append("" if found.bulk is None else f"bulk {found.bulk:.1f} sd, ")
        texts[-1] += f"symmetric share {found.share:+.1f} sd from random"
    if found.shared:
        texts.append(f"{found.shared} direction{'s' * (found.shared > 1)} of the shared key")
    return Verdict(word, "; ".join(texts))


def _directions(strengths: tuple[float, ...]) -> str:
    if len(strengths) == 1:
        return f"1 direction {strengths[0]:.3g} x the bulk edge"
    return f"{len(strengths)} directions up to {strengths[0]:.3g} x the bulk edge"


def false_alarm(head_dim: int, hidden: int) -> float:
    """Share of random heads of about this shape that get another word than noise, as measured."""
    return next(rate for most, rate in FALSE_ALARMS if min(head_dim, hidden) <= most)
