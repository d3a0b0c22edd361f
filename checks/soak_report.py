"""The report of a sweep of random problems: how they ended, where, why not, and how long they took."""

from collections import Counter
from typing import Any

import numpy as np

from checks.tool import table

__all__ = ["report"]

Row = dict[str, Any]
SHOWN = 20  # unexplained problems that are listed


def report(rows: list[Row], seed: int, count: int) -> str:
    """Markdown: totals, statuses, regions, refusals, times, and every unexplained problem with one line to repeat
    it.
    """
    rows = sorted(rows, key=lambda row: row["number"])
    if not rows:
        return "No problem solved yet."
    ends = Counter(row["end"] for row in rows)
    bad = [row for row in rows if row["end"] in ("wrong", "raised")]
    done = "" if len(rows) == count else f" of {count:,} (the sweep is not finished)"
    parts = [
        f"{len(rows):,} random problems{done}, seed {seed}: {ends['solved']:,} solved "
        f"({ends['solved'] / len(rows):.2%}), "
        f"{ends['refused']:,} refused with a reason, {len(bad)} unexplained.",
        _statuses(rows),
        _regions(rows),
        _refusals(rows),
        _times(rows),
        _unexplained(bad, seed),
    ]
    return "\n\n".join(parts)


def _numbers(head: list[str], lines: list[list[str]]) -> str:
    return table(head, lines, right=range(1, len(head)))


def _statuses(rows: list[Row]) -> str:
    counts = Counter((row["regions"]["half"].split(",")[0], row["end"], row["status"]) for row in rows)
    lines = [
        [f"{half}: {'' if end == 'solved' else f'{end} '}{status}", f"{n:,}"]
        for (half, end, status), n in sorted(counts.items(), key=lambda item: (item[0][0], -item[1]))
    ]
    return "How they ended\n\n" + _numbers(["status", "problems"], lines)


def _regions(rows: list[Row]) -> str:
    """Convergence per region: one line per value of every property of a problem."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        half = row["regions"]["half"].split(",")[0]
        for name, value in row["regions"].items():
            if value != "–":
                groups.setdefault((half, name, value), []).append(row)
    lines = []
    for (half, name, value), members in sorted(groups.items()):
        ends = Counter(row["end"] for row in members)
        seconds = [row["seconds"] for row in members]
        lines.append(
            [
                f"{half} · {name}: {value}",
                f"{len(members):,}",
                f"{ends['solved'] / len(members):.2%}",
                f"{ends['refused']}",
                f"{ends['wrong'] + ends['raised']}",
                f"{np.median(seconds):.3f}",
                f"{np.percentile(seconds, 99):.2f}",
            ]
        )
    head = ["region", "problems", "solved", "refused", "unexplained", "median s", "99 % s"]
    return "Per region\n\n" + _numbers(head, lines)


def _refusals(rows: list[Row]) -> str:
    """Typed failures by what they say, numbers left out, with one example each."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row["end"] == "refused":
            groups.setdefault(f"{row['status']}: {_gist(row['reason'])}", []).append(row)
    if not groups:
        return "No problem was refused."
    lines = [
        [text, f"{len(members)}", f"{members[0]['number']}"]
        for text, members in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    return "Refused, by reason\n\n" + _numbers(["reason", "problems", "example"], lines)


def _gist(reason: str) -> str:
    """A reason without its numbers and without its advice, so that equal reasons are counted together."""
    words = ["…" if any(c.isdigit() for c in word) else word for word in reason.split(";", maxsplit=1)[0].split()]
    return " ".join(words).replace("|", "/")[:160]


def _times(rows: list[Row]) -> str:
    seconds = np.array([row["seconds"] for row in rows])
    worst = rows[int(np.argmax(seconds))]
    return (
        f"CPU seconds per problem: median {np.median(seconds):.3f}, 99 % below {np.percentile(seconds, 99):.2f}, "
        f"worst {seconds.max():.1f} (problem {worst['number']}); all together {seconds.sum() / 60.0:.0f} minutes."
    )


def _list(row: Row) -> str:
    """Return the flag of the list of problems that a row belongs to; nothing for the main list."""
    return f" --{row['list']}" if row.get("list") else ""


def _unexplained(bad: list[Row], seed: int) -> str:
    if not bad:
        return "Unexplained: none."
    lines = [
        f"- `python -m checks.soak{_list(row)} --seed {seed} --only {row['number']}` {row['status']}: "
        f"{row['reason']}\n  `{row['call']}`"
        for row in bad[:SHOWN]
    ]
    more = [] if len(bad) <= SHOWN else [f"- and {len(bad) - SHOWN} more"]
    return "Unexplained\n\n" + "\n".join(lines + more)
