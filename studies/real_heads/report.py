"""Tables and sentences of the page "Real heads", as sections of one file, with numbers from the files of `data`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from checks.tool import table

from onehead.weights import VERDICTS
from onehead.weights.symmetric_share import NEUTRAL_SHARE_RANGE
from studies.real_heads.data import Data
from studies.real_heads.measure import CUT, TRACE, Row
from studies.real_heads.runs import FEWER_TOKENS, MOST_TOKENS, WIDTH, Run

__all__ = ["GROUPS", "HEAD_DIM", "PENALTIES", "of", "outliers", "remaining", "report", "runs_of"]

HEAD_DIM = WIDTH // Run.heads
LAWS = ("untied", "tied", "marchenko-pastur", "noise", "power-law")
PENALTIES = (0, 3e-4, 1e-3)  # with every number of tokens
GROUPS: dict[str, Callable[[Row], bool]] = {
    "no decay": lambda row: not row["penalty"] and not row["decay"],
    "λ up to 0.0003": lambda row: 0 < row["penalty"] <= 3e-4,
    "λ from 0.001": lambda row: row["penalty"] >= 1e-3,
    "AdamW": lambda row: row["decay"] > 0,
}
CLEAR_MARGIN = 2.0  # of the BIC, as in `onehead.weights.law`


def of(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Return the rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def runs_of(rows: Iterable[Row]) -> dict[tuple[float, ...], list[Row]]:
    """Return the rows of each run, by width, tokens, penalty and decay."""
    found: dict[tuple[float, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row["width"], row["tokens"], row["penalty"], row["decay"]), []).append(row)
    return found


def median(rows: Sequence[Row], name: str) -> float:
    """Return the median of the known values of a column."""
    return float(np.median([row[name] for row in rows if row[name] is not None]))


def span(rows: Sequence[Row], name: str, form: str = "g") -> str:
    """Return median, smallest and largest value of a column as text."""
    values = [row[name] for row in rows]
    return f"{np.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def remaining(rows: Iterable[Row]) -> list[Row]:
    """Return the heads of which decay has left at least one direction; measurements of the others are rounding."""
    return [row for row in rows if row["left"]]


def verdict_counts(rows: Sequence[Row]) -> str:
    """Return how many heads have each verdict; heads without a direction left count as gone."""
    counts = Counter(row["verdict"] if row["left"] else "gone" for row in rows)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("gone", *VERDICTS) if counts[verdict])


def outliers(rows: Sequence[Row]) -> float:
    """Return the mean number of outliers per head; heads that are gone count as zero."""
    return sum(row["outliers"] for row in remaining(rows)) / len(rows)


def all_runs(data: Data) -> str:
    """Return the table of all runs."""
    lines = [
        [
            str(key[0]),
            f"{key[1]:,}",
            f"{key[1] / key[0] ** 2:.3g}",
            f"{key[2]:g}" if key[2] else "",
            f"{key[3]:g}" if key[3] else "",
            f"{rows[0]['train']:.2f}",
            f"{rows[0]['held']:.2f}",
            verdict_counts(rows),
            f"{outliers(rows):.1f}",
            f"{median(rows, 'left'):g} of {rows[0]['head_dim']}",
            f"{median(rows, 'effective_rank'):.1f}",
            pull_quartiles(rows),
            f"{median(rows, 'share'):.2f}",
        ]
        for key, rows in sorted(runs_of(data.final).items())
    ]
    names = [
        "width",
        "tokens",
        "α",
        "λ",
        "AdamW",
        "loss",
        "held out",
        "heads",
        "outliers per head",
        "left",
        "effective rank",
    ]
    return table([*names, "pull / λ", "symmetric share"], lines, (0, 1, 2, 3, 4, 5, 6, 8, 10, 12))


def ranks(data: Data) -> str:
    """Return the table of weight decay and rank for most tokens."""
    here = sorted(runs_of(of(data.final, width=WIDTH, tokens=MOST_TOKENS)).items(), key=lambda item: item[0][2:])
    lines = []
    for (_, _, penalty, decay), rows in here:
        strength = penalty or decay * rows[0]["gradient"]
        lines.append(
            [
                f"λ = {penalty:g}" if not decay else f"AdamW {decay:g}",
                f"{strength:.2g}",
                span(rows, "left"),
                f"{median(rows, 'traced'):g}",
                str(sum(row["left"] == 0 for row in rows)),
                f"{median(rows, 'effective_rank'):.1f}",
                pull_quartiles(rows),
                f"{median(rows, 'most') / strength:.1f}" if strength else "",
                f"{median(rows, 'imbalance'):.2f}",
                f"{rows[0]['held']:.3f}",
            ]
        )
    names = [
        "decay",
        "as λ",
        f"directions left of {HEAD_DIM}",
        f"above {CUT * TRACE:g}",
        "heads gone",
        "effective rank",
        "pull / λ",
    ]
    return table([*names, "strongest pull / λ", "imbalance", "held out"], lines, (1, 3, 4, 5, 7, 8, 9))


def pull_quartiles(rows: Sequence[Row]) -> str:
    """Return pull over λ as text: its median over heads and its quartiles."""
    values = [row["pull"] / row["penalty"] for row in remaining(rows) if row["penalty"]]
    if not values:
        return ""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def samples(data: Data) -> str:
    """Return the table of outliers, ranks and losses against the number of tokens."""
    lines = []
    for place, tokens in enumerate([*FEWER_TOKENS, MOST_TOKENS]):
        found = {penalty: of(data.final, width=WIDTH, tokens=tokens, penalty=penalty, decay=0) for penalty in PENALTIES}
        cells = [f"{outliers(rows):.1f}" if rows else "" for rows in list(found.values())[:2]]
        cells += [
            f"{median(found[penalty], 'left'):g}, {expected[place]:.0f}" if found[penalty] else ""
            for penalty, expected in zip(PENALTIES[1:], data.theory["left"].values(), strict=True)
        ]
        cells += [f"{rows[0]['held']:.3f}" if rows else "" for rows in found.values()]
        lines.append([f"{tokens:,}", f"{tokens / WIDTH**2:g}", str(data.theory["outliers"][place]), *cells])
    names = ["tokens", "α", "outliers, theory", *(f"outliers, λ = {penalty:g}" for penalty in PENALTIES[:2])]
    names += [f"left, λ = {penalty:g}: heads, theory" for penalty in PENALTIES[1:]]
    names += [f"held out, λ = {penalty:g}" for penalty in PENALTIES]
    return table(names, lines, range(len(names)))


def laws(data: Data) -> str:
    """Return the table of the laws that fit best, and of how often they are distinguished from the next."""
    lines = []
    for name, belongs in GROUPS.items():
        rows = [row for row in remaining(data.final) if belongs(row)]
        fitted = [row for row in rows if row["law"]]
        counts = Counter(row["law"] for row in fitted)
        clear = Counter(row["law"] for row in fitted if row["margin"] >= CLEAR_MARGIN)
        cells = [f"{counts[law]} ({clear[law]})" if counts[law] else "" for law in LAWS]
        lines.append([name, str(len(rows)), str(len(rows) - len(fitted)), *cells])
    return table(["heads", "number", "too few values", *LAWS], lines, range(1, 3 + len(LAWS)))


def shares(data: Data) -> str:
    """Return the table of symmetric shares, compared with the theory."""
    low, high = NEUTRAL_SHARE_RANGE
    lines = []
    for name, belongs in GROUPS.items():
        rows = [row for row in remaining(data.final) if belongs(row)]
        inside = sum(low <= row["share"] <= high for row in rows)
        cells = [span(rows, "share", ".2f"), f"{inside} of {len(rows)}", span(rows, "even_share", ".2f")]
        lines.append([name, *cells])
    return table(["heads", "symmetric share", f"within {low} to {high}", "of tokens made isotropic"], lines)


def token_statistics(data: Data) -> str:
    """Return the table of statistics of the tokens that enter attention, by layer, at the default width."""
    lines = []
    for layer in range(Run.layers):
        rows = remaining(of(data.final, width=WIDTH, layer=layer))
        lines.append(
            [
                str(layer),
                span(rows, "dimension", ".0f"),
                span(rows, "mean_part", ".2f"),
                span(rows, "unasked", ".2f"),
                span(rows, "mean_overlap", ".2f"),
            ]
        )
    names = [
        "layer",
        f"effective dimension of tokens, of {WIDTH}",
        "share of the mean token in the squared length",
        "unasked",
        "u₁ and mean",
    ]
    return table(names, lines)


def trained(data: Data) -> str:
    """Return a paragraph on what was trained, on which text, and for how long."""
    runs, usual = runs_of(data.final), Run()
    cpu, wall = (sum(rows[0][name] for rows in runs.values()) / 60.0 for name in ("cpu", "wall"))
    widths = ", ".join(str(width) for width in sorted({row["width"] for row in data.final}))
    return (
        f"{len(runs)} decoder-only transformers of width {widths} with {usual.layers} layers of {usual.heads} "
        f"heads were trained on the sources of the standard library of Python {data.theory['python']}, one token "
        f"per character, with one file in ten held out. Each was trained for {usual.steps:,} steps of "
        f"{usual.batch} windows of {usual.context} tokens, with AdamW at a rate of {usual.rate:g} that decreases "
        f"to zero in the second half. The training took {cpu:.0f} minutes of CPU time, about half of that on two "
        f"idle cores; the wall-clock times of all runs, on a busy machine, add up to {wall:.0f} minutes."
    )


def zero(_: Data) -> str:
    """Return the definition of a direction that is left."""
    return (
        f"A direction counts as left if its singular value is above {CUT:g} times the median one of its head at "
        f"step 0; the next column counts those above {CUT * TRACE:g} times the median, as a test of this choice."
    )


def scale(data: Data) -> str:
    """Return a sentence about the scale of λ."""
    return (
        "The curve in the figure is a head of the theory with as many directions and tokens (power law, γ = "
        f"0.75, logit variance 1). Its λ is multiplied by {data.theory['scale']:.2g}, which is measured, not fitted: "
        f"the squared force of the loss on the logits of a row, {data.theory['force']:.2g} in the median head with a "
        f"penalty, over {data.theory['information']:.2g}, that of the theory."
    )


def predicted_shares(data: Data) -> str:
    """Return a sentence with the symmetric shares that the theory predicts."""
    found = ", ".join(
        f"{share:.2f} at α = {n / WIDTH**2:g}"
        for n, share in zip(data.theory["tokens"], data.theory["shares"], strict=True)
    )
    return f"For λ = 0.0003, hard labels and a causal mask, the theory of two tokens predicts {found}."


def answers(data: Data) -> str:
    """Return the summary table of theory and trained heads."""
    most = of(data.final, width=WIDTH, tokens=MOST_TOKENS)
    without_decay, alive = of(most, penalty=0, decay=0), remaining(data.final)
    cut = [row for row in alive if row["left"] < 0.9 * row["head_dim"]]
    falls = ", ".join(
        f"{median(rows, 'left'):g} at {key[2]:g}" for key, rows in sorted(runs_of(of(most, decay=0)).items())
    )
    fewest = of(data.final, width=WIDTH, tokens=FEWER_TOKENS[0], penalty=0, decay=0)
    fitted = [row for row in alive if row["law"]]
    tokens = [row["dimension"] for row in alive if row["width"] == WIDTH]
    penalised = [row for row in alive if row["penalty"]]
    low, high = NEUTRAL_SHARE_RANGE
    broken = sum(row["verdict"] == "low rank" for row in cut)
    pulls = [row["pull"] / row["penalty"] for row in penalised]
    near = sum(0.5 <= pull <= 1.5 for pull in pulls)
    within = sum(low <= row["share"] <= high for row in alive)
    untied = sum(row["law"] == "untied" for row in fitted)
    predicted = data.theory["outliers"]
    lines = [
        ["directions left, for growing λ", "decrease to 0", f"{falls}, of {HEAD_DIM}"],
        [
            "directions that are cut",
            "exactly zero",
            f"{broken} of {len(cut)} heads that lost a tenth or more have a break in their spectrum",
        ],
        [
            "pull of the loss along a direction that is left",
            "λ",
            f"{np.median(pulls):.2f} λ in the median head, {near} of {len(penalised)} between 0.5 λ and 1.5 λ",
        ],
        [
            "outliers per head, from few tokens to many",
            f"{predicted[0]} to {predicted[-1]}",
            f"{outliers(fewest):.1f} to {outliers(without_decay):.1f}",
        ],
        [
            "symmetric share",
            f"{low} to {high} without preference",
            f"median {median(alive, 'share'):.2f}, {within} of {len(alive)} heads within",
        ],
        ["best law of the bulk", "untied", f"untied for {untied} of {len(fitted)} heads"],
        ["effective dimension of tokens", f"{WIDTH}", f"{min(tokens):.0f} to {max(tokens):.0f}"],
        [
            "part of the logits common to all queries",
            "none",
            f"{median(alive, 'unasked'):.0%} of their variance in the median head",
        ],
    ]
    return table(["", "theory", "these heads"], lines)


SECTIONS = {
    "answers": answers,
    "runs": all_runs,
    "rank": ranks,
    "samples": samples,
    "laws": laws,
    "shares": shares,
    "tokens": token_statistics,
    "trained": trained,
    "zero": zero,
    "scale": scale,
    "predicted": predicted_shares,
}


def report(data: Data) -> str:
    """Return all sections, each between the marks by which the page includes it."""
    return "\n\n".join(
        f"<!-- --8<-- [start:{name}] -->\n{make(data)}\n<!-- --8<-- [end:{name}] -->" for name, make in SECTIONS.items()
    )
