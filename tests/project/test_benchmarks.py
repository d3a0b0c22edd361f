"""Benchmarks: every budget has a row, and rows record processor time."""

import time

from benchmarks.harness import ROWS, USUAL, Clock, Entry, Finding, Row, load, measure
from benchmarks.records import RESULTS, changes, read, to_json

# text of a budget -> smallest number of rows that have it
BUDGETS = {
    "0.5 units": 3,  # T = 2, λ = 0.01
    "1 unit": 8,
    "8 units": 1,  # a point with leading directions
    "10 units": 10,  # T = 3 to 8, power laws, the best weight decay, cross-attention with 64 tokens and hard labels
    "20 units": 2,  # T = 16, and causal self-attention with hard labels
    "30 units": 2,  # two heads that share values
    "1 s": 2,
    "10 s": 4,
    "a fifth of Adam's time": 3,
}


def test_every_budget_has_its_rows_and_refers_to_existing_ones():
    load(USUAL)
    named = [entry.budget for entry in ROWS.values() if entry.budget is not None]
    for text, count in BUDGETS.items():
        assert sum(budget.text == text for budget in named) >= count, text
    assert all(budget.of in ("unit", "s", *ROWS) for budget in named)


def test_waiting_takes_no_processor_time():
    def waits(clock: Clock) -> Finding:
        clock(lambda: time.sleep(0.2))
        return Finding("nothing computed")

    (row,) = measure([Entry("theory", "waits", waits, repeats=1)])
    assert row.seconds >= 0.2
    assert row.cpu is not None and row.cpu < 0.1  # starting to sleep takes microseconds
    assert row.cpu_units is not None and row.cpu_units < row.units


def test_a_change_counts_when_it_is_larger_than_the_noise():
    old = [Row("theory", name, seconds=1.0, unit=0.1, spread=0.0) for name in ("a", "b", "c")]
    old.append(Row("theory", "once", seconds=1.0, unit=0.1))
    new = [
        Row("theory", "a", seconds=2.6, unit=0.2, spread=0.0),  # a slower machine: 13 units instead of 10
        Row("theory", "b", seconds=2.6, unit=0.2, spread=0.4),  # the same within its spread
        Row("theory", "c", seconds=0.5, unit=0.1, spread=0.0),
        Row("theory", "once", seconds=1.9, unit=0.1),  # measured once: below a factor of two
        Row("theory", "unknown", seconds=1.0, unit=0.1),
    ]
    assert {name: text.split(":")[0] for name, text in changes(old, new).items()} == {"a": "slower", "c": "faster"}


def test_stored_rows_are_read_as_written():
    rows = read(RESULTS)
    assert to_json(rows) == RESULTS.read_text(encoding="utf-8")
