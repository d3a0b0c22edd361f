"""Agreement of theory and training: the worst deviation, its bound for pure noise, its explanation, and the gallery."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

from onehead.aim import Learner, Task, predict, spectrum
from onehead.errors import InvalidArgument
from onehead.figures import figures
from onehead.figures.agreement import Pair, assess_agreement, compare, ks_distance, noise_bound
from onehead.figures.gallery import INTRODUCTION, LEGEND, agreement_table, write_gallery
from onehead.sweep import Table

ROOT = Path(__file__).parents[2]


def pair(theory, measured, error, dim=100, runs=4):
    return Pair(
        quantity="test error", where="alpha 1", theory=theory, measured=measured, error=error, dim=dim, runs=runs
    )


def test_the_worst_deviation_is_found_with_its_sign():
    found = assess_agreement([pair(1.0, 1.01, 0.01), pair(1.0, 0.9, 0.02), pair(1.0, 1.0, 0.01)])
    assert found.worst == pytest.approx(-5.0)
    assert found.median == pytest.approx(1.0)
    assert found.pairs == 3


def test_a_relative_difference_of_three_over_d_is_covered_and_no_more():
    assert assess_agreement([pair(1.0, 1.059, 0.01, dim=100)]).open == 0  # 3 x 0.01 + 3/100
    assert assess_agreement([pair(1.0, 1.061, 0.01, dim=100)]).open == 1
    assert assess_agreement([pair(1.0, 1.061, 0.01, dim=90)]).open == 0


def test_uncovered_differences_are_explained():
    assert "known gap" in assess_agreement([pair(1.0, 1.5, 0.01)], "the known gap").words
    assert "not explained" in assess_agreement([pair(1.0, 1.5, 0.01)]).words
    assert assess_agreement([]) is None


def test_sampled_noise_stays_below_the_bound_in_19_of_20_cases():
    rng = np.random.default_rng(0)
    count, runs, draws = 12, 4, 4000
    samples = rng.standard_normal((draws, count, runs))
    deviation = np.abs(samples.mean(axis=2)) / (samples.std(axis=2, ddof=1) / np.sqrt(runs))
    share = np.mean(deviation.max(axis=1) < noise_bound(count, runs))
    assert share == pytest.approx(0.95, abs=4.0 * np.sqrt(0.95 * 0.05 / draws))


def test_samples_of_a_law_have_the_ks_distance_of_independent_samples():
    law = spectrum(predict(Task(attention="cross"), Learner(weight_decay=0.05), 1.0))
    values = law.sample(np.random.default_rng(0), 4000)
    found = ks_distance(law.x, law.density_values, law.zero_mass, values)
    assert found < 1.63 / np.sqrt(4000)  # the 99 % point of Kolmogorov; the trapezoidal rule adds 1e-4
    # the same distance from the distribution function of the law, over all jumps
    points = np.sort(values[values > 0.0])
    zeros = np.mean(values == 0.0)
    steps = zeros + np.arange(points.size + 1) / values.size
    own = max(np.abs(law.cdf(points) - side).max() for side in (steps[1:], steps[:-1]))
    assert found == pytest.approx(max(own, abs(zeros - law.zero_mass)), abs=2e-4)


def test_a_missing_atom_increases_the_distance():
    x = np.linspace(0.0, 1.0, 101)
    uniform = (np.arange(1000) + 0.5) / 1000
    assert ks_distance(x, np.full(101, 0.7), 0.3, uniform) == pytest.approx(0.3, abs=2e-3)
    assert ks_distance(x, np.ones(101), 0.0, np.where(uniform < 0.3, 0.0, uniform)) == pytest.approx(0.3, abs=2e-3)


def test_rows_are_matched_by_their_parameters():
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
    found = assess_agreement([pair(1.0, 1.01, 0.01)]).to_dict()
    notes = [{"name": "a", "agreement": found}, {"name": "b", "agreement": None}]
    text = agreement_table(notes)
    assert "| [a](#a) | 1 | +1.0 |" in text and "Theory alone, or nothing to compare: b." in text


def test_the_gallery_needs_all_figures(tmp_path):
    with pytest.raises(InvalidArgument, match="aim-learning-curve is missing"):
        write_gallery(tmp_path, tmp_path, tmp_path)


def test_the_gallery_refuses_figures_of_the_wrong_size(tmp_path):
    (tmp_path / "aim-learning-curve.json").write_text(json.dumps({"scale": "quick", "training": True}))
    with pytest.raises(InvalidArgument, match="full must be a folder with full figures and their training"):
        write_gallery(tmp_path, tmp_path, tmp_path)


def test_the_gallery_page_has_the_texts_of_the_generator():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert page.startswith(INTRODUCTION) and LEGEND in page
    for figure in figures():
        assert f"![{figure.title}](assets/figures/{figure.name}.png)" in page


@pytest.mark.parametrize("figure", figures(), ids=lambda figure: figure.name)
def test_the_gallery_page_has_the_caption_of_the_figure(figure):
    """The texts between the numbers of a caption, because the numbers of the page are those of full figures."""
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    section = page.partition(f"{{ #{figure.name} }}")[2].partition("\n#")[0]
    folder, _, module = figure.name.partition("-")
    path = ROOT / "src" / "onehead" / "figures" / folder / f"{module.replace('-', '_')}.py"
    captions = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "caption"
    ]
    texts = [
        " ".join(part.value.split())
        for part in ast.walk(captions[0])
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value.split()) > 3
    ]
    assert texts and [text for text in texts if text not in section] == []
