"""The worst deviation: found, bounded by what noise does, explained or not."""

import json

import numpy as np
import pytest

from onehead.aim import Learner, Task, predict, spectrum
from onehead.errors import InvalidArgument
from onehead.figures.agreement import Pair, compare, judge, ks_distance, noise_bound
from onehead.figures.gallery import agreement_table, write_gallery
from onehead.sweep import Table


def pair(theory, measured, error, dim=100, runs=4):
    return Pair(
        quantity="test error", where="alpha 1", theory=theory, measured=measured, error=error, dim=dim, runs=runs
    )


def test_the_worst_of_several_is_found_with_its_sign():
    found = judge([pair(1.0, 1.01, 0.01), pair(1.0, 0.9, 0.02), pair(1.0, 1.0, 0.01)])
    assert found.worst == pytest.approx(-5.0)
    assert found.median == pytest.approx(1.0)
    assert found.pairs == 3


def test_finite_size_covers_three_over_d_and_no_more():
    assert judge([pair(1.0, 1.059, 0.01, dim=100)]).open == 0  # 3 x 0.01 + 3/100
    assert judge([pair(1.0, 1.061, 0.01, dim=100)]).open == 1
    assert judge([pair(1.0, 1.061, 0.01, dim=90)]).open == 0


def test_what_is_not_covered_is_said():
    assert "known gap" in judge([pair(1.0, 1.5, 0.01)], "the known gap").words
    assert "not explained" in judge([pair(1.0, 1.5, 0.01)]).words
    assert judge([]) is None


def test_the_bound_is_what_sampled_noise_stays_below():
    rng = np.random.default_rng(0)
    count, runs, draws = 12, 4, 4000
    samples = rng.standard_normal((draws, count, runs))
    deviation = np.abs(samples.mean(axis=2)) / (samples.std(axis=2, ddof=1) / np.sqrt(runs))
    share = np.mean(deviation.max(axis=1) < noise_bound(count, runs))
    assert share == pytest.approx(0.95, abs=4.0 * np.sqrt(0.95 * 0.05 / draws))


def test_values_drawn_from_a_law_are_as_near_to_it_as_independent_ones_are():
    law = spectrum(predict(Task(attention="cross"), Learner(weight_decay=0.05), 1.0))
    values = law.sample(np.random.default_rng(0), 4000)
    found = ks_distance(law.x, law.density_values, law.zero_mass, values)
    assert found < 1.63 / np.sqrt(4000)  # the 99 % point of Kolmogorov; the trapezoidal rule adds 1e-4
    # by the law's own integral, over all jumps
    places = np.sort(values[values > 0.0])
    zeros = np.mean(values == 0.0)
    steps = zeros + np.arange(places.size + 1) / values.size
    own = max(np.abs(law.cdf(places) - side).max() for side in (steps[1:], steps[:-1]))
    assert found == pytest.approx(max(own, abs(zeros - law.zero_mass)), abs=2e-4)


def test_a_missing_atom_is_seen_in_the_distance():
    x = np.linspace(0.0, 1.0, 101)
    uniform = (np.arange(1000) + 0.5) / 1000
    assert ks_distance(x, np.full(101, 0.7), 0.3, uniform) == pytest.approx(0.3, abs=2e-3)
    assert ks_distance(x, np.ones(101), 0.0, np.where(uniform < 0.3, 0.0, uniform)) == pytest.approx(0.3, abs=2e-3)


def test_rows_are_matched_by_their_words():
    def table(rows):
        return Table([{"state": "done", **row} for row in rows], lambda _: {})

    theory = table([{"alpha": 0.1, "test_error": 0.3}, {"alpha": 0.2, "test_error": 0.2}])
    runs = table(
        [
            {"alpha": 0.2, "test_error": 0.22, "test_error_err": 0.01, "dim": 50, "seeds": 4},
            {"alpha": 0.3, "test_error": 0.1, "test_error_err": 0.01, "dim": 50, "seeds": 4},
            {"alpha": 0.1, "test_error": 0.3, "test_error_err": None, "dim": 50, "seeds": 1},
        ]
    )
    (found,) = compare(theory, runs, ("alpha",))
    assert found.theory == 0.2 and found.deviation == pytest.approx(2.0)
    assert compare(theory, None, ("alpha",)) == []


def test_the_table_names_every_figure():
    found = judge([pair(1.0, 1.01, 0.01)]).to_dict()
    notes = [{"name": "a", "agreement": found}, {"name": "b", "agreement": None}]
    text = agreement_table(notes)
    assert "| [a](#a) | 1 | +1.0 |" in text and "Theory alone, or nothing to compare: b." in text


def test_a_gallery_needs_all_figures(tmp_path):
    with pytest.raises(InvalidArgument, match="aim-learning-curve is missing"):
        write_gallery(tmp_path, tmp_path, tmp_path)


def test_a_gallery_does_not_mix_sizes(tmp_path):
    (tmp_path / "aim-learning-curve.json").write_text(json.dumps({"scale": "quick", "training": True}))
    with pytest.raises(InvalidArgument, match="full must be a folder with full figures and their training"):
        write_gallery(tmp_path, tmp_path, tmp_path)
