"""Self-attention that sees itself by sums over groups of logits, against matrices of all coordinates, and towards
cross-attention (U5.2, L6, L7).
"""

import numpy as np
import pytest

from onehead.aim import Learner, Task, predict
from onehead.aim.logits import geometry as shapes
from onehead.aim.logits.blocks import PARTS
from onehead.aim.logits.geometry import geometry_of
from onehead.aim.losses import CrossEntropy, Squared
from onehead.aim.mask import Mask
from onehead.aim.theory.output.sectors import SectorOutput

Q = 1.25


class DenseSquared(Squared):
    compiled_kind = None


class DenseCrossEntropy(CrossEntropy):
    compiled_kind = None


LOSSES = {"squared": (Squared(), DenseSquared()), "cross-entropy": (CrossEntropy(), DenseCrossEntropy())}
STATE = (0.9, 0.7, 0.85, 0.7, 1.7, 2.6)


def channel(loss, mask, tokens):
    return SectorOutput(loss=loss, geometry=geometry_of("self", mask, tokens), label_power=Q)


def numbers(output, state=STATE):
    """Every average by every part of the rule: mean and standard error."""
    parts = np.array(
        [
            [part.distance, part.loss, *part.derivative.sectors.ravel(), *part.stein.sectors.ravel()]
            for part in output.parts(*state, level=output.geometry.levels[-1])
        ]
    )
    return parts.mean(axis=0), parts.std(axis=0, ddof=1) / np.sqrt(PARTS)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("mask", "tokens"), [("none", 3), ("none", 4), ("causal", 5)])
def test_groups_of_logits_are_matrices_of_coordinates(name, mask, tokens):
    """Another kernel on other points, with controls and without: hats of both sectors, by derivatives and by Stein."""
    lean, dense = (numbers(channel(loss, mask, tokens)) for loss in LOSSES[name])
    (one, its), (other, others) = lean, dense
    assert np.all(np.abs(one - other) < 5.5 * np.hypot(its, others) + 1e-12)  # 14 numbers of 8 parts each
    assert np.all(its[:2] < others[:2])  # what the controls are for


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("mask", "tokens"), [("none", 4), ("causal", 5)])
def test_emergence_by_formula_is_emergence_by_quadrature(name, mask, tokens):
    lean, dense = (channel(loss, mask, tokens) for loss in LOSSES[name])
    sampled = dense._sum_parts(dense._origin_sums(3))
    error = sampled.std(axis=0, ddof=1) / np.sqrt(PARTS)
    found = lean._sum_parts(lean._origin_sums(3)).mean(axis=0)
    assert np.all(np.abs(found - sampled.mean(axis=0)) < 5.0 * error + 1e-6)


@pytest.mark.parametrize("tokens", [3, 4])
def test_lower_minima_are_found_by_both_kernels(tokens):
    state = (6.0, 5.0, 1.5, 1.3, 30.0, 40.0)
    share, other = (
        channel(loss, "none", tokens).averages(*state, level=1, search=True).switch_mass for loss in LOSSES["squared"]
    )
    assert share > 0.0
    assert (
        abs(share - other) < 5.0 * np.sqrt(share / 1000.0) + 0.2 * share
    )  # counted on about a thousand pairs of points


def test_an_own_logit_is_one_of_many():
    """Cross-attention is the limit, which q nears as 1/T²: one row in T has an own logit, that both sectors see alike
    to 1/T.
    """
    gaps = []
    for tokens in (8, 16):
        learner, alpha = Learner(loss="cross-entropy", weight_decay=0.5 / tokens), 2.0 / tokens**2
        seen, cross = (predict(Task(tokens=tokens, attention=word), learner, alpha) for word in ("self", "cross"))
        gaps.append(tokens**2 * (cross.q - seen.q))
        assert seen.sectors is not None
        assert seen.sectors["q"][0] > seen.q > seen.sectors["q"][1]
    assert gaps[1] == pytest.approx(gaps[0], rel=0.25)  # the next order is 1/T of it


@pytest.mark.parametrize("name", LOSSES)
def test_a_few_rows_are_as_good_as_all(name, monkeypatch):
    loss, state = LOSSES[name][0], (1.0, 0.9, 0.8, 0.75, 28.0, 30.0)
    few = channel(loss, "causal", 24)
    shapes.two_sector_geometry.cache_clear()
    monkeypatch.setattr(
        shapes, "_knots", lambda lengths, numbers, *_: dict(zip(lengths.tolist(), numbers, strict=True))
    )
    every = channel(loss, "causal", 24)
    shapes.two_sector_geometry.cache_clear()
    assert len(few.geometry.blocks) < len(every.geometry.blocks)
    (one, its), (other, others) = numbers(few, state), numbers(every, state)
    assert np.all(np.abs(one - other)[:8] < 5.0 * np.hypot(its, others)[:8] + 3e-4 * np.abs(other)[:8])
    at = state[:4]
    assert few.fresh_loss(*at, loss="squared") == pytest.approx(every.fresh_loss(*at, loss="squared"), rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_rows_that_do_not_see_their_own_token(name):
    """Of a mask of one's own, next to rows that do: both kernels, and the formula at the origin."""
    mask = Mask("011110/011110/001111/100111/110001/111000")
    lean, dense = (channel(loss, mask, 6) for loss in LOSSES[name])
    assert {row.columns[1].variances for row in lean.geometry.blocks} == {(1.0, 0.0), (0.5, 0.5)}
    (one, its), (other, others) = numbers(lean), numbers(dense)
    assert np.all(np.abs(one - other) < 5.5 * np.hypot(its, others) + 1e-12)
    sampled = dense._sum_parts(dense._origin_sums(3))
    error = sampled.std(axis=0, ddof=1) / np.sqrt(PARTS)
    found = lean._sum_parts(lean._origin_sums(3)).mean(axis=0)
    assert np.all(np.abs(found - sampled.mean(axis=0)) < 5.0 * error + 1e-6)
