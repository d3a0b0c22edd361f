"""Sparse tokens trained end to end: errors after every step of joint descent, and five ways to train side by side."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from onehead import sparse
from onehead.app.drafts import sparse as draft
from onehead.app.drawing import Figure, add_vertical_mark, figure, format_value, line, points, with_marked_point
from onehead.app.refusals import explain
from onehead.app.server.workers import stop_if_superseded
from onehead.app.state import State
from onehead.app.views.base import (
    BEST_POSSIBLE_MEANING,
    Badge,
    Code,
    Line,
    Number,
    Panel,
    Picture,
    Report,
    badge_from,
    failure_report,
    numbers,
    refusal_picture,
    solving_placeholder,
)
from onehead.app.views.bayes_line import NO_BEST_LINE, best_line
from onehead.app.views.code_snippets import code_snippets
from onehead.errors import OneheadError
from onehead.sparse.solve.descent import STEP_QUANTITIES
from onehead.sparse.task import Protocol, Task

MIN_STEPS = 15  # steps that are drawn, or more if the marked one lies beyond
DRAFT_SECONDS = 0.12
SPLIT, REUSE, EARLY, MINIMUM, ONE_PASS, BEST = (
    "two steps, data split",
    "two steps, all data",
    "joint descent, best step",
    "joint minimum",
    "one-pass SGD",
    "best possible",
)
MARKS = {SPLIT: "square", REUSE: "diamond", EARLY: "circle", MINIMUM: "triangle-up", ONE_PASS: "cross"}
STEP_LINES: tuple[Line, ...] = (
    ("Test error", "", "test_error", "after the marked step"),
    ("Training error", "", "train_error", "mistakes on the samples of the descent"),
    ("Training loss", "", "train_loss", "without the ridges"),
    ("Cosine of the query", "cos", "cos_query", "with the signal"),
    ("Cosine of the readout", "cos", "cos_readout", "with the signal"),
    ("Norm of the query", "|q|", "norm_query", ""),
    ("Norm of the readout", "|w|", "norm_readout", ""),
    ("Bias", "b", "bias", "of the logit"),
)


# --- joint descent, step by step


def _step_count(state: State) -> int:
    return max(MIN_STEPS, int(state["descent_step"]))


@lru_cache(maxsize=32)  # the marked step moves without another solve
def _descent(task: Task, protocol: Protocol, steps: int) -> sparse.Descent:
    return sparse.descend(task, protocol, steps=steps, progress=stop_if_superseded)


@lru_cache(maxsize=32)
def _draft_descent(task: Task, protocol: Protocol, steps: int) -> Any:
    return draft.descent(task, protocol, steps=steps)


def _descent_draft(state: State) -> Picture:
    if _step_count(state) > MIN_STEPS or state.sparse_task.length * MIN_STEPS > 300:
        return solving_placeholder()
    try:
        found = _draft_descent(state.sparse_task, state.protocol, MIN_STEPS)
    except OneheadError as error:
        return refusal_picture(explain(error))
    names = STEP_QUANTITIES
    rows = [
        {"step": k + 1} | dict(zip(names, row.tolist(), strict=True)) for k, row in enumerate(np.asarray(found.means))
    ]
    if not rows:
        return solving_placeholder()
    caption = "Draft with few points; the exact steps follow when the knobs rest."
    return Picture(_draw_steps(state, rows, None), caption, exact=False)


def _descent_picture(state: State) -> Picture:
    try:
        found = _descent(state.sparse_task, state.protocol, _step_count(state))
    except OneheadError as error:
        return refusal_picture(explain(error))
    rows = [step._asdict() for step in found.steps]
    best, missing = _best_error(state.sparse_task, state.protocol.alpha)
    last = found.steps[-1]
    if found.unstable_step is not None:
        caption = f"Unstable from step {found.unstable_step} on: lower the rates."
    elif last.step > found.best_step:
        caption = (
            f"Stop after step {found.best_step}: {found.test_error:.2%} of fresh samples are wrong there, "
            f"{last.test_error:.2%} after step {last.step}."
        )
    else:
        caption = "The test error is lowest at the last step drawn; more steps may lower it further."
    return Picture(_draw_steps(state, rows, best, found.best_step), f"{caption} {missing}".strip(), rows)


def _draw_steps(state: State, rows: list[dict[str, Any]], best: float | None, stop: int | None = None) -> Figure:
    """Draw errors above, and the cosines of query and readout with the signal below, on one axis of steps."""
    x = [float(row["step"]) for row in rows]
    errors, train = ([row[name] for row in rows] for name in ("test_error", "train_error"))
    low = min([e for e in errors if e > 0.0] + ([best] if best else []))
    # a training error that vanishes ends two decades below the others
    shown = [e if e > 0.01 * low else np.nan for e in train]
    data = [
        line(x, errors, "test error", dots=True),
        line(x, shown, "training error", colour="@second", dash="dash"),
    ]
    if best is not None:
        data.append(best_line([x[0], x[-1]], [best, best]))
    below: dict[str, Any] = {"width": 1.8, "yaxis": "y2"}
    data += [
        line(x, [row["cos_query"] for row in rows], "cosine of the query", colour="@third", **below),
        line(x, [row["cos_readout"] for row in rows], "cosine of the readout", colour="@grey", dash="dash", **below),
    ]
    # the query is zero until the second step
    lowest = min([0.5] + [row[name] - 0.05 for row in rows[1:] for name in ("cos_query", "cos_readout")])
    span = [float(np.log10(0.7 * np.nanmin([low, *shown]))), float(np.log10(1.3 * max(errors)))]
    chart = figure(
        data,
        x="steps of joint descent",
        y="error",
        log_y=True,
        xaxis={"range": [0.5, x[-1] + 0.5], "anchor": "y2"},
        yaxis={"domain": [0.4, 1.0], "range": span},
        yaxis2={"domain": [0.0, 0.3], "range": [lowest, 1.03], "title": {"text": "cosine", "standoff": 6}},
    )
    if stop is not None:
        add_vertical_mark(chart["layout"], float(stop), "stop here", log=False)
    return with_marked_point(chart, float(state["descent_step"]), (1.0, x[-1]), by="descent_step")


def _descent_report(state: State) -> Report:
    try:
        found = _descent(state.sparse_task, state.protocol, _step_count(state))
        step = int(state["descent_step"])
        own = found.after(step) if step <= len(found.steps) else found
    except OneheadError as error:
        return failure_report(error)
    best, _ = _best_error(state.sparse_task, state.protocol.alpha)
    rows = numbers(own, *STEP_LINES)
    rows += numbers(
        found,
        ("Stop after step", "", "best_step", "where the test error is lowest"),
        ("Lowest test error", "", lambda result: result.steps[result.best_step - 1].test_error, "after that step"),
    )
    if best is not None:
        rows += (Number("Best possible", "", format_value(best), BEST_POSSIBLE_MEANING),)
    return Report(badge_from(found.certificate), rows)


@lru_cache(maxsize=64)
def _best_error(task: Task, alpha: float) -> tuple[float | None, str]:
    """Return the best possible error, or None and the sentence that says why it is not known."""
    try:
        return sparse.bayes(task, alpha).test_error, ""
    except OneheadError as error:
        return None, NO_BEST_LINE.format(explain(error))


# --- five ways to train, at one sample ratio


class Way(NamedTuple):
    """One way to train: its test error and the cosine of its query, or the reason why there is no answer."""

    name: str
    test_error: float | None
    cos_query: float | None = None
    badge: Badge | None = None


def _staged(state: State) -> Protocol:
    """Return the protocol of two stages, in which the query has no ridge."""
    return state.protocol.changed(ridge_query=0.0)


def _together(state: State) -> Protocol:
    """Return the protocol of joint training, in whose rates beta is absorbed."""
    return state.protocol.changed(beta=1.0)


@lru_cache(maxsize=16)  # picture and numbers ask for the same
def _solved(name: str, task: Task, protocol: Protocol, steps: int) -> Any:
    solve: dict[str, Callable[[], Any]] = {
        SPLIT: lambda: sparse.predict(task, protocol),
        REUSE: lambda: sparse.predict(task, protocol.changed(reuse=True)),
        EARLY: lambda: _descent(task, protocol, steps),
        MINIMUM: lambda: sparse.joint(task, protocol),
        ONE_PASS: lambda: sparse.descend(task, protocol, steps=steps, batch="one-pass").after(steps),
    }
    return solve[name]()


def _ways(state: State) -> Iterator[Way]:
    """Solve the five ways to train one after the other."""
    for name in MARKS:
        stop_if_superseded()
        protocol = _staged(state) if name in (SPLIT, REUSE) else _together(state)
        try:
            found = _solved(name, state.sparse_task, protocol, MIN_STEPS)
        except OneheadError as error:
            yield Way(name, None, badge=Badge("failed", f"{name}: {explain(error)}"))
            continue
        yield Way(name, found.test_error, found.cos_query, badge_from(found.certificate))


def _protocols_draft(state: State) -> Picture:
    if state.sparse_task.length * MIN_STEPS > 300:
        return solving_placeholder()
    task = state.sparse_task
    try:
        split = draft.errors(task, [_staged(state)], "attention", patience=DRAFT_SECONDS)[0]
        steps = _draft_descent(task, _together(state), MIN_STEPS).means
        early = float(np.min(steps[:, STEP_QUANTITIES.index("test_error")]))
    except (OneheadError, ValueError):
        return solving_placeholder()
    found = [Way(SPLIT, split), Way(EARLY, early)]
    caption = "Draft of two of the five; the others follow when the knobs rest."
    return Picture(_draw_ways(found, None), caption, exact=False)


def _protocols_picture(state: State) -> Picture:
    found = list(_ways(state))
    best, missing = _best_error(state.sparse_task, state.protocol.alpha)
    if all(way.test_error is None for way in found):
        return refusal_picture(found[0].badge.text if found[0].badge else "")
    rows: list[dict[str, Any]] = [
        {"protocol": way.name, "test_error": way.test_error, "cos_query": way.cos_query} for way in found
    ]
    rows += [{"protocol": BEST, "test_error": best, "cos_query": None}] if best is not None else []
    left_out = [way.name for way in found if way.test_error is None]
    caption = f"The same α = {format_value(state.protocol.alpha)} for all; number beside a point: cosine of its query."
    caption += f" No answer for {' and '.join(left_out)}." if left_out else ""
    return Picture(_draw_ways(found, best), f"{caption} {missing}".strip(), rows)


def _draw_ways(found: list[Way], best: float | None) -> Figure:
    """Draw one row per way to train, with its test error on a logarithmic axis."""
    data = []
    for way in found:
        if way.test_error is None or not way.test_error > 0.0:
            continue
        colour = "@training" if way.name == EARLY else "@theory"
        trace = points([way.test_error], [0.0], way.name, colour=colour, symbol=MARKS[way.name], size=12)
        trace |= {"y": [way.name], "showlegend": False, "mode": "markers+text", "textposition": "middle right"}
        trace["text"] = [f"  {way.cos_query:.3f}" if way.cos_query is not None else ""]
        trace["hovertemplate"] = f"<b>{way.name}</b><br>test error: %{{x:.5g}}<extra></extra>"
        data.append(trace)
    if best is not None:
        data.append(best_line([best, best], [0.0, 0.0]) | {"y": [ONE_PASS, SPLIT]})
    values = [way.test_error for way in found if way.test_error] + ([best] if best else [])
    ends = [float(np.log10(0.8 * min(values))), float(np.log10(1.6 * max(values)))] if values else [-2.0, 0.0]
    order = list(MARKS)[::-1]
    return figure(
        data,
        x="test error",
        y="",
        log_x=True,
        xaxis={"range": ends},
        yaxis={"type": "category", "categoryorder": "array", "categoryarray": order, "range": [-0.6, len(order) - 0.4]},
    )


def _protocols_report(state: State) -> Report:
    found = list(_ways(state))
    rows = [
        Number(
            way.name[0].upper() + way.name[1:],
            "",
            format_value(way.test_error),
            "no answer" if way.cos_query is None else f"cosine of the query {format_value(way.cos_query)}",
        )
        for way in found
    ]
    best, _ = _best_error(state.sparse_task, state.protocol.alpha)
    if best is not None:
        rows.append(Number("Best possible", "", format_value(best), BEST_POSSIBLE_MEANING))
    badges = [way.badge for way in found if way.badge is not None]
    order = ("converged", "conjecture", "approximate", "failed")
    worst = max(badges, key=lambda badge: order.index(badge.level))
    if worst.level == "failed" and any(way.test_error is not None for way in found):
        notes = tuple(badge.text for badge in badges if badge.level == "failed")
        worst = Badge("approximate", "Some of the five have no answer here.", notes)
    return Report(worst, tuple(rows))


def _protocols_code(state: State) -> Code:
    """Return code for all five: the staged ones with the β of the knob, the joint ones with β = 1."""
    staged = state.changed(ridge_query=0.0)
    together = state.changed(sparse_beta=1.0)
    python = (
        "print(oh.sparse.predict(task, plan).test_error, oh.sparse.predict(task, plan.changed(reuse=True)).test_error)"
        "\n\njoint = plan.changed(beta=1.0, ridge_query={ridge_query!r})\n"
        f"print(oh.sparse.descend(task, joint, steps={MIN_STEPS}).test_error)\n"
        f'print(oh.sparse.descend(task, joint, steps={MIN_STEPS}, batch="one-pass").last_test_error)\n'
        "print(oh.sparse.joint(task, joint).test_error)  # needs both ridges\n"
        "print(oh.sparse.bayes(task, plan.alpha).test_error)"
    ).replace("{ridge_query!r}", repr(state["ridge_query"]))
    one_pass = f"descend --steps {MIN_STEPS} --batch one-pass"
    first = code_snippets("sparse", python, "predict", "predict --reuse")(staged)
    second = code_snippets("sparse", "", f"descend --steps {MIN_STEPS}", "joint", one_pass)(together)
    return Code(first.python, f"{first.shell}\n{second.shell}")


DESCENT = Panel(
    draft=_descent_draft,
    report=_descent_report,
    picture=_descent_picture,
    code=lambda state: code_snippets(
        "sparse",
        f"found = oh.sparse.descend(task, plan, steps={_step_count(state)})\n"
        "print(found.best_step, found.test_error)\n"
        "print(found.after({descent_step}).test_error)",
        f"descend --steps {_step_count(state)}",
    )(state),
)
PROTOCOLS = Panel(
    draft=_protocols_draft,
    report=_protocols_report,
    picture=_protocols_picture,
    code=_protocols_code,
)
