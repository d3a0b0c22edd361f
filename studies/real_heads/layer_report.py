"""Tables of the second study on the page "Real heads", as sections of one file, with numbers from `layer_data`."""

from collections.abc import Callable, Sequence

import numpy as np
from checks.tool import table

from studies.real_heads.layer_data import LayerData
from studies.real_heads.layer_fading import adam_courses, adam_rates, descent_heads
from studies.real_heads.layer_statistics import (
    Estimate,
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
from studies.real_heads.runs import Run

__all__ = ["PART", "SECTIONS", "factor", "halves", "layer_report", "ratio", "width_exponent", "widths_of"]

PART = 0.5  # above which a direction is more mean than spread of the tokens
EARLY = 64  # step at which most heads have left their random start and few have more than one direction


def widths_of(data: LayerData) -> list[int]:
    """Return the widths in increasing order."""
    return sorted({row["width"] for row in data.heads})


def halves(data: LayerData) -> dict[int, dict[str, Estimate]]:
    """Return log λ/R at which half of the directions are left, by width, see `half_points`."""
    found = data.theory["halves"]
    return {
        int(width): {name: Estimate(value, np.nan if error is None else error) for name, (value, error) in each.items()}
        for width, each in found.items()
    }


def factor(estimate: Estimate) -> str:
    """Return a logarithm with its standard error as a factor and its range of one standard error."""
    every = np.exp([estimate.value, estimate.value - estimate.error, estimate.value + estimate.error])
    value, low, high = (f"{float(f'{x:.2g}'):g}" for x in every)
    return value if np.isnan(estimate.error) else f"{value} ({low} to {high})"


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """Return the difference of two logarithms; errors that are not known count as zero."""
    return Estimate(a.value - b.value, float(np.hypot(np.nan_to_num(a.error), np.nan_to_num(b.error))))


def width_exponent(found: dict[int, dict[str, Estimate]], name: str) -> Estimate:
    """Return the slope of the half points against log width, by least squares with their errors."""
    x = np.log(list(found))
    y, error = (np.array([getattr(each[name], part) for each in found.values()]) for part in ("value", "error"))
    known = ~np.isnan(error) & (error > 0.0)
    if known.sum() < 2:
        return Estimate(float(np.polyfit(x, y, 1)[0]) if len(x) > 1 else np.nan, np.nan)
    weight = known / np.where(known, error, 1.0) ** 2
    centre = np.sum(weight * x) / weight.sum()
    spread = np.sum(weight * (x - centre) ** 2)
    return Estimate(float(np.sum(weight * (x - centre) * y) / spread), float(spread**-0.5))


def half_table(data: LayerData) -> str:
    """Return the table of the half points."""
    lines = []
    for width, found in halves(data).items():
        rows = penalised(data.heads, width=width)
        lines.append(
            [
                str(width),
                f"{np.median([row['force'] for row in alive(rows)]):.2g}",
                f"{data.theory['curves'][str(width)]['measured']['variance']:.2g}",
                *(factor(found[f"theory own, {name}"]) for name in ("one", "measured")),
                factor(found["own"]),
                *(factor(found[f"theory before, {name}"]) for name in ("one", "measured")),
                factor(found["before"]),
                factor(found["alone"]),
            ]
        )
    names = ["width", "median R", "variance v", "theory, v = 1", "theory, v measured", "heads"]
    names += [f"{name}, R at λ = 0" for name in ("theory, v = 1", "theory, v measured", "heads")]
    return table([*names, "heads, λ alone"], lines, range(10))


def rank_table(data: LayerData) -> str:
    """Return the table of rank correlations between the directions left and what should order the heads."""
    first = at_start(data.heads)
    lines = []
    for penalty in sorted({row["penalty"] for row in penalised(data.heads)}):
        rows = penalised(data.heads, penalty=penalty)
        known = [row | {"before": first[at_place(row)]["force"]} for row in rows if at_place(row) in first]
        cells = [correlation(rows, name, "left").text() for name in ("pulled", "force", "weight", "gain")]
        cells.append(correlation(rows, "gain", "left", within="layer").text())
        cells.append(correlation(known, "before", "left").text())
        shares = [np.mean([row[name] / row["head_dim"] for row in rows]) for name in ("pulled", "left")]
        lines.append([f"{penalty:g}", str(len(by_run(rows))), *(f"{share:.2f}" for share in shares), *cells])
    names = ["λ", "runs", "share pulled at A = 0", "share left", "pulled at A = 0", "R", "tr V'FVC", "G"]
    return table([*names, "G within a layer", "R at λ = 0"], lines, range(10))


def unasked_table(data: LayerData) -> str:
    """Return the table of the first direction of the heads that are left, by width and layer."""
    lines = []
    for width in widths_of(data):
        for layer in range(Run.layers):
            rows = alive(only(select(data.heads, width=width), layer=layer))
            parts, fields, angles = ([row[name] for row in rows] for name in ("part", "field", "angle"))
            lines.append(
                [
                    str(width),
                    str(layer),
                    str(len(rows)),
                    str(sum(part > PART for part in parts)),
                    f"{np.median(parts):.2f} ({min(parts):.2f} to {max(parts):.2f})",
                    f"{np.median(fields):.2f} ({min(fields):.2f} to {max(fields):.2f})",
                    f"{np.median(angles):.2f}",
                ]
            )
    names = ["width", "layer", "heads left", "first direction unasked", "part of the first direction"]
    return table([*names, "share of the unasked field", "u₁ and mean"], lines, (0, 1, 2, 3, 6))


def strength_table(data: LayerData) -> str:
    """Return the table of the strength of both parts of the logits and of R, by λ and layer."""
    lines = []
    for penalty in sorted({row["penalty"] for row in select(data.heads)}):
        cells = []
        for layer in range(Run.layers):
            runs = by_run(only(select(data.heads, penalty=penalty), layer=layer))
            for name in ("unasked", "asked"):
                cells.append(mean_of([float(np.mean([row[name] ** 0.5 for row in run])) for run in runs]).text(1))
            cells.append(mean_of([float(np.mean([row["force"] for row in run])) for run in runs]).text(3))
        lines.append([f"{penalty:g}", *cells])
    names = [f"layer {layer}: {name}" for layer in range(Run.layers) for name in ("unasked", "asked", "R")]
    return table(["λ", *names], lines, range(7))


def order_table(data: LayerData) -> str:
    """Return the table of what heads have learned along the training without decay."""
    usual = {row["run"] for row in select(data.heads, penalty=0.0)}
    rows = [row for row in data.steps if row["run"] in usual]
    lines = []
    for step in sorted({row["step"] for row in rows}):
        here = only(rows, step=step)
        part = mean_of([float(np.mean([row["part"] > PART for row in run])) for run in by_run(here)])
        share = mean_of([float(np.median([row["share"] for row in run])) for run in by_run(here)])
        lines.append([f"{step:,}", share.text(), part.text()])
    return table(["step", "unasked share of the logits", "heads whose first direction is unasked"], lines, range(3))


def value_table(data: LayerData) -> str:
    """Return the table of the gains of heads that are gone and of those that are left, with decay on values or not."""
    lines = []
    for penalty in sorted({row["penalty"] for row in data.heads if row["value_penalty"]}):
        for values in (0.0, penalty):
            rows = select(data.heads, penalty=penalty, value_penalty=values, width=64)
            runs = by_run(rows)
            gone = [row["gain"] for row in rows if not row["left"]]
            left = [row["gain"] for row in alive(rows)]
            lines.append(
                [
                    f"{penalty:g}",
                    "yes" if values else "no",
                    mean_of([float(sum(not row["left"] for row in run)) for run in runs]).text(1),
                    _range(gone),
                    _range(left),
                    f"{np.median([row['overlap'] for row in rows]):.2f}",
                    mean_of([run[0]["held"] for run in runs]).text(3),
                ]
            )
    names = ["λ", "decay on values", "heads gone of 8", "G of heads gone", "G of heads left", "largest ρ"]
    return table([*names, "held out"], lines, (0, 2, 5, 6))


def _range(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{np.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def fading_table(data: LayerData) -> str:
    """Return the table of the heads that were trained by plain gradient descent, and of Adam in its own time."""
    lines = []
    for head in descent_heads(data):
        lines.append(
            [
                f"{head.run.penalty:g}",
                f"{head.run.descent:g}",
                f"{head.layer}.{head.head}",
                f"{head.left} of {head.count}",
                str(len(head.slopes)),
                f"{np.median([a for a, _, _ in head.slopes]):.2f}" if head.slopes else "",
                f"{np.median([b for _, b, _ in head.slopes]):.2f}" if head.slopes else "",
                f"{head.predicted:.1f}",
                f"{head.measured:.1f}",
                f"{head.imbalance:.1f}",
            ]
        )
    names = ["λ", "rate", "head", "left", "fading", "slope, predicted", "slope, measured", "decades predicted"]
    return table([*names, "faintest value", "imbalance"], lines, range(10))


def adam_table(data: LayerData) -> str:
    """Return the table of fading under Adam, head by head, in its own time."""
    lines = [
        [
            f"{row.steps:,}",
            f"{row.layer}.{row.head}",
            f"{row.left} of {row.count}",
            f"{row.root:.1e}",
            f"{row.predicted:.1f}",
            f"{row.measured:.1f}",
            "" if row.rate_power is None else f"{row.rate_power:.1f}",
        ]
        for row in adam_courses(data)
    ]
    names = ["steps", "head", "left", "√v", "decades predicted", "decades measured", "power of the rate"]
    return table(names, lines, range(2, 7))


def root_table(data: LayerData) -> str:
    """Return the table of √v of the strongest and of the weakest head of a run."""
    lines = []
    for name, rows in adam_rates(data).items():
        spread = mean_of([float(np.log(max(r["root"] for r in run) / min(r["root"] for r in run))) for run in rows])
        lines.append([name, str(len(rows)), f"{factor(spread)}"])
    return table(["decay", "runs", "largest √v over the smallest"], lines, (1, 2))


def bulk_table(data: LayerData) -> str:
    """Return the table of the distance of bulks to the law of untied heads, as they are and whitened."""
    lines = []
    for width in widths_of(data):
        rows = [row for row in select(data.heads, width=width) if row["slope"] is not None]
        if not rows:
            continue
        runs = by_run(rows)
        cells = [
            mean_of([float(np.median([row[name] for row in run])) for run in runs]).text()
            for name in ("raw_distance", "white_distance", "slope")
        ]
        worse = sum(row["white_distance"] > row["raw_distance"] for row in rows)
        lines.append([str(width), str(len(rows)), *cells[:2], f"{worse} of {len(rows)}", cells[2]])
    names = ["width", "heads", "KS of A", "KS of the whitened map", "whitened is worse", "slope"]
    return table(names, lines, range(6))


def run_table(data: LayerData) -> str:
    """Return the table of all runs of the second study."""
    lines = []
    for run in by_run(data.heads):
        one = run[0]
        kind = "" if not one["decay"] else f"AdamW {one['decay']:g}"
        kind = kind or (f"λ = {one['penalty']:g}" + (", values too" if one["value_penalty"] else ""))
        kind += ", plain descent" if one["descent"] else ""
        lines.append(
            [
                str(one["width"]),
                str(one["seed"]),
                kind,
                f"{one['steps']:,}",
                f"{one['held']:.3f}",
                f"{np.median([row['left'] for row in run]):g} of {one['head_dim']}",
                str(sum(not row["left"] for row in run)),
                f"{np.median([row['force'] for row in run]):.2g}",
                f"{np.median([row['gain'] for row in run]):.2g}",
                f"{max(row['overlap'] for row in run):.2f}",
            ]
        )
    names = ["width", "seed", "decay", "steps", "held out", "left", "heads gone", "median R", "median G", "largest ρ"]
    return table(names, lines, (0, 1, 3, 4, 6, 7, 8, 9))


def trained(data: LayerData) -> str:
    """Return sentences on what was trained and for how long."""
    runs = by_run(data.heads)
    minutes = sum(run[0]["cpu"] for run in runs) / 60.0
    widths = ", ".join(map(str, widths_of(data)))
    seeds = []
    for width in widths_of(data):
        rows = select(data.heads, width=width)
        counts = {len({row["seed"] for row in only(rows, penalty=x)}) for x in {row["penalty"] for row in rows}}
        seeds.append(f"{' to '.join(map(str, sorted({min(counts), max(counts)})))} at width {width}")
    return (
        f"{len(runs)} runs of widths {widths} with {minutes:.0f} minutes of CPU time, the sum of "
        f"what their processes measured; seeds for each λ: {', '.join(seeds)}. "
        "Errors are standard errors over runs."
    )


SECTIONS: dict[str, Callable[[LayerData], str]] = {
    "trained": trained,
    "halves": half_table,
    "ranks": rank_table,
    "unasked": unasked_table,
    "strength": strength_table,
    "order": order_table,
    "values": value_table,
    "fading": fading_table,
    "adam": adam_table,
    "roots": root_table,
    "bulk": bulk_table,
    "runs": run_table,
}


def layer_report(data: LayerData) -> str:
    """Return all sections, each between the marks by which the page includes it."""
    from studies.real_heads.layer_verdicts import verdicts  # it reads the tables' numbers

    sections = {"verdicts": verdicts, **SECTIONS}
    return "\n\n".join(
        f"<!-- --8<-- [start:{name}] -->\n{make(data)}\n<!-- --8<-- [end:{name}] -->" for name, make in sections.items()
    )
