"""Every parameter in every view: nothing is refused that the library accepts, and nothing accepted that it refuses.

Settings come from the declarations of the knobs. A view is asked for its draft, and the library for the same question
with problems built without the explorer. Both are stopped where they begin to solve, so that a setting takes
milliseconds: the question is accepted if that point is reached. The nightly test solves the drafts.
"""

import itertools
import math
import random
from contextlib import suppress

import pytest

from onehead import aim, sparse
from onehead.aim.targets import MarchenkoPastur, PowerLaw, Product
from onehead.aim.verbs.decompose import check_decomposable
from onehead.aim.verbs.training_time import check_relaxation
from onehead.app.knobs import KNOBS, PROBLEMS
from onehead.app.refusals import explain
from onehead.app.state import read_state
from onehead.app.views import VIEWS
from onehead.errors import InvalidArgument, OneheadError, SolveError

AIM = ("head", "curve", "spectrum", "time", "decay", "map", "scaling")
PANELS = {"scaling": ("excess", "decomposition", "phase"), "sparse": KNOBS["sparse_panel"].parameter.choices}
CASES = [(view, panel) for view in (*AIM, "sparse") for panel in PANELS.get(view, ("",))]
AIM_CASES = CASES[: -len(PANELS["sparse"])]
# where `sparse` begins to solve
SPARSE_SOLVERS = {
    "bayes": "bayes_error",
    "capacity": "separable_ratio_with_error",
    "descend": "solve_trajectory",
    "joint": "find_minima",
    "predict": "solve_readout",
    "reuse": "solve_reused",
}
# questions of the page alone, which the library does not know
OWN_SENTENCES = ("times the left end", "Choose two different parameters")
# parameters that decide which theory covers a head; all their combinations are asked for
KINDS = {
    "attention": KNOBS["attention"].parameter.choices,
    "mask": KNOBS["mask"].parameter.choices,
    "labels": KNOBS["labels"].parameter.choices,
    "loss": KNOBS["loss"].parameter.choices,
    "param": KNOBS["param"].parameter.choices,
    "tokens": (2, 3),
    "kurtosis": (3.0, 5.0),
    "unasked": (0.0, 0.3),
    "aim_heads": (1, 2),
}


class Accepted(BaseException):
    """Raised where solving begins."""


def stop(*_, **__):
    raise Accepted


def values_of(knob):
    """Return legal values of a knob: every choice, both positions, or ends and middle of the slider and the bounds."""
    parameter = knob.parameter
    if parameter.kind == "switch":
        return [True, False]
    if parameter.kind == "choice":
        return list(parameter.choices)
    low, high, _, log = knob.slider
    found = [low, math.sqrt(low * high) if log else 0.5 * (low + high), high]
    bounds = parameter.bounds
    found += [bounds[name] for name in ("ge", "le") if name in bounds]
    least, most = knob.limits
    found = [v for v in found if (least is None or v >= least) and (most is None or v <= most)]
    return sorted({round(v) if parameter.kind == "integer" else float(f"{v:.4g}") for v in found})


def settings(view):
    """Return every knob of a view at every value, the others at their defaults."""
    for name in VIEWS[view].knobs:
        if not name.startswith("train_"):
            yield from ({name: value} for value in values_of(KNOBS[name]))


def problems(view, values):
    """Return task and learner, or task and protocol, of the library; without the explorer's own way to build them."""
    given = {name: values.get(name, knob.default) for name, knob in KNOBS.items()}
    own = {problem: {} for problem in PROBLEMS}
    for name, knob in KNOBS.items():
        own[knob.problem][knob.parameter.name] = given[name]
    if view == "sparse":
        return sparse.Task(**own[sparse.Task]), sparse.Protocol(**own[sparse.Protocol])
    target = PowerLaw(**own[PowerLaw]) if view == "scaling" else MarchenkoPastur(**own[MarchenkoPastur])
    if view != "scaling" and given["attention"] != "tied":
        target = Product(**own[MarchenkoPastur])
    return aim.Task(target=target, **own[aim.Task]), aim.Learner(**own[aim.Learner])


def asked(view, panel, values):
    """Return the state of the page, its sentences for the knobs of the view, and all values, with those adjusted."""
    given = {name: str(int(value) if isinstance(value, bool) else value) for name, value in values.items()}
    panels = {f"{view}_panel": panel} if panel else {}
    state, wrong = read_state({"view": view, **panels, **given})
    own = [sentence for name, sentence in wrong.items() if name in VIEWS[view].knobs]
    return state, own, {**values, **panels, **state.adjusted}


def ask_sparse(panel, task, protocol):
    """Ask the library for the question of a panel of sparse tokens; its protocol is that of the panel."""
    staged, joint = protocol.changed(ridge_query=0.0), protocol.changed(beta=1.0)
    if panel == "alignment":
        sparse.align(task, staged)
    elif panel == "capacity":
        sparse.capacity(task, staged)
    elif panel == "hard-phase":
        sparse.bayes(task, protocol.alpha)
    elif panel == "descent":
        sparse.descend(task, joint)
    else:  # the search of "tuning" and the other ways of "protocols" leave their place in the picture empty
        sparse.predict(task, staged)


