"""Leading directions of a trained map: an independent implementation, training, refusals, the command."""

import json
from functools import cache

import numpy as np
import pytest

from onehead import aim
from onehead.aim import Atoms, Learner, PowerLaw, Task
from onehead.aim.theory.output import leading_noise as leading_block
from onehead.aim.verbs.directions import LITTLE_BULK
from onehead.cli.main import run
from onehead.errors import InvalidArgument, OutsideDomain

POWER = Task(target=PowerLaw(gamma=0.75, dim=100))


@cache
def directions_at(samples, decay, task=POWER, **learner):
    learner = Learner(**{"weight_decay": decay, "leading": 3} | learner)
    return aim.directions(aim.predict(task, learner, samples / 100**2))


# q, m, theta_1 and v_1..v_3 with three directions of an independent implementation, one scrambling of 2^16 points
ROWS = [
    (0.01, 398, (0.288, 0.311, 2.49), (1.57, 0.93, 0.58)),
    (0.01, 1585, (0.786, 0.727, 4.96), (0.777, 0.662, 0.597)),
    (0.01, 6310, (1.022, 0.942, 6.04), (0.219, 0.195, 0.185)),
    (0.01, 20_000, (0.843, 0.896, 5.78), (0.051, 0.046, 0.044)),
    (0.1, 1585, (0.227, 0.391, 3.16), ()),
    (1.0, 10_000, (0.143, 0.331, 3.00), ()),
    (1.0, 20_000, (0.259, 0.473, 3.76), ()),
    (10.0, 40_000, (0.0294, 0.127, 1.62), ()),
]


@pytest.mark.parametrize(("decay", "samples", "numbers", "noise"), ROWS)
def test_numbers_of_an_independent_implementation(decay, samples, numbers, noise):
    """Within the printed digits and three of our stated errors; the other implementation states none."""
    found = directions_at(samples, decay)
    first = found.directions[0]
    digits = (5e-4 if numbers[0] > 0.1 else 5e-5, 5e-4, 5e-3)
    for value, error, printed, digit in zip(
        (found.q, found.m, first.learned),
        (found.errors["q"], found.errors["m"], first.learned_err),
        numbers,
        digits,
        strict=True,
    ):
        assert abs(value - printed) < digit + 3.0 * error
    for one, printed in zip(found.directions, noise, strict=False):
        digit = 5e-3 if printed in (1.57, 0.93, 0.58) else 5e-4
        assert abs(one.scatter - printed) < digit + 3.0 * one.scatter_err
        assert one.scatter_err < 0.02 * one.scatter
    if (
        noise and samples > 398
    ):  # a prediction takes the mean noise of all directions, which is less than that of the first
        plain = found.point.slope**2 * found.point.spread
        assert abs(plain - noise[0]) > 3.0 * first.scatter_err


# means and standard errors of 12 trained heads at d = 100 (docs/assets/power-directions.md): v_1, overlap of the first
# eigenvector
TRAINED = [
    (398, (1.665, 0.064), (0.743, 0.014)),
    (1585, (0.812, 0.031), (0.959, 0.002)),
    (6310, (0.213, 0.008), (0.992, 0.0003)),
]


@pytest.mark.parametrize(("samples", "noise", "overlap"), TRAINED)
def test_noise_and_overlap_agree_with_trained_heads(samples, noise, overlap):
    first = directions_at(samples, 0.01).directions[0]
    assert abs(first.scatter - noise[0]) < 3.0 * np.hypot(noise[1], first.scatter_err)
    assert abs(first.overlap - overlap[0]) < 3.0 * np.hypot(overlap[1], first.overlap_err) + 5e-4  # printed digits


@pytest.mark.slow
def test_stated_errors_cover_the_change_with_other_sampled_points(monkeypatch):
    point = aim.predict(POWER, Learner(weight_decay=0.1, leading=2), 0.3)
    known = aim.directions(point)
    deviations = []
    for seed in (11, 12, 13):
        monkeypatch.setattr(leading_block, "SEED", seed)
        leading_block.points_of.cache_clear()
        other = aim.directions(point)
        deviations += [(other.q - known.q) / known.errors["q"], (other.m - known.m) / known.errors["m"]]
        for one, before in zip(other.directions, known.directions, strict=True):
            deviations += [
                (getattr(one, name) - getattr(before, name)) / getattr(before, f"{name}_err")
                for name in ("learned", "scatter", "position", "overlap")
            ]
    leading_block.points_of.cache_clear()
    # differences of two results, whose errors are from eight parts each: three times sqrt 2, and they are correlated
    assert np.abs(deviations).max() < 3.0 * np.sqrt(2.0) * 1.3
    assert np.sqrt(np.mean(np.square(deviations))) < 2.5


