"""Trajectories: checkpoints in order, compared with the first, and the steps at which heads emerged."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.checkpoints import attention_layers, training_steps

from onehead.errors import InvalidArgument
from onehead.plot import trajectory
from onehead.weights import compare
from onehead.weights.trajectory import order_by_step

HIDDEN, HEADS = 96, 3  # of the steps


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    return training_steps(tmp_path_factory.mktemp("run"))


def dense(path, layer, head):
    from onehead.weights import open_checkpoint

    file, rows = open_checkpoint(path), slice(32 * head, 32 * head + 32)
    query, key = (file.read(f"encoder.layer.{layer}.attention.self.{side}.weight")[rows] for side in ("query", "key"))
    return query.T @ key


def test_checkpoints_are_compared_with_the_first(steps):
    found = compare(steps)
    assert found.steps == (0, 20, 100) and len(found) == 6
    assert {step: [(head.layer, head.head) for head in heads] for step, heads in found.emerged.items()} == {
        20: [(0, 1)],
        100: [(1, 2)],
    }
    for change in found:
        place = change.heads[0].layer, change.heads[0].head
        old, new = (dense(steps[i], *place) for i in (1, 0))
        assert change.moved[0] == 0.0
        # the square root of a difference near zero is accurate to 1e-7
        expected = np.linalg.norm(new - old) / np.linalg.norm(old)
        assert change.moved[-1] == pytest.approx(expected, abs=1e-6)
    assert "2 of 6 heads emerged from noise; the first at step 20 (layer 0 head 1)" in found.summary
    assert "outliers went from 0 to 2" in found.summary and found.summary.split(";")[0] in found.explain().replace(
        "\n  ", " "
    )


def test_rows_have_step_file_and_differences_from_the_first(steps):
    found = compare(steps[1:], heads=[1])
    rows = found.to_rows()
    assert [(row["step"], row["layer"]) for row in rows] == [(0, 0), (0, 1), (20, 0), (20, 1)]
    grown = rows[2]
    assert grown["file"].endswith("step-20.safetensors") and grown["outliers_change"] == 1 and grown["emerged"] == 20
    assert grown["rank_change"] == 0.0 and grown["moved"] > 1.0 and rows[3]["moved"] == 0.0
    assert len(found.to_frame()) == 4 and json.loads(found.to_json())["steps"] == [0, 20]


def test_mappings_are_compared_in_the_given_order():
    before = attention_layers(1, HIDDEN, np.random.default_rng(2))
    found = compare([before, {name: 2.0 * matrix for name, matrix in before.items()}], head_count=HEADS)
    assert found.steps == (0, 1) and [change.moved[-1] for change in found] == pytest.approx([3.0] * HEADS)
    assert [head.verdict for head in found.surveys[1]] == [
        head.verdict for head in found.surveys[0]
    ]  # verdicts do not depend on the scale


def test_the_picture_has_four_panels(steps):
    axes = trajectory(compare(steps))
    assert len(axes.figure.axes) == 5  # four panels and a colour bar


def test_checkpoints_of_different_heads_are_refused(steps, tmp_path):
    other = tmp_path / "other-1.safetensors"
    save_file(attention_layers(1, HIDDEN, np.random.default_rng(1)), other)
    with pytest.raises(InvalidArgument, match="same heads as the first"):
        compare([steps[1], other], head_count=HEADS)
    with pytest.raises(InvalidArgument, match="at least two"):
        compare(steps[:1])


@pytest.mark.parametrize(
    ("files", "steps"),
    [
        (["a-10", "a-9"], (9, 10)),
        (["run/step-30/model.safetensors", "run/step-4/model.safetensors"], (4, 30)),
        (["x-2.safetensors", "y.safetensors"], (0, 1)),
        (["x-2", "y-2"], (0, 1)),
    ],
)
def test_files_are_ordered_by_the_numbers_in_their_names(files, steps):
    names, numbers = order_by_step(files)
    assert numbers == steps and sorted(names) == sorted(files)
    if steps[-1] > 1:
        assert list(names) == files[::-1]