def library_refusal(view, panel, values):
    """Return why the library refuses a question; None if it begins to solve it."""
    try:
        task, other = problems(view, values)
        at = values.get("alpha", KNOBS["alpha"].default)
        if view == "sparse":
            ask_sparse(panel, task, other)
        elif view == "scaling":
            if panel == "decomposition":  # of a solved point: what `aim.decompose` refuses before it begins
                check_decomposable(task, other)
            if panel == "phase":
                aim.phase_diagram(task, other)
            else:
                aim.scaling(task, other, [values.get("samples", KNOBS["samples"].default)])
        elif view == "time":
            with suppress(Accepted):
                aim.predict(task, other, at)
            check_relaxation(task, other, values.get("time", KNOBS["time"].default))
        else:
            if view == "head":  # its tokens are sampled
                task.check_verb("sample")
            if view == "decay":  # solves before it predicts
                with suppress(Accepted):
                    aim.tune(task, other, at)
            aim.predict(task, other, at)
    except InvalidArgument as error:
        return str(error)
    except (Accepted, SolveError):  # a question without a solution is not refused
        return None
    return None


def page_refusal(state, own):
    """Return the sentence with which the page refuses a question; None if it draws it or begins to solve it."""
    if own:
        return own[0]
    view = VIEWS[state.view]
    try:
        # a draft of sparse tokens may be left out where it would take too long
        return (view.picture if state.view == "sparse" else view.draft)(state).refusal or None
    except (Accepted, SolveError):
        return None
    except OneheadError as error:
        return explain(error)


def differences(cases):
    """Return the questions that either page or library refuses, but not both."""
    found = []
    for view, panel, values in cases:
        state, own, shown = asked(view, panel, values)
        page, library = page_refusal(state, own), library_refusal(view, panel, shown)
        if page and any(sentence in page for sentence in OWN_SENTENCES):
            continue
        if (page is None) != (library is None):
            found.append((view, panel, shown, page, library))
    return found


@pytest.fixture
def no_solving(monkeypatch):
    """Library and drafts stop where they begin to solve."""
    monkeypatch.setattr("onehead.aim.verbs.predict.numbers_at", stop)
    monkeypatch.setattr("onehead.aim.verbs.tune.vanishing_decay", stop)
    monkeypatch.setattr("onehead.app.drafts.curves.draft_numbers_at", stop)
    for module, name in SPARSE_SOLVERS.items():
        monkeypatch.setattr(f"onehead.sparse.verbs.{module}.{name}", stop)


def single_settings(cases):
    return [(view, panel, values) for view, panel in cases for values in settings(view)]


def kinds_of_heads():
    every = [dict(zip(KINDS, values, strict=True)) for values in itertools.product(*KINDS.values())]
    return [(view, panel, values) for view, panel in AIM_CASES for values in every]


def test_every_parameter_is_refused_by_page_and_library_or_by_none(no_solving):
    cases = single_settings(AIM_CASES)
    assert len(cases) > 400
    assert differences(cases) == []


def test_kinds_of_heads_are_refused_by_page_and_library_or_by_none(no_solving):
    cases = kinds_of_heads()
    assert differences(random.Random(44).sample(cases, len(cases) // 24)) == []


def test_the_best_weight_decay_is_found_for_very_many_samples():
    """The map vanishes beyond the largest weight decay that a learner may have."""
    best = aim.tune(aim.Task(), aim.Learner(), 1e6)
    assert best.test_error == pytest.approx(aim.predict(aim.Task(), aim.Learner(), 1e6).test_error, rel=1e-3)
    state, _ = read_state({"view": "decay", "alpha": "1e6"})
    assert VIEWS["decay"].draft(state).refusal == ""


@pytest.mark.nightly
def test_all_kinds_of_heads_are_refused_by_page_and_library_or_by_none(no_solving):
    assert differences(kinds_of_heads()) == []


def test_every_sparse_parameter_is_refused_by_page_and_library_or_by_none(no_solving):
    cases = [case for case in single_settings(CASES) if case[0] == "sparse"]
    assert len(cases) > 300
    assert differences(cases) == []


def test_every_view_every_panel_and_every_knob_is_asked():
    """Views of problems; a checkpoint has none. Knobs of training runs belong to the button below the picture."""
    assert {view for view, _ in CASES} == set(VIEWS) - {"checkpoint"}
    assert {(view, panel) for view in VIEWS for panel in VIEWS[view].panels} - {("checkpoint", "")} == set(CASES)
    asked_for = {name for view, _ in CASES for values in settings(view) for name in values}
    assert {name for name in KNOBS if not name.startswith("train_")} - set(VIEWS["checkpoint"].knobs) <= asked_for


@pytest.mark.nightly
def test_every_parameter_is_drawn_in_every_view():
    """The whole grid with drafts that are solved: a figure, the note that solving goes on, or a reason."""
    for view, panel, values in single_settings(CASES):
        state, own, _ = asked(view, panel, values)
        if own:
            continue
        with suppress(OneheadError):
            figure = VIEWS[view].draft(state).figure
            assert figure["data"] or figure["layout"]["annotations"], (view, panel, values)
