"""Random problems over all kinds of heads: tied, self and cross, every mask, soft and hard labels, long rows, other
tokens.
"""

from typing import Any

import numpy as np

from checks.soak_problems import Problem, aim_problem, choice, log_uniform, uniform

__all__ = ["draw_head"]

TOKENS = {2: 0.5, 3: 0.3, 4: 0.1, 5: 0.05, 6: 0.05}
TARGETS = {"Product": 0.6, "MarchenkoPastur": 0.2, "PowerLaw": 0.1, "Atoms": 0.1}
LONG = 0.05  # share of heads with more tokens than that
SHARED = 12  # tokens of a long head whose rows share logits: twelve take seconds, 64 more than a minute
OTHER = 0.05  # share of heads whose tokens are not Gaussian


def draw_head(seed: int, number: int) -> Problem:
    """The head of this number; its learner, noise and samples are drawn as those of other problems."""
    rng = np.random.default_rng([seed, number, 1])
    attention = choice(rng, tied=0.2, self=0.4, cross=0.4)
    mask = choice(rng, none=0.4, causal=0.4, strict=0.2)
    labels = choice(rng, soft=0.65, hard=0.35)
    tokens = int(rng.choice(list(TOKENS), p=list(TOKENS.values())))
    if rng.random() < LONG:
        tokens = round(log_uniform(rng, 7, _longest(attention, mask, labels)))
    if mask == "strict":
        tokens += 1  # the first row sees nothing
    head = {"attention": attention, "mask": mask, "labels": labels, "tokens": tokens}
    if (attention, mask, labels) == ("tied", "none", "soft"):
        head |= {"tokens": 2, "kurtosis": uniform(rng, 1.0, 9.0)}  # those with Gaussian tokens are in the other list
    elif rng.random() < OTHER and (attention == "cross" or mask == "strict"):
        head["kurtosis"] = uniform(rng, 1.0, 9.0)
    return aim_problem(rng, choice(rng, **{"aim.predict": 0.9, "aim.thresholds": 0.1}), _target(rng, attention), head)


def _longest(attention: str, mask: str, labels: str) -> float:
    """Tokens of the longest heads of a kind that are drawn."""
    if attention == "cross" or mask == "strict" or (attention, mask) == ("tied", "causal"):
        return 1e5 - 1.0
    return SHARED if mask == "none" or labels == "hard" else 200.0


def _target(rng: np.random.Generator, attention: str) -> dict[str, Any]:
    """Eigenvalues of a tied head are positive here, as singular values are."""
    kind = choice(rng, **TARGETS)
    if kind == "Product" and attention == "tied":
        kind = "MarchenkoPastur"
    if kind in ("Product", "MarchenkoPastur"):
        return {"class": kind, "kappa0": log_uniform(rng, 0.02, 3.0)}
    dim = int(rng.integers(5, 101))
    if kind == "PowerLaw":
        return {"class": kind, "gamma": uniform(rng, 0.0, 1.5), "dim": dim}
    values = np.abs(rng.standard_normal(dim)) * (rng.random(dim) < 0.7)
    values[0] = 1.5
    return {"class": kind, "eigenvalues": [float(f"{v:.4g}") for v in values]}
