"""Tables and sentences of the page "Real heads", each a section of one file, all numbers from the files of `data`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from checks.tool import table

from onehead.weights import WORDS
from onehead.weights.sectors import WITHOUT_PREFERENCE
from studies.real_heads.data import Data
from studies.real_heads.measure import CUT, TRACE, Row
from studies.real_heads.runs import FEW, MOST, WIDTH, Run

__all__ = ["GROUPS", "HEAD_DIM", "PENALTIES", "of", "outliers", "report", "runs_of", "there"]

HEAD_DIM = WIDTH // Run.heads
LAWS = ("untied", "tied", "marchenko-pastur", "noise", "power-law")
PENALTIES = (0, 3e-4, 1e-3)  # with every number of tokens
GROUPS: dict[str, Callable[[Row], bool]] = {
    "no decay": lambda row: not row["penalty"] and not row["decay"],
    "λ up to 0.0003": lambda row: 0 < row["penalty"] <= 3e-4,
    "λ from 0.001": lambda row: row["penalty"] >= 1e-3,
    "AdamW": lambda row: row["decay"] > 0,
}
TOLD_APART = 2.0  # of the BIC, as `onehead.weights` has it


def of(rows: Iterable[Row], **wanted: object) -> list[Row]:
    """Rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def runs_of(rows: Iterable[Row]) -> dict[tuple[float, ...], list[Row]]:
    """Rows of each run, by width, tokens, penalty and decay."""
    found: dict[tuple[float, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row["width"], row["tokens"], row["penalty"], row["decay"]), []).append(row)
    return found


def median(rows: Sequence[Row], name: str) -> float:
    """Of what is known."""
    return float(np.median([row[name] for row in rows if row[name] is not None]))


def span(rows: Sequence[Row], name: str, form: str = "g") -> str:
    """Median, smallest and largest."""
    values = [row[name] for row in rows]
    return f"{np.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def there(rows: Iterable[Row]) -> list[Row]:
    """Heads that decay has left anything of; what is said of the others is said of rounding."""
    return [row for row in rows if row["left"]]


def words(rows: Sequence[Row]) -> str:
    """How many heads have each word; those that decay has left nothing of are gone."""
    counts = Counter(row["verdict"] if row["left"] else "gone" for row in rows)
    return ", ".join(f"{counts[word]} {word}" for word in ("gone", *WORDS) if counts[word])


def outliers(rows: Sequence[Row]) -> float:
    """Per head, those gone counted as zero."""
    return sum(row["outliers"] for row in there(rows)) / len(rows)


def all_runs(data: Data) -> str:
    """Every run in a line."""
    lines = [
        [
            str(key[0]),
            f"{key[1]:,}",
            f"{key[1] / key[0] ** 2:.3g}",
            f"{key[2]:g}" if key[2] else "",
            f"{key[3]:g}" if key[3] else "",
            f"{rows[0]['train']:.2f}",
            f"{rows[0]['held']:.2f}",
            words(rows),
            f"{outliers(rows):.1f}",
            f"{median(rows, 'left'):g} of {rows[0]['head_dim']}",
            f"{median(rows, 'effective_rank'):.1f}",
            pulled(rows),
            f"{median(rows, 'share'):.2f}",
        ]
        for key, rows in sorted(runs_of(data.ends).items())
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
    """Weight decay and rank, at most tokens."""
    here = sorted(runs_of(of(data.ends, width=WIDTH, tokens=MOST)).items(), key=lambda item: item[0][2:])
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
                pulled(rows),
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


def pulled(rows: Sequence[Row]) -> str:
    """Pull over λ: the median head, and the heads between which half of them lie."""
    values = [row["pull"] / row["penalty"] for row in there(rows) if row["penalty"]]
    if not values:
        return ""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def samples(data: Data) -> str:
    """Outliers, ranks and losses against the number of tokens."""
    lines = []
    for place, tokens in enumerate([*FEW, MOST]):
        found = {penalty: of(data.ends, width=WIDTH, tokens=tokens, penalty=penalty, decay=0) for penalty in PENALTIES}
        cells = [f"{outliers(rows):.1f}" if rows else "" for rows in list(found.values())[:2]]
        cells += [
            f"{median(found[penalty], 'left'):g}, {expected[place]:.0f}" if found[penalty] else ""
            for penalty, expected in zip(PENALTIES[1:], data.beside["left"].values(), strict=True)
        ]
        cells += [f"{rows[0]['held']:.3f}" if rows else "" for rows in found.values()]
        lines.append([f"{tokens:,}", f"{tokens / WIDTH**2:g}", str(data.beside["outliers"][place]), *cells])
    names = ["tokens", "α", "outliers, theory", *(f"outliers, λ = {penalty:g}" for penalty in PENALTIES[:2])]
    names += [f"left, λ = {penalty:g}: heads, theory" for penalty in PENALTIES[1:]]
    names += [f"held out, λ = {penalty:g}" for penalty in PENALTIES]
    return table(names, lines, range(len(names)))


def laws(data: Data) -> str:
    """Which law fits the bulk of heads best, and how often it is told apart from the next."""
    lines = []
    for name, belongs in GROUPS.items():
        rows = [row for row in there(data.ends) if belongs(row)]
        fitted = [row for row in rows if row["law"]]
        counts = Counter(row["law"] for row in fitted)
        clear = Counter(row["law"] for row in fitted if row["margin"] >= TOLD_APART)
        cells = [f"{counts[law]} ({clear[law]})" if counts[law] else "" for law in LAWS]
        lines.append([name, str(len(rows)), str(len(rows) - len(fitted)), *cells])
    return table(["heads", "number", "too few values", *LAWS], lines, range(1, 3 + len(LAWS)))


def shares(data: Data) -> str:
    """Symmetric shares beside the theory."""
    low, high = WITHOUT_PREFERENCE
    lines = []
    for name, belongs in GROUPS.items():
        rows = [row for row in there(data.ends) if belongs(row)]
        inside = sum(low <= row["share"] <= high for row in rows)
        cells = [span(rows, "share", ".2f"), f"{inside} of {len(rows)}", span(rows, "even_share", ".2f")]
        lines.append([name, *cells])
    return table(["heads", "symmetric share", f"within {low} to {high}", "of tokens made isotropic"], lines)


def tokens_seen(data: Data) -> str:
    """Tokens in front of attention, by layer, at the usual width."""
    lines = []
    for layer in range(Run.layers):
        rows = there(of(data.ends, width=WIDTH, layer=layer))
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
        "mean token, part of the size",
        "unasked",
        "u₁ and mean",
    ]
    return table(names, lines)


