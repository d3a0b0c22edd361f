"""Sentences that explain the numbers of a prediction."""

from onehead.aim.theory.order_parameters import INFINITE
from onehead.aim.verbs.bayes import describe_bayes_gap
from onehead.aim.verbs.predict import Prediction


def explain_prediction(point: Prediction) -> list[str]:
    """Return what the numbers of a prediction mean for its head, one sentence or more per item."""
    target_power, value = point.task.target.second_moment, point.task.spectral_value
    cosine = point.m / (point.q * target_power) ** 0.5 if point.q > 0.0 else 0.0
    reason = point.equations.input.misfit_reason
    lines = [
        f"With n = {point.alpha:g} d² samples (alpha = {point.alpha:g}) the error on a fresh sample is "
        f"{point.test_error:.3g}; infinitely many would give {point.test_error - point.excess_error:.3g}"
        + (f", not less, because {reason}." if reason else "."),
        f"Against labels without noise the error is {point.test_error_clean:.3g}.",
        *(() if point.directions else describe_bayes_gap(point.task, point.alpha, point.test_error)),
        *(
            [f"On {point.zero_one_error:.1%} of rows the most attended token is not the label."]
            if point.zero_one_error is not None
            else []
        ),
        f"Size: q = {point.q:.4g} is the mean squared {value} of the trained map S; the target's is "
        f"{target_power:.4g}.",
        f"Overlap: m = {point.m:.4g}, so the cosine between S and the target is {cosine:.3f}.",
        *point.equations.directions.explained(point),
        *_sectors(point),
        *_heads(point),
        _rank(point),
        _sigma(point),
    ]
    replicon = point.certificate.replicon
    if replicon is not None:
        verdict = "stable: one well-defined minimum" if replicon < 1.0 else "unstable: many competing minima"
        lines.append(f"Replicon {replicon:.3f} ({'<' if replicon < 1.0 else '>='} 1): the solution is {verdict}.")
    return lines


def _sectors(point: Prediction) -> list[str]:
    """Sentence on the symmetric and the antisymmetric part of the map, where the head has two sectors."""
    if point.sectors is None or point.q == 0.0:
        return []
    (q_s, q_a), (m_s, m_a) = point.sectors["q"], point.sectors["m"]
    return [
        f"A token's logit with itself depends on the symmetric part of S only. Size {q_s:.4g} and overlap "
        f"{m_s:.4g} in the "
        f"symmetric part, {q_a:.4g} and {m_a:.4g} in the antisymmetric part."
    ]


def _heads(point: Prediction) -> list[str]:
    """Describe the heads and what they share, where there are several or values are learnt."""
    if point.value_scale is None:
        return []
    lines = []
    if point.q_cross is not None and point.m_cross is not None and point.head_error is not None:
        lines.append(
            f"{point.task.heads} heads add to the output, and their values overlap by {point.task.sharing:g}. Errors "
            f"and training loss are those of the sum; q, m and rank are those of one head, whose attention has "
            f"the error {point.head_error:.4g}. Between two heads S_h'S_k/d is {point.q_cross:.4g} and S_h'S*_k/d "
            f"{point.m_cross:.4g}."
        )
    if point.learner.values == "learnt":
        mean, difference = point.value_scale
        lines.append(
            f"Learnt values have {mean:.3g} times the size of the target's in the mean of the heads"
            + (f" and {difference:.3g} times in their differences." if point.task.heads > 1 else ".")
        )
    return lines


def _rank(point: Prediction) -> str:
    """Sentence on the rank."""
    value = point.task.spectral_value
    if point.spread == 0.0 and point.rank > 0.0:
        return f"Rank: S is the target itself, and {point.rank:.1%} of its {value}s are not zero."
    if point.cut == -INFINITE:
        half = "; about half of the noise bulk is negative" if point.task.tied else ""
        return f"Rank: direct training sets no {value} to zero{half}."
    if point.rank == 0.0:
        return f"Rank: 0. Weight decay keeps every {value} at zero: there are too few samples for this weight decay."
    share = f"{point.rank:.1%} of the {value}s of S are not zero (the target has {point.task.target.rank:.1%})"
    limited = point.equations.input.rank_limited(point.rank)
    reason = "the width of the learner allows no more" if limited else "weight decay removes the others"
    return f"Rank: {share}; {reason}."


def _sigma(point: Prediction) -> str:
    """Sentence on Σ."""
    if point.rank == 0.0:
        return "Sigma = 0: the logits do not respond to a single sample."
    if point.sigma == INFINITE:
        return "Sigma is infinite: every training label is fitted exactly, and one sample moves the logits freely."
    return (
        f"Sigma = {point.sigma:.4g}: how far a training sample pulls its own logits; small with many samples, large "
        "near interpolation."
    )
