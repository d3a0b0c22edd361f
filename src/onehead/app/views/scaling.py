"""Scaling laws: a power-law target at finite dimension; excess error, exponent, where the error comes from, phases."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np

from onehead.aim.solve.sketch import Sketch, sketch_plateau, sketch_ratios
from onehead.app.drawing import Figure, figure, line, marker_line, points, show
from onehead.app.pause import pause
from onehead.app.state import State
from onehead.app.views.base import Code, Number, Picture, Report, View, badge_of, failed
from onehead.errors import OneheadError

__all__ = ["VIEW"]

QUICK, EXACT = 7, 17
PARTS = {
    "underfitting": ("@grey", "directions that weight decay keeps at zero"),
    "approximation": ("@theory", "learned features, wrong in size or direction"),
    "overfitting": ("@training", "noise that was learned"),
    "mismatch": ("@third", "an overall change of size; may be negative"),
}
PHASE_QUICK = ([0.8, 1.4, 2.0, 2.6, 3.2], [-1.5, 0.0, 1.5])
PHASE = ([round(0.8 + 0.2 * i, 1) for i in range(13)], [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])


def _task(state: State) -> Any:
    from onehead.aim import PowerLaw  # noqa: PLC0415

    return state.task.changed(target=PowerLaw(gamma=state["gamma"], dim=state["dim"]))


def _samples(state: State, count: int) -> list[float]:
    """Numbers of samples from d to 3 d^2.8."""
    return [float(f"{n:.5g}") for n in np.geomspace(2.0 * state["dim"], state["dim"] ** 2.9, count)]


def _law(state: State, samples: list[float]) -> Any:
    from onehead import aim  # noqa: PLC0415

    return aim.scaling(_task(state), state.learner, samples, progress=pause)


# --- excess error and its exponent, and where it comes from


def _quick(state: State) -> tuple[list[float], Sketch, list[float]]:
    """Samples, dots and excess errors of the sketch."""
    task, dim = _task(state), state["dim"]
    drawn = sketch_ratios(task, state.learner, [n / dim**2 for n in _samples(state, QUICK)], full=False)
    floor = sketch_plateau(task, state.learner).error
    return [x * dim**2 for x in drawn.x], drawn, [max(e - floor, 1e-9) for e in drawn.column("test_error")]


def _excess_sketch(state: State) -> Picture:
    samples, _, excess = _quick(state)
    slope = np.gradient(np.log(excess), np.log(samples)).tolist() if len(samples) > 2 else []
    drawn = _excess_figure(state, samples, excess, slope, smooth=True)
    return Picture(
        figure=drawn, exact=False, caption="Sketch on a coarse rule; the exact law follows when the knobs rest."
    )


def _excess_figure(state: State, samples: list[float], excess: Any, slope: Any, *, smooth: bool) -> Figure:
    data = [
        line(samples, excess, "excess error", smooth=smooth),
        line(samples, slope, "local exponent", colour="@second", panel="y2", smooth=smooth, showlegend=False),
    ]
    drawn = figure(
        data,
        x="samples n",
        y="excess error",
        log_x=True,
        log_y=True,
        xaxis={"anchor": "y2"},
        yaxis={"domain": [0.42, 1.0]},
        yaxis2={"domain": [0.0, 0.32], "title": {"text": "d log E / d log n", "standoff": 6}},
    )
    _mark(state, drawn, samples)
    return drawn


def _mark(state: State, drawn: Figure, samples: list[float]) -> None:
    if samples and samples[0] <= state["samples"] <= samples[-1]:
        marker_line(drawn["layout"], state["samples"])


def _excess_picture(state: State) -> Picture:
    law = _law(state, _samples(state, EXACT))
    samples = [float(n) for n in law.column("samples")]
    drawn = _excess_figure(state, samples, law.column("excess_error"), law.column("local_exponent"), smooth=False)
    return Picture(figure=drawn, exact=True, caption=_count(law), rows=tuple(_flat(row) for row in law.to_rows()))


def _count(law: Any) -> str:
    lost = len(law.failures)
    return f"{len(law) - lost} exact points" + (f"; {lost} could not be solved and are left out." if lost else ".")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not isinstance(value, (dict, list))}


def _parts_sketch(state: State) -> Picture:
    """The parts of the error (8), with the derivatives of the error taken once, half way, on the coarsest rule."""
    from onehead.aim.equations.state_evolution import reduce  # noqa: PLC0415
    from onehead.aim.verbs.decompose import distance_parts  # noqa: PLC0415

    task = _task(state)
    samples, drawn, _ = _quick(state)
    problem, end = reduce(task, state.learner), sketch_plateau(task, state.learner)
    Q0, table = problem.target_power, []
    for dot in drawn.dots[::2]:  # the laws of these targets are dear: every second point is enough for the eye
        where = dot.map
        q, m = (0.0, 0.0) if dot.state is None else (float(v) for v in np.exp(dot.state[:2]))
        middle = 0.5 * (q + end.c**2 * Q0), 0.5 * (m + end.c * Q0)
        along_q, along_m = _partials(problem, *middle)
        shape = SimpleNamespace(
            spread=where.s,
            rank=dot.rank,
            cut=where.cut,
            thresholded=where.thresholded,
            slope=where.slope / state["beta"],
            threshold=where.eps,
            learner=state.learner,
        )
        under, over, features = distance_parts(problem, shape, end.c)  # type: ignore[arg-type]
        mismatch = (along_m + 2.0 * end.c * along_q) * (m - end.c * Q0)
        table.append((along_q * under, along_q * features, along_q * over, mismatch))
    columns = {name: [row[i] for row in table] for i, name in enumerate(PARTS)}
    return Picture(
        figure=_parts_figure(state, samples[::2], columns, smooth=True), exact=False, caption="Sketch on a coarse rule."
    )


def _partials(problem: Any, q: float, m: float) -> tuple[float, float]:
    """dE/dq and dE/dm by differences on the coarsest rule."""
    step = 1e-2 * max(q - m * m / problem.label_power, 1e-6)
    at = [problem.output.fresh_loss(*p, coarse=True, loss="squared") for p in ((q + step, m), (q, m - step), (q, m))]
    return (at[0] - at[2]) / step, (at[2] - at[1]) / step


def _parts_figure(state: State, samples: list[float], columns: dict[str, Any], *, smooth: bool) -> Figure:
    data = [
        line(
            samples,
            [v if v is not None and v > 0.0 else np.nan for v in columns[name]],
            name,
            colour=colour,
            dash="dot" if name == "mismatch" else "solid",
            smooth=smooth,
        )
        for name, (colour, _) in PARTS.items()
    ]
    total = [sum(columns[name][i] for name in PARTS) for i in range(len(samples))]
    data.append(line(samples, total, "excess error", colour="@ink", width=1.2, dash="dash", smooth=smooth))
    top = max((t for t in total if np.isfinite(t)), default=1.0)
    low = min((t for t in total if np.isfinite(t) and t > 0.0), default=1e-4)
    span = [float(np.log10(0.02 * low)), float(np.log10(2.0 * top))]
    drawn = figure(
        data, x="samples n", y="part of the excess error", log_x=True, log_y=True, yaxis={"dtick": 1, "range": span}
    )
    _mark(state, drawn, samples)
    return drawn


def _parts_picture(state: State) -> Picture:
    law = _law(state, _samples(state, EXACT))
    samples = [float(n) for n in law.column("samples")]
    drawn = _parts_figure(state, samples, {name: law.column(name) for name in PARTS}, smooth=False)
    caption = f"{_count(law)} The split is our definition; negative parts are left out of the logarithm."
    return Picture(figure=drawn, exact=True, caption=caption, rows=tuple(_flat(row) for row in law.to_rows()))


# --- phase diagram


def _phase_sketch(state: State) -> Picture:
    task, dim = _task(state), state["dim"]
    floor = sketch_plateau(task, state.learner).error
    columns, rows = PHASE_QUICK
    ratios = [float(dim) ** (a - 2.0) for a in columns]

    def exponents(row: float) -> list[float | None]:
        head = state.learner.changed(weight_decay=float(dim**row))
        drawn = sketch_ratios(task, head, ratios, full=False, patience=0.045)
        errors = {dot.x: dot.test_error for dot in drawn.dots}
        excess = np.array([max(errors.get(a, np.nan) - floor, 1e-9) for a in ratios])
        slopes = np.gradient(np.log(excess), np.array(columns) * np.log(dim))
        return [float(v) if np.isfinite(v) else None for v in slopes]

    table = list(_pool.map(exponents, rows))
    drawn = _phase_figure(state, columns, rows, table)
    return Picture(figure=drawn, exact=False, caption="Sketch on a coarse rule and a coarse grid.")


_pool = ThreadPoolExecutor(2, thread_name_prefix="sketch")  # kernels release the interpreter lock


def _phase_figure(state: State, columns: list[float], rows: list[float], table: Any) -> Figure:
    heat = {
        "type": "heatmap",
        "x": columns,
        "y": rows,
        "z": table,
        "zmin": -2.0,
        "zmax": 0.0,
        "colorscale": [[0.0, "@theory"], [1.0, "@soft"]],
        "colorbar": {"title": {"text": "exponent"}, "thickness": 12},
        "hovertemplate": "n = d^%{x:.2f}, λ = d^%{y:.2f}: %{z:.3f}<extra></extra>",
    }
    where = [float(np.log(state["samples"]) / np.log(state["dim"]))]
    decay = state.learner.decay
    data = [heat]
    if decay > 0.0:
        at = float(np.log(decay) / np.log(state["dim"]))
        data.append(points(where, [at], "the knobs", symbol="cross", size=11))
    drawn = figure(data, x="samples, log n / log d", y="weight decay, log λ / log d")
    step_x, step_y = (columns[1] - columns[0]) / 2, (rows[1] - rows[0]) / 2
    drawn["layout"]["xaxis"]["range"] = [columns[0] - step_x, columns[-1] + step_x]
    drawn["layout"]["yaxis"]["range"] = [rows[0] - step_y, rows[-1] + step_y]
    return drawn


def _phase_picture(state: State) -> Picture:
    from onehead import aim  # noqa: PLC0415

    columns, rows = PHASE
    found = aim.phase_diagram(_task(state), state.learner, log_n=columns, log_lambda=rows, progress=pause)
    table = [[None if not np.isfinite(v) else float(v) for v in row] for row in found.grid("local_exponent")]
    lost = len(found.failures)
    caption = f"{len(found) - lost} exact cells" + (f"; {lost} could not be solved." if lost else ".")
    drawn = _phase_figure(state, columns, rows, table)
    return Picture(figure=drawn, exact=True, caption=caption, rows=tuple(_flat(row) for row in found.to_rows()))


# --- numbers and code


def report(state: State) -> Report:
    """The exact numbers at the marked number of samples."""
    try:
        point = _law(state, [state["samples"]]).points[0]
    except OneheadError as error:
        return failed(error)
    if not hasattr(point, "certificate"):
        return failed(OneheadError(point.reason))
    numbers = (
        Number("Excess error", "", show(point.excess_error), "above infinitely many samples"),
        Number("Test error", "", show(point.test_error), "on fresh samples"),
        Number("Local exponent", "", show(point.local_exponent), "d log excess / d log n"),
        *(
            Number(name[:1].upper() + name[1:], "", show(getattr(point, name)), text)
            for name, (_, text) in PARTS.items()
        ),
        Number("Outliers", "", show(point.outliers), "features that have left the noise"),
        Number("Rank", "", show(point.rank), "share of eigenvalues that are not zero"),
        Number("Sample ratio", "α", show(point.alpha), "n/d²"),
    )
    return Report(badge=badge_of(point.certificate), numbers=numbers)


def code(state: State) -> Code:
    """The law, without the explorer."""
    samples = _samples(state, EXACT)
    learner = ", ".join(
        f"{name}={state[name]!r}"
        for name in ("weight_decay", "width", "param", "beta", "loss")
        if name == "weight_decay"
        or state[name] != {"width": 1.0, "param": "factorised", "beta": 1.0, "loss": "squared"}[name]
    )
    python = (
        "import onehead as oh\n\n"
        f"target = oh.aim.PowerLaw(gamma={state['gamma']!r}, dim={state['dim']})\n"
        f"task = oh.aim.Task(target=target, noise={state['noise']!r}, tokens={state['tokens']}, beta0={state['beta0']!r})\n"
        f"head = oh.aim.Learner({learner})\n\n"
        f"point = oh.aim.scaling(task, head, [{state['samples']!r}]).points[0]\n"
        "print(point.excess_error, point.local_exponent)\n"
    )
    flags = (
        f"--gamma {state['gamma']!r} --dim {state['dim']} --noise {state['noise']!r} --tokens {state['tokens']} "
        f"--beta {state['beta']!r} --beta0 {state['beta0']!r} --weight-decay {state['weight_decay']} "
        f"--width {state['width']!r} --param {state['param']} --loss {state['loss']}"
    )
    if state["scaling_panel"] == "phase":
        columns, rows = PHASE
        python += f"\ndiagram = oh.aim.phase_diagram(task, head, log_n={columns}, log_lambda={rows})\n"
        return Code(python, f"onehead aim phase-diagram {flags} --json")
    python += f"\nlaw = oh.aim.scaling(task, head, {samples})\nprint(law.column('excess_error'))\n"
    shell = (
        f"onehead aim scaling {flags} --samples {state['samples']!r} --json\n"
        f"onehead aim scaling {flags} --samples {','.join(repr(n) for n in samples)} --json"
    )
    return Code(python, shell)


PANELS = {
    "excess": (_excess_sketch, _excess_picture),
    "decomposition": (_parts_sketch, _parts_picture),
    "phase": (_phase_sketch, _phase_picture),
}

VIEW = View(
    name="scaling",
    title="Scaling laws",
    about="A target whose eigenvalues fall as a power law: how fast the error falls, and what it is made of.",
    formula=r"\lambda_i(S^\star)\propto i^{-\gamma},\quad i=1..d,\qquad E-E_\infty\sim n^{-\text{exponent}}",
    knobs=(
        "scaling_panel",
        "samples",
        "gamma",
        "dim",
        "weight_decay",
        "noise",
        "tokens",
        "width",
        "beta",
        "beta0",
        "loss",
        "param",
    ),
    sketch=lambda state: PANELS[state["scaling_panel"]][0](state),
    report=report,
    picture=lambda state: PANELS[state["scaling_panel"]][1](state),
    code=code,
)
