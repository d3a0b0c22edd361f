"""Sweeps over kinds of heads, masks and labels: run, exported, read back; older points keep their keys."""

import csv
import json
import tomllib

import pytest

import onehead
from onehead import aim
from onehead.errors import InvalidArgument
from onehead.sweep import CALLS, Store
from onehead.sweep.export import write_csv
from onehead.sweep.spec_file import parse_spec

HEADS = """
call = "aim.predict"
[grid]
attention = ["tied", "self", "cross"]
mask = ["none", "causal"]
[fixed]
alpha = 1.0
kappa0 = 0.4
weight_decay = 0.05
"""


def fail_if_solved():
    pytest.fail("a stored point was solved again")


def test_a_sweep_over_attention_and_mask_runs_exports_and_reads_back(tmp_path, store):
    assert len(list(parse_spec(HEADS).points())) == 6
    file = tomllib.loads(HEADS)
    table = onehead.sweep(file["call"], file["grid"], fixed=file["fixed"], store=store)
    assert not table.failed
    assert [(row["attention"], row["mask"]) for row in table] == [
        (head, mask) for head in ("tied", "self", "cross") for mask in ("none", "causal")
    ]
    for row in table:
        task = aim.Task(
            target=(aim.MarchenkoPastur if row["attention"] == "tied" else aim.Product)(kappa0=0.4),
            attention=row["attention"],
            mask=row["mask"],
        )
        point = aim.predict(task, aim.Learner(weight_decay=0.05), 1.0)
        assert row["target"] == task.target.kind
        assert (row["test_error"], row["rank"]) == (point.test_error, point.rank)
        assert row["sectors"] == (point.sectors and {name: list(pair) for name, pair in point.sectors.items()})
    with Store.reading(store) as opened:
        assert {row["key"]: row["test_error"] for row in opened.rows()} == {
            row["key"]: row["test_error"] for row in table
        }
    again = onehead.sweep(file["call"], file["grid"], fixed=file["fixed"], store=store, progress=fail_if_solved)
    assert again.rows == table.rows
    assert write_csv(str(tmp_path / "heads.csv"), table) == 6
    with (tmp_path / "heads.csv").open() as opened:
        read = list(csv.DictReader(opened))
    assert [float(row["test_error"]) for row in read] == [row["test_error"] for row in table]
    assert [json.loads(row["sectors"]) if row["sectors"] else None for row in read] == [row["sectors"] for row in table]


def test_hard_labels_report_their_own_errors_and_threshold():
    fixed = {"attention": "cross", "labels": "hard", "loss": "cross-entropy", "weight_decay": 0.1}
    (row,) = onehead.sweep("aim.predict", {"alpha": [2.0]}, fixed=fixed)
    # (U10): cross2 hard 2 .1, to the digits of the table, which counts both rows
    assert 2.0 * row["zero_one_error"] == pytest.approx(0.7169150, abs=1e-6)
    assert row["test_cross_entropy"] == pytest.approx(1.546466, abs=2e-6)
    (row,) = onehead.sweep("aim.thresholds", {"noise": [0.5]}, fixed=fixed)
    assert row["separability"] == row["interpolation"] > 0.0


def test_a_parameter_at_its_default_does_not_change_the_key():
    call = CALLS["aim.predict"]

    def key(**values):
        return call.key(call.prepare({"alpha": 0.5, **values}), None)

    assert key() == key(attention="tied", mask="none", labels="soft") == key(target="mp")
    assert (
        len(
            {
                key(),
                key(attention="self"),
                key(attention="cross"),
                key(mask="causal"),
                key(attention="self", target="mp"),
            }
        )
        == 5
    )
    assert key(attention="cross") == key(attention="cross", target="product", kappa0=0.5)


@pytest.mark.parametrize(
    ("fixed", "sentence"),
    [
        ({"attention": "both"}, "attention must be tied, self or cross; got 'both'."),
        ({"mask": "strict"}, "tokens must be an integer >= 3 with a strict mask: a choice needs two columns; got 2."),
        ({"target": "product"}, "target must be symmetric for a tied head; a product needs attention self or cross"),
    ],
)
def test_inconsistent_heads_are_refused_before_a_point_is_solved(fixed, sentence):
    with pytest.raises(InvalidArgument) as caught:
        onehead.sweep("aim.predict", {"alpha": [0.5]}, fixed=fixed)
    assert str(caught.value).startswith(sentence)
