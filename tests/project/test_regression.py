"""A published number that moves by more than its stated error fails here, unless the changelog lists it."""

import pytest
from checks.regression import CHANGELOG, GROUPS, VERSION, compare, fingerprint, load, moved, named_in_changelog

from onehead.sweep.storage.version import NUMERICAL

SAMPLED = {"aim_leading", "aim_layers", "sparse_joint"}  # numbers good to two or three digits
SLOW = {"aim_curves", "aim_variants", "aim_tokens", "aim_targets", "aim_tune", "aim_maps", "aim_long"}


@pytest.fixture(scope="module")
def table():
    return load()


@pytest.mark.parametrize(
    "group", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in GROUPS]
)
def test_no_published_number_has_moved(table, group):
    assert compare(group, table) == []


def test_the_table_is_the_one_the_changelog_names(table):
    assert table["version"] == VERSION
    assert table["table"] == fingerprint(table), "the table was edited by hand: run python -m checks.regression --write"
    assert table["numerical"] == NUMERICAL, "the numerical version changed: write the table anew"
    assert named_in_changelog(CHANGELOG.read_text(encoding="utf-8")) == table["table"], (
        f'name `table {table["table"]}` in the newest "Numerical changes" section of CHANGELOG.md, with what moved '
        f"and why"
    )


def test_the_table_is_large_and_its_errors_are_small(table):
    assert all(
        error < 0.05 * abs(value)
        for group in SAMPLED
        for row in table["groups"][group].values()
        for value, error in row.values()
        if abs(value) > 1e-6
    )
    rows = [row for name, group in table["groups"].items() if name not in SAMPLED for row in group.values()]
    assert len(rows) >= 200
    # an error as large as its number would catch nothing
    shares = [error / abs(value) for row in rows for value, error in row.values() if abs(value) > 1e-6]
    assert sum(share < 1e-3 for share in shares) > 0.9 * len(shares)


def test_a_moved_number_is_reported():
    stored = {"q": [1.0, 1e-5]}
    assert moved(stored, {"q": 1.0 + 0.9e-5}) == []
    assert moved(stored, {"q": 1.0 + 2e-5})
    assert moved(stored, {"q": float("nan")})
    assert moved(stored, {})
    assert moved(stored, {"q": 1.0, "m": 2.0})


def test_only_sections_of_numerical_changes_count():
    old = "## 1\n\n### Numerical changes\n\n- `table 0123456789ab`\n"
    text = f"# Changes\n\n## 2\n\n### New\n\n- table 000000000000\n\n### Numerical changes\n\nNone.\n\n{old}"
    assert named_in_changelog(text) == "0123456789ab"
