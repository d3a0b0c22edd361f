"""The lists of random problems: every problem is valid, and every kind of head occurs."""

from collections import Counter

import pytest
from checks.soak import BEST, HEADS, LAYERS, run_one
from checks.soak_heads import draw_head
from checks.soak_layers import draw_layer
from checks.soak_problems import draw, problem_of


def test_every_random_problem_is_valid():
    """An invalid problem would be counted as a refusal and test nothing."""
    for number in range(400):
        problem_of(draw(11, number))
        problem_of(draw_head(11, number))
        problem_of(draw_layer(11, number))


def test_every_kind_of_head_occurs():
    """Attention, masks, labels, long rows with and without shared logits, tokens of another kurtosis, leading
    directions.
    """
    regions = [draw_head(11, number).regions for number in range(3000)]
    tied = [draw(11, number).regions for number in range(3000)]
    count = Counter((name, region[name]) for region in regions for name in region)
    count += Counter(("leading", region["leading"]) for region in tied if "leading" in region)
    wanted = {
        "attention": ("tied", "self", "cross"),
        "mask": ("none", "causal", "strict"),
        "labels": ("soft", "hard"),
        "tokens": ("T = 2", "T = 3, 4", "T = 5 to 8", "T = 9 to 16", "T above 16"),
        "entries": ("Gaussian", "not Gaussian"),
        "leading": ("auto", "0", "1", "2", "3"),
        "weight decay": ("0+", "small (< 1e-4)"),
    }
    rare = {(name, value): count[name, value] for name, values in wanted.items() for value in values}
    assert min(rare.values()) >= 10, rare
    shared = [r for r in regions if r["mask"] == "none" and r["attention"] == "self" and r["tokens"] == "T = 9 to 16"]
    assert shared


@pytest.mark.slow
def test_layers_of_random_heads_are_solved_or_refused_with_a_reason():
    """Sampled maps, minima that compete, superfluous heads, and a zero map are among these."""
    rows = [run_one(41931, number, LAYERS) for number in (0, 2, 8, 10, 13, 14)]
    assert [row["end"] for row in rows] == ["solved", "solved", "refused", "solved", "solved", "solved"]
    assert {row["status"] for row in rows} >= {"converged", "converged: sampled maps", "1 alive", "OutsideDomain"}


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "count"), [(None, 200), (HEADS, 30), (BEST, 30), (LAYERS, 30)])
def test_random_problems_are_solved_or_refused_with_a_reason(kind, count):
    """The beginning of another list than that of `make soak`."""
    rows = [run_one(31, number, kind) for number in range(count)]
    assert [row for row in rows if row["end"] not in ("solved", "refused")] == []
