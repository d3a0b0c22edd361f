"""Table of the second study: every disagreement of the first, its explanation, and what was predicted and measured.

The verdicts are sentences with numbers from the data. Each has a condition that the numbers must fulfil for its words
to be right, which the tests check.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from checks.tool import table

from studies.real_heads.layer_data import LayerData
from studies.real_heads.layer_fading import adam_courses, adam_rates, descent_heads, rate_powers
from studies.real_heads.layer_report import (
    PART,
    factor,
    halves,
    ratio,
    width_exponent,
    widths_of,
)
from studies.real_heads.layer_statistics import (
    alive,
    at_place,
    at_start,
    by_run,
    correlation,
    mean_of,
    only,
    penalised,
    select,
)
from studies.real_heads.runs import LONG, Run

__all__ = ["VERDICTS", "Verdict", "verdicts"]


class Verdict(NamedTuple):
    """One row of the table, and whether the numbers support the words of its verdict."""

    disagreement: str
    explanation: str
    predicted: str
    measured: str
    verdict: str
    supported: bool


def _by_width(texts: dict[int, str]) -> str:
    return ", ".join(f"{text} at width {width}" for width, text in texts.items())


def _spread(values: list[float]) -> str:
    """Return the range of some numbers, or one if they do not differ in two digits."""
    low, high = (f"{float(f'{value:.2g}'):g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def scale(data: LayerData) -> Verdict:
    """Scale of λ: R in place of the information of a sample."""
    found = halves(data)
    predicted = [
        float(np.exp(each[f"theory own, {name}"].value)) for each in found.values() for name in ("one", "measured")
    ]
    off = {
        kind: [
            float(np.exp(abs(ratio(each[kind], each[f"theory {theory}, measured"]).value))) for each in found.values()
        ]
        for kind, theory in (("own", "own"), ("before", "before"), ("alone", "own"))
    }
    return Verdict(
        "scale of λ: about 20 times less is needed",
        "the loss sees one head by R, not by the information of a sample of the theory",
        f"half of the directions left at λ d/(R √H) = {_spread(predicted)}, for logit variance 1 or as measured",
        _by_width({width: factor(each["own"]) for width, each in found.items()}),
        f"explained in size: off by {_spread(off['own'])} with R of the head, by {_spread(off['before'])} with R "
        f"of the run at λ = 0 (no hindsight), by {_spread(off['alone'])} with λ alone",
        max(off["own"]) < 2.5 and min(off["alone"]) > 3.0 * max(off["own"]),
    )


def width(data: LayerData) -> Verdict:
    """Dependence on width."""
    found = halves(data)
    measured, before = (width_exponent(found, name) for name in ("own", "before"))
    theory = [
        (found[max(found)][f"theory own, {name}"].value - found[min(found)][f"theory own, {name}"].value)
        / np.log(max(found) / min(found))
        for name in ("one", "measured")
    ]
    distance = min(abs(measured.value - x) for x in theory) / measured.error
    return Verdict(
        "dependence on width",
        "λ √(width · head_dim)/R should be the same at half of the directions for every width",
        f"exponent {_spread([float(x) for x in theory])} of the half point in the width",
        f"{measured.text()} with R of the head, {before.text()} with R at λ = 0",
        f"open: {'not reproduced' if distance > 2.0 else 'no difference is seen'}, {distance:.1f} standard errors "
        "apart with three widths over a factor of four",
        measured.error > 0.0,
    )


def ranks(data: LayerData) -> Verdict:
    """Different ranks at one λ."""
    first, rows = at_start(data.heads), penalised(data.heads, penalty=1e-3)
    known = [row | {"before": first[at_place(row)]["force"]} for row in rows if at_place(row) in first]
    own, gain, within, before = (
        correlation(rows, "force", "left"),
        correlation(rows, "gain", "left"),
        correlation(rows, "gain", "left", within="layer"),
        correlation(known, "before", "left"),
    )
    return Verdict(
        "different ranks at one λ",
        "R differs between the heads of a layer",
        "rank correlation of directions left and R near 1",
        f"{own.text()} at λ = 0.001; with G {gain.text()}, within a layer {within.text()}; "
        f"with R at λ = 0 {before.text()}",
        "explained in hindsight, not predicted: R at λ = 0 does not say which heads survive",
        own.value > 0.8 and before.value < 0.6 * own.value,
    )


def condition(data: LayerData) -> Verdict:
    """The condition of the theory itself: pulls at A = 0."""
    rows = penalised(data.heads)
    pulled, left = (
        mean_of([float(np.mean([r[n] / r["head_dim"] for r in run])) for run in by_run(rows)])
        for n in ("pulled", "left")
    )
    from scipy.stats import spearmanr

    every = float(
        spearmanr([r["pulled"] / r["head_dim"] for r in rows], [r["left"] / r["head_dim"] for r in rows]).statistic
    )
    strong, weak = ([row for row in rows if (row["penalty"] >= 1e-3) == kind] for kind in (True, False))
    within = correlation(strong, "pulled", "left")
    kept = {
        kind: sum(row["left"] / row["head_dim"] for row in part) / sum(row["pulled"] / row["head_dim"] for row in part)
        for kind, part in (("strong", strong), ("weak", weak))
    }
    return Verdict(
        "the condition of the theory, head by head",
        "a direction is left if the loss pulls it by more than λ at A = 0",
        "as many directions left as pulled",
        f"share pulled {pulled.text()}, left {left.text()}; left over pulled {kept['weak']:.2f} at λ = 0.0003, "
        f"{kept['strong']:.2f} beyond; rank correlation {every:.2f} over {len(rows)} heads, {within.text()} within "
        "runs at λ from 0.001",
        "holds in order; in number where λ is weak, and fewer are left than pulled where it is strong",
        every > 0.8 and within.value > 0.8 and abs(kept["weak"] - 1.0) < 0.1 and kept["strong"] < 0.8,
    )


def vanish(data: LayerData) -> Verdict:
    """Whole heads vanish."""
    counts, gains = {}, {}
    penalties = sorted({row["penalty"] for row in data.heads if row["value_penalty"]})
    for decayed in (False, True):
        rows = [
            row
            for x in penalties
            for row in select(data.heads, width=64, penalty=x, value_penalty=x if decayed else 0.0)
        ]
        counts[decayed] = mean_of([float(sum(not r["left"] for r in run)) for run in by_run(rows)])
        gains[decayed] = [row["gain"] for row in rows if not row["left"]] or [np.nan]
        gains[decayed, "left"] = [row["gain"] for row in alive(rows)]
    return Verdict(
        "whole heads vanish",
        "heads compete if values decay too (M8); values grow to evade a decay of query and key alone (M7)",
        "with decay on values heads that are gone lose their values; without it none is gone",
        f"gone of 8: {counts[True].text(1)} with, {counts[False].text(1)} without decay on values; their median G "
        f"{np.median(gains[True]):.4f} and {np.median(gains[False]):.2f}; largest G of a head left "
        f"{max(gains[True, 'left']):.2f} and {max(gains[False, 'left']):.2f}",
        "in direction: dead heads lose their values, and values grow where they are free; but heads are gone without "
        "decay on values as well",
        float(np.median(gains[True])) < 0.1 * float(np.median(gains[False])) and counts[False].value > 0.0,
    )


def fades(data: LayerData) -> Verdict:
    """Singular values fade under plain descent."""
    heads = descent_heads(data)
    few, many = ([head for head in heads if head.few == kind] for kind in (True, False))
    near = sum(abs(head.measured - head.predicted) < 0.5 for head in few)
    off = {kind: [b - a for head in group for a, b, _ in head.slopes] for kind, group in ((True, few), (False, many))}
    points = np.array([point for head in few for point in head.slopes])
    return Verdict(
        "singular values fade without a break",
        "a direction that is cut fades as exp(−2 (λ − γ) t) and is zero only after infinite time (M9)",
        f"plain descent: faintest value by {_spread([-head.predicted for head in heads])} decades; slopes of log s, in "
        f"units of 2λ and from the pulls, {np.median(points[:, 0]):.2f} in the median of heads that keep few",
        f"few left: by {_spread([-head.measured for head in few])} decades, within half a decade in {near} of "
        f"{len(few)} heads, slopes {np.median(points[:, 1]):.2f}, off by {np.median(off[True]):+.2f} (half within "
        f"{np.median(np.abs(off[True])):.2f}); more left: by {_spread([-head.measured for head in many])} decades, "
        f"slopes off by {np.median(off[False]):+.2f} (half within {np.median(np.abs(off[False])):.2f})",
        "explained for gradient descent in heads that keep few directions; beside strong directions the faint ones are "
        "fed by the noise of the steps",
        near > 0.8 * len(few) and abs(float(np.median(off[True]))) < 0.15,
    )


def adam(data: LayerData) -> Verdict:
    """Adam in its own time."""
    heads = [head for head in adam_courses(data) if head.steps == Run.steps]
    ratios = {
        few: [head.measured / head.predicted for head in heads if (head.predicted > -2.5) == few]
        for few in (True, False)
    }
    far = [head for head in heads if head.predicted <= -2.5]
    powers = mean_of([float(np.mean(run)) for run in rate_powers(data)])
    return Verdict(
        "the same with Adam",
        "time of a head is Σ rate/√v",
        "decades measured = decades predicted; a head that moves by noise alone follows the square of the rate",
        f"ratio {_spread(ratios[True])} for up to 2.5 decades, {_spread(ratios[False])} beyond "
        f"({_spread([-h.predicted for h in far])} predicted, {_spread([-h.measured for h in far])} measured); power of "
        f"the rate {powers.text(1)}",
        "open: no law for Adam beyond about two decades; values of dead heads fall with the schedule of the rate",
        min(ratios[True], default=1.0) > 0.5 and float(np.median(ratios[False])) < 0.8,
    )


def lengths(data: LayerData) -> Verdict:
    """Length of the training with Adam."""
    courses, pulled, left, expected, faded, ranges = adam_courses(data), [], [], [], [], []
    for steps in (Run.steps, LONG):
        heads = [head for head in courses if head.steps == steps]
        few = [head for head in heads if head.few]
        rows = select(data.heads, width=64, penalty=1e-3, steps=steps, seed=0)
        pulled.append(sum(row["pulled"] for row in rows))
        left.append(sum(head.left for head in heads))
        ranges.append(f"{min(head.left for head in heads)} to {max(head.left for head in heads)}")
        expected.append([-head.predicted for head in few])
        faded.append([-head.measured for head in few])
    short = float(np.median(faded[1])) / float(np.median(expected[1]))
    return Verdict(
        "length of the training with Adam",
        "pulls at A = 0 decide which directions are left, the time Σ rate/√v how far the others fade",
        f"of {sum(head.count for head in heads)} directions of a run {pulled[0]:g} left after {Run.steps:,} steps and "
        f"{pulled[1]:g} after {LONG:,}; faintest value of heads that keep few by {_spread(expected[0])} and "
        f"{_spread(expected[1])} decades",
        f"{left[0]} and {left[1]} left, {ranges[0]} and {ranges[1]} in a head; by {_spread(faded[0])} and "
        f"{_spread(faded[1])} decades (one seed; the longer training sees the text {LONG // Run.steps} times)",
        "as many are left, in fewer heads, and fewer than pulled; fading slows down and is not explained: the law of "
        "Adam's time fails further with the length",
        abs(left[1] - left[0]) <= 0.1 * left[0] < 0.1 * min(pulled)
        and len(faded[1]) > len(faded[0])
        and short < 0.8 * float(np.median(faded[0])) / float(np.median(expected[0])),
    )


def adamw(data: LayerData) -> Verdict:
    """AdamW lets no head go."""
    spreads = {
        name: mean_of([float(np.log(max(r["root"] for r in run) / min(r["root"] for r in run))) for run in runs])
        for name, runs in adam_rates(data).items()
    }
    decayed = next(name for name in spreads if name.startswith("AdamW"))
    gone = sum(not row["left"] for row in data.heads if row["decay"])
    lower = factor(spreads["λ = 0.001"])
    return Verdict(
        "AdamW removes no head",
        "its decay acts as λ = decay · √v, and √v of a head that shrinks becomes small",
        "√v much smaller in heads that are gone",
        f"largest over smallest √v of a run: {lower} at λ = 0.001, {factor(spreads[decayed])} for {decayed}, "
        f"{factor(spreads['λ = 0'])} without decay; {gone} of {sum(bool(row['decay']) for row in data.heads)} heads "
        "gone",
        "in direction: its decay becomes weak where a head shrinks",
        gone == 0 and spreads["λ = 0.001"].value > np.log(10.0),
    )


def unasked(data: LayerData) -> Verdict:
    """The first direction is the unasked one."""
    rows = alive(select(data.heads))
    parts, fields, angles = (np.array([row[name] for row in rows]) for name in ("part", "field", "angle"))
    many = int(np.sum(parts > PART))
    return Verdict(
        "most of the logits do not depend on the query",
        "tokens have a mean, and the first direction is the preference for keys that all queries share (D9)",
        "(μ·u₁)²/(u₁'Mu₁) = 1; all of the unasked field in the first direction",
        f"above one half in {many} of {len(rows)} heads left, median {np.median(parts):.2f}; its share of the field "
        f"{np.median(fields):.2f} ({np.quantile(fields, 0.05):.2f} to {np.quantile(fields, 0.95):.2f}, nine tenths); "
        f"squared cosine of u₁ and μ only {np.median(angles):.2f}",
        "explained; the query side is a direction along which tokens have more mean than spread, not the mean token",
        many > 0.9 * len(rows) and float(np.median(fields)) > 0.9,
    )


def strength(data: LayerData) -> Verdict:
    """Strength of the unasked field against λ."""
    texts, ratios = [], {}
    for layer in range(Run.layers):
        for name in ("unasked", "asked"):
            pairs = []
            for size in widths_of(data):
                for seed in sorted({row["seed"] for row in select(data.heads, width=size)}):
                    sides = [
                        only(select(data.heads, width=size, penalty=x, seed=seed), layer=layer) for x in (0.0, 1e-3)
                    ]
                    if all(sides):
                        means = [float(np.mean([row[name] ** 0.5 for row in side])) for side in sides]
                        pairs.append(means[1] / means[0])
            ratios[layer, name] = mean_of(pairs)
        texts.append(f"layer {layer}: unasked {ratios[layer, 'unasked'].text()}, asked {ratios[layer, 'asked'].text()}")
    first, second = ratios[0, "unasked"], ratios[1, "unasked"]
    return Verdict(
        "the unasked part and weight decay",
        "it is learned without noise and is not penalised in the limit of many dimensions (D2)",
        "strength independent of λ",
        f"strength at λ = 0.001 over that at λ = 0, {'; '.join(texts)}",
        "not confirmed: it falls in both layers, nearly as much as the part that depends on the query; less where R is "
        "large (layer 0)",
        second.value < first.value < 1.0 - 2.0 * first.error,
    )


def order(data: LayerData) -> Verdict:
    """Order of learning."""
    usual = {row["run"] for row in select(data.heads, penalty=0.0)}
    rows = [row for row in data.steps if row["run"] in usual]
    shares = {
        step: mean_of([float(np.median([row["share"] for row in run])) for run in by_run(only(rows, step=step))])
        for step in sorted({row["step"] for row in rows})
    }
    early, late = 32, max(shares)
    return Verdict(
        "order of learning",
        "the unasked field needs n ~ d samples, the rest n ~ d² (D4)",
        "unasked share near 1 first, then less",
        f"{shares[early].text()} of the logit variance after {early} steps, {shares[late].text()} after {late:,}",
        "not confirmed: here the share grows with the steps; the first 32 steps already see more than d² tokens",
        shares[early].value < shares[late].value,
    )


def bulk(data: LayerData) -> Verdict:
    """Law of the bulk."""
    rows = [row for row in select(data.heads) if row["slope"] is not None]
    raw, white, slope = (
        mean_of([float(np.median([row[name] for row in run])) for run in by_run(rows)])
        for name in ("raw_distance", "white_distance", "slope")
    )
    worse = sum(row["white_distance"] > row["raw_distance"] for row in rows)
    return Verdict(
        "law of the bulk",
        "noise is white in the map for white tokens, M^½ A C^½ (D7)",
        "whitening lowers the distance to the law; slope of log Aᵢⱼ² on log cᵢcⱼ −1",
        f"distance {raw.text()} for A, {white.text()} whitened, larger for {worse} of {len(rows)} heads; slope "
        f"{slope.text()}",
        "not explained: whitening makes it worse; the heads are not at the minimum along weak directions of the tokens",
        white.value > raw.value and slope.value > 0.0,
    )


def overlaps(data: LayerData) -> Verdict:
    """Overlaps of values."""
    rows = select(data.heads)
    largest = [row["overlap"] for row in rows]
    runs = mean_of([float(np.median([row["overlap"] for row in run])) for run in by_run(rows)])
    return Verdict(
        "do heads decouple?",
        "heads whose values do not overlap are single heads (M1)",
        "one per cent up to |ρ| = 0.2, five at 0.5",
        f"largest |ρ| of a head with another {runs.text()} (median of a run), at most {max(largest):.2f}",
        "they decouple to a few per cent",
        runs.value < 0.5,
    )


def imbalance(data: LayerData) -> Verdict:
    """Imbalance of query and key."""
    heads = descent_heads(data)
    texts = []
    for penalty, rate in sorted({(head.run.penalty, head.run.descent) for head in heads}):
        here = [head for head in heads if (head.run.penalty, head.run.descent) == (penalty, rate)]
        texts.append(
            f"{min(head.imbalance for head in here):+.1f} to {max(head.imbalance for head in here):+.1f} decades at "
            f"rate {rate:g} and λ = {penalty:g}"
        )
    near = sum(abs(head.imbalance - head.predicted) < 0.5 for head in heads)
    return Verdict(
        "imbalance of query and key",
        "it falls as exp(−2λt) under gradient flow (M9.1)",
        f"by {_spread([-head.predicted for head in heads])} decades",
        f"{'; '.join(texts)}; within half a decade in {near} of {len(heads)} heads",
        IMBALANCE_VERDICT,
        near < 0.5 * len(heads),
    )


IMBALANCE_VERDICT = "not at these rates: finite steps feed it at second order in the rate"

VERDICTS: dict[str, Callable[[LayerData], Verdict]] = {
    "scale": scale,
    "width": width,
    "ranks": ranks,
    "condition": condition,
    "vanish": vanish,
    "fades": fades,
    "adam": adam,
    "lengths": lengths,
    "adamw": adamw,
    "unasked": unasked,
    "strength": strength,
    "order": order,
    "bulk": bulk,
    "overlaps": overlaps,
    "imbalance": imbalance,
}


def verdicts(data: LayerData) -> str:
    """Return the table."""
    found = [make(data) for make in VERDICTS.values()]
    lines = [[row.disagreement, row.explanation, row.predicted, row.measured, f"**{row.verdict}**"] for row in found]
    return table(["disagreement", "explanation", "predicted", "measured", "verdict"], lines)
