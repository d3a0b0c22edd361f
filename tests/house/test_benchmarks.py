"""The benchmarks: every budget has a row, and a row knows the time of the processor."""

import time

from benchmarks.harness import ROWS, USUAL, Clock, Entry, Finding, load, measure

# what the design promises -> how often some row is held to it, at least
PROMISED = {
    "0.5 units": 3,  # T = 2, λ = 0.01
    "1 unit": 8,
    "8 units": 1,  # a led point
    "10 units": 9,  # T = 3 to 8, power laws, the best weight decay
    "1 s": 2,
    "10 s": 4,
    "a fifth of Adam's time": 3,
}


def test_every_budget_has_a_row_and_every_row_it_names():
    load(USUAL)
    named = [entry.budget for entry in ROWS.values() if entry.budget is not None]
    for text, count in PROMISED.items():
        assert sum(budget.text == text for budget in named) >= count, text
    assert all(budget.of in ("unit", "s", *ROWS) for budget in named)


def test_a_row_that_waits_takes_no_time_of_the_processor():
    def waits(clock: Clock) -> Finding:
        clock(lambda: time.sleep(0.2))
        return Finding("nothing computed")

    (row,) = measure([Entry("theory", "waits", waits, repeats=1)])
    assert row.seconds >= 0.2
    assert row.cpu is not None and row.cpu < 0.1  # starting to sleep takes microseconds
    assert row.cpu_units is not None and row.cpu_units < row.units