def trained(data: Data) -> str:
    """What was trained, for how long, on what."""
    runs, usual = runs_of(data.ends), Run()
    cpu, wall = (sum(rows[0][name] for rows in runs.values()) / 60.0 for name in ("cpu", "wall"))
    widths = ", ".join(str(width) for width in sorted({row["width"] for row in data.ends}))
    return (
        f"{len(runs)} decoder-only transformers of width {widths} with {usual.layers} layers of {usual.heads} heads were trained on the "
        f"sources of the standard library of Python {data.beside['python']}, one token per character, one file in ten held out. Each had "
        f"{usual.steps:,} steps of {usual.batch} windows of {usual.context} tokens, with AdamW at a rate of {usual.rate:g} that falls to "
        f"zero in the second half. It took {cpu:.0f} minutes of one core, and so about half of that on two cores that nobody else uses; "
        f"one after the other, on a machine that others kept busy, {wall:.0f} minutes went by."
    )


def zero(_: Data) -> str:
    """What is taken for zero."""
    return (
        f"A direction counts as left if its singular value is above {CUT:g} of the median one of its head at step 0; the next column "
        f"has those above {CUT * TRACE:g}, to see what depends on this."
    )


def scale(data: Data) -> str:
    """Theory beside rank, in words."""
    return (
        f"The curve in the picture is a head of the theory with as many directions and tokens (power law, γ = 0.75), its λ multiplied by "
        f"{data.beside['scale']:.2g} to pass one half where the heads do: this is the one number that was fitted."
    )


def predicted_shares(data: Data) -> str:
    """Shares of the theory at the tokens of the study."""
    found = ", ".join(
        f"{share:.2f} at α = {n / WIDTH**2:g}"
        for n, share in zip(data.beside["tokens"], data.beside["shares"], strict=True)
    )
    return f"For λ = 0.0003, hard labels and a causal mask, the theory of two tokens predicts {found}."


def answers(data: Data) -> str:
    """Theory and heads side by side, in a few lines."""
    most = of(data.ends, width=WIDTH, tokens=MOST)
    free, alive = of(most, penalty=0, decay=0), there(data.ends)
    cut = [row for row in alive if row["left"] < 0.9 * row["head_dim"]]
    falls = ", ".join(
        f"{median(rows, 'left'):g} at {key[2]:g}" for key, rows in sorted(runs_of(of(most, decay=0)).items())
    )
    fewest = of(data.ends, width=WIDTH, tokens=FEW[0], penalty=0, decay=0)
    fitted = [row for row in alive if row["law"]]
    tokens = [row["dimension"] for row in alive if row["width"] == WIDTH]
    kept = [row for row in alive if row["penalty"]]
    low, high = WITHOUT_PREFERENCE
    lines = [
        ["directions left, λ up", "fall to 0", f"{falls}, of {HEAD_DIM}"],
        ["directions that are cut", "exactly zero", f"{sum(row['verdict'] == 'low rank' for row in cut)} of {len(cut)} heads that lost a tenth or more have a break in their spectrum"],
        ["pull of the loss along a direction that is left", "λ", f"{np.median([row['pull'] / row['penalty'] for row in kept]):.2f} λ in the median head, {sum(0.5 <= row['pull'] / row['penalty'] <= 1.5 for row in kept)} of {len(kept)} between 0.5 λ and 1.5 λ"],
        ["outliers per head, few tokens to many", f"{data.beside['outliers'][0]} to {data.beside['outliers'][-1]}", f"{outliers(fewest):.1f} to {outliers(free):.1f}"],
        ["symmetric share", f"{low} to {high} without preference", f"median {median(alive, 'share'):.2f}, {sum(low <= row['share'] <= high for row in alive)} of {len(alive)} heads within"],
        ["best law of the bulk", "untied", f"untied for {sum(row['law'] == 'untied' for row in fitted)} of {len(fitted)} heads"],
        ["effective dimension of tokens", f"{WIDTH}", f"{min(tokens):.0f} to {max(tokens):.0f}"],
        ["logits that are the same for every query", "none", f"{median(alive, 'unasked'):.0%} of their variance in the median head"],
    ]  # fmt: skip
    return table(["", "theory", "these heads"], lines)


SECTIONS = {
    "answers": answers,
    "runs": all_runs,
    "rank": ranks,
    "samples": samples,
    "laws": laws,
    "shares": shares,
    "tokens": tokens_seen,
    "trained": trained,
    "zero": zero,
    "scale": scale,
    "predicted": predicted_shares,
}


def report(data: Data) -> str:
    """All sections, each between marks that the page asks for."""
    return "\n\n".join(
        f"<!-- --8<-- [start:{name}] -->\n{make(data)}\n<!-- --8<-- [end:{name}] -->" for name, make in SECTIONS.items()
    )
