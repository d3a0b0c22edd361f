"""Blocks of rows: what they hold, and sampled points that are the same on every machine."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.support.programs import python

from onehead.aim.logits.geometry import tied_geometry
from onehead.aim.logits.row import ColumnGroup, Row

ROOT = "from onehead.aim.logits.geometry import tied_geometry; print(tied_geometry(4).blocks[0].root.tolist())"


@pytest.mark.parametrize("tokens", [3, 4, 6, 9])
def test_the_root_of_a_covariance_is_not_a_matter_of_rounding(tokens):
    """Equal eigenvalues leave their basis to the linear algebra library; a rounding of C must not turn the sampled
    points.
    """
    for block in (*tied_geometry(tokens).blocks, *tied_geometry(tokens).rows):
        assert np.allclose(block.root @ block.root.T, block.covariance, rtol=0.0, atol=1e-12)
        noise = np.random.default_rng(0).normal(size=block.covariance.shape) * 1e-15
        shaken = replace(block)
        shaken.__dict__["covariance"] = block.covariance + noise + noise.T  # in the place of the cached one
        # a gap of one between eigenvalues passes the rounding on as it is, the smallest one here ten times
        assert np.abs(shaken.root - block.root).max() < 1e-12


@pytest.mark.parametrize("processor", ["Haswell", "SkylakeX", "Prescott"])
def test_the_root_is_the_same_on_other_processors(processor):
    """OpenBLAS can be told to work as on another processor; where the library is another one, this is the test
    above.
    """
    out = python(ROOT, OPENBLAS_CORETYPE=processor)
    assert np.abs(np.array(json.loads(out)) - tied_geometry(4).blocks[0].root).max() < 1e-12


def test_what_a_sample_shows_is_counted_block_by_block():
    for tokens in (2, 3, 7):
        shape = tied_geometry(tokens)
        assert shape.informative == tokens * (tokens + 1) / 2 - 1
        assert sum(row.multiplicity for row in shape.rows) == tokens
        assert all(row.dim == tokens - 1 for row in shape.rows)
    twice = Row(columns=(ColumnGroup((0.5, 1.0), 1), ColumnGroup((0.5, 1.0), 1)), multiplicity=3)
    assert twice.covariance == [[3.0]]  # sectors add up
    assert twice.covariance_at((2.0, 1.0)) == [[4.0]]
