"""Figures of untied heads: consistency of the numbers that they draw."""

import numpy as np
import pytest

from onehead.figures import figure_named
from onehead.figures.data_source import DataSource


@pytest.fixture(scope="module")
def parts():
    """Rows of the sweep, and rows of the two parts of a self-attention map, in theory."""
    source = DataSource(training=False)
    figure_named("own-sectors").draw(source)
    series = {
        name: [row for row in source.rows if row["series"] == name] for name in ("theory", "parts of the map, theory")
    }
    return list(series.values())


@pytest.mark.parametrize("name", ["q", "m"])
def test_overlaps_of_the_map_are_the_means_of_those_of_its_parts(parts, name):
    for row, both in zip(*parts, strict=True):
        assert row["alpha"] == both["alpha"]
        assert row[name] == pytest.approx(0.5 * (both[f"{name}_s"] + both[f"{name}_a"]), rel=1e-12)


def test_the_symmetric_part_is_learned_first(parts):
    few = [both for both in parts[1] if both["alpha"] < 1.0]
    assert len(few) > 3 and all(both["m_s"] > both["m_a"] for both in few)


def test_the_drawn_density_and_its_zeros_have_mass_one():
    source = DataSource(training=False)
    figure_named("own-heads-spectra").draw(source)
    for law in (row for row in source.rows if row["series"] == "spectra"):
        name = {"self": "causal self-attention", "cross": "cross-attention"}[law["attention"]]
        name += ", hard labels" if law["labels"] == "hard" else ""
        rows = [row for row in source.rows if row["series"] == f"density, theory, {name}"]
        x, y = (np.array([row[key] for row in rows]) for key in ("singular_value", "density"))
        mass = np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x))
        assert mass + law["zero_mass"] == pytest.approx(1.0, abs=3e-4)  # 400 points, by the trapezoidal rule