@pytest.mark.slow
def test_directions_differ_from_the_prediction_with_few_samples_only():
    """With few samples q and the learned elements are clearly larger than predicted, with many hardly."""
    few, many = directions_at(398, 0.01), directions_at(20_000, 0.01)
    assert few.q > 1.05 * few.point.q
    assert few.directions[0].learned > 1.05 * few.point.directions[0].learned
    assert many.q == pytest.approx(many.point.q, rel=4e-3)
    assert few.directions[0].position > few.directions[0].learned
    assert few.directions[1].position is None  # inside the noise bulk
    assert few.directions[1].overlap is None
    assert few.status == "converged"
    assert few.certificate.residual < 1e-6
    assert few.kind == "conjecture"


@pytest.mark.slow
def test_more_directions_are_closer_to_training():
    """q and θ₁ of the independent implementation for K = 3 and 8: .786, 4.956 and .794, 4.971."""
    found = directions_at(1585, 0.01, leading=8)
    assert found.q == pytest.approx(0.794, abs=5e-4 + 3.0 * found.errors["q"])
    assert found.directions[0].learned == pytest.approx(4.971, abs=5e-4 + 3.0 * found.directions[0].learned_err)


@pytest.mark.slow
def test_temperatures_only_rescale_the_directions():
    values = tuple(POWER.target.values)
    half = Atoms(eigenvalues=tuple(0.5 * value for value in values))
    plain = directions_at(3000, 0.1, Task(target=Atoms(eigenvalues=values)))
    rescaled = directions_at(3000, 0.05, Task(target=half, noise=0.125, beta0=2.0), beta=0.5)
    assert rescaled.q == pytest.approx(4.0 * plain.q, rel=1e-4)
    assert rescaled.m == pytest.approx(plain.m, rel=1e-4)
    for one, other in zip(rescaled.directions, plain.directions, strict=True):
        assert (one.target, one.learned) == pytest.approx((0.5 * other.target, 2.0 * other.learned), rel=1e-4)
        assert one.scatter == pytest.approx(4.0 * other.scatter, rel=1e-3)
        assert (one.position, one.overlap) == pytest.approx((2.0 * other.position, other.overlap), rel=1e-3)


@pytest.mark.slow
def test_a_warning_close_to_emergence_says_that_little_bulk_is_left():
    assert LITTLE_BULK in directions_at(2500, 1.0).certificate.warnings
    assert LITTLE_BULK not in directions_at(6000, 1.0).certificate.warnings


def test_the_zero_map_has_zero_directions():
    found = directions_at(1000, 1.0)
    assert (found.q, found.m) == (0.0, 0.0)
    assert [(one.learned, one.scatter, one.overlap) for one in found.directions] == 3 * [(0.0, 0.0, None)]


@pytest.mark.slow
def test_heads_without_derived_directions_are_refused():
    for task, learner, name in (
        (Task(), Learner(), "leading must be at least 1"),
        (POWER, Learner(leading=0), "leading must be at least 1"),
        (POWER.changed(tokens=3), Learner(weight_decay=1.0), "tokens must be 2"),
        (POWER, Learner(param="direct"), "param must be factorised"),
        (POWER, Learner(width=0.05, weight_decay=1e-3), "width must be larger than the rank"),
    ):
        with pytest.raises(InvalidArgument, match=name):
            aim.directions(aim.predict(task, learner, 0.5))
    with pytest.raises(OutsideDomain, match="fits every label"):
        aim.directions(aim.predict(POWER, Learner(weight_decay="0+"), 0.05))


@pytest.mark.slow
def test_the_command_prints_the_directions(capsys):
    flags = ["aim", "directions", "--target", "power-law", "--dim", "100", "--samples", "6310", "--weight-decay", "1/d"]
    with pytest.raises(SystemExit) as ended:
        run([*flags, "--leading", "3", "--json"])
    assert ended.value.code == 0
    answer, known = json.loads(capsys.readouterr().out), directions_at(6310, 0.01)
    assert answer["q"] == pytest.approx(known.q, rel=1e-12)
    assert [one["scatter"] for one in answer["directions"]] == pytest.approx([one.scatter for one in known.directions])
    with pytest.raises(SystemExit) as ended:
        run([*flags, "--leading", "1"])
    assert ended.value.code == 0
    assert "overlap" in capsys.readouterr().out
