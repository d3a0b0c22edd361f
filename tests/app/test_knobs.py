"""Knobs follow the declarations: problems survive the address, new parameters appear, old links open."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.programs import python

from onehead import aim, sparse
from onehead.app import VIEWS, read_state
from onehead.app.knobs import KNOBS, Page, Training
from onehead.fields import parameters_of


def values(knob):
    """Strategy for the values of a knob: what the library allows, within the limits of the explorer."""
    parameter = knob.parameter
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    least, most = knob.limits
    bounds = parameter.bounds
    low = max((b for b in (least, bounds.get("ge"), bounds.get("gt")) if b is not None), default=-1e6)
    high = min((b for b in (most, bounds.get("le"), bounds.get("lt")) if b is not None), default=1e6)
    if parameter.kind == "integer":
        return st.integers(int(low), int(high))
    numbers = st.floats(low, high, exclude_min="gt" in bounds, exclude_max="lt" in bounds)
    return numbers | st.just("0+") if parameter.limit else numbers


def problems(problem, **more):
    """Strategy for the arguments of a problem that knobs can set."""
    own = [knob for knob in KNOBS.values() if knob.problem is problem]
    return st.fixed_dictionaries({knob.parameter.name: values(knob) for knob in own} | more)


def allowed_sparse_tasks():
    arguments = problems(sparse.Task)
    return arguments.map(lambda a: sparse.Task(**a | {"signal_tokens": 1 + (a["signal_tokens"] - 1) % a["length"]}))


def heads():
    """Strategy for the arguments of any task.

    A strict mask needs three tokens, some heads take at most sixteen, and a kurtosis other than 3 is supported for tied
    heads of two tokens and for cross-attention.
    """

    def fitting(arguments):
        plain = (arguments["attention"], arguments["mask"], arguments["labels"]) == ("tied", "none", "soft")
        if plain and arguments["tokens"] % 2:
            return arguments | {"tokens": 2}
        kurtosis = {} if arguments["attention"] == "cross" else {"kurtosis": 3.0}
        return arguments | {"tokens": 3 + arguments["tokens"] % 14} | kurtosis

    return problems(aim.Task).map(fitting)


def address(view, *problems):
    """The query of the page that shows some problems."""
    dumped = {type(problem): problem.model_dump() for problem in problems}
    return {"view": view} | {
        name: str(dumped[knob.problem][knob.parameter.name]) for name, knob in KNOBS.items() if knob.problem in dumped
    }


def reopened(raw):
    """The state of an address, after a round trip through its own address."""
    state, wrong = read_state(raw)
    assert wrong == {}
    again, wrong = read_state(dict(parse_qsl(state.query())))
    assert wrong == {}
    assert again == state
    return again


@given(
    st.sampled_from(["curve", "spectrum", "decay"]),
    problems(aim.MarchenkoPastur).map(lambda a: aim.MarchenkoPastur(**a)),
    heads(),
    problems(aim.Learner).map(lambda a: aim.Learner(**a)),
)
def test_task_and_learner_survive_the_address(view, target, arguments, learner):
    untied = arguments["attention"] != "tied"
    if arguments["labels"] == "hard":
        learner = learner.changed(loss="cross-entropy")
    task = aim.Task(target=aim.Product(kappa0=target.kappa0) if untied else target, **arguments)
    state = reopened(address(view, target, task, learner))
    assert (state.task, state.learner) == (task, learner)


@given(problems(aim.PowerLaw).map(lambda a: aim.PowerLaw(**a)), heads())
def test_a_power_law_survives_the_address(target, arguments):
    task = aim.Task(target=target, **arguments)
    assert reopened(address("scaling", target, task)).task == task


@given(allowed_sparse_tasks(), problems(sparse.Protocol).map(lambda a: sparse.Protocol(**a)))
def test_sparse_task_and_protocol_survive_the_address(task, protocol):
    state = reopened(address("sparse", task, protocol))
    assert (state.sparse_task, state.protocol) == (task, protocol)


LINK = (  # written by version 1.1.0, with every knob moved
    "alpha=0.7&alpha_from=0.05&alpha_to=2.0&direct=0&best=1&kappa0=0.3&noise=0.2&tokens=3&beta0=2.0&weight_decay=0%2B&width=0.5&beta=1.5&loss=cross-entropy&param=direct&branch=global&scaling_panel=phase&gamma=1.1&dim=60&samples=20000.0&sparse_panel=tuning&length=12&signal_tokens=2&strength=4.5&positive_rate=0.3&alpha0=2.0&alpha1=3.0&sparse_beta=6.0&ridge=0.0&eta_w=0.7&eta_b=0.2&eta_q=-1.0&sparse_loss=hinge&layer=3&head=2&heads=12&train_dim=40&train_points=3&train_seeds=2"
)


@pytest.mark.parametrize("view", VIEWS)
def test_a_link_of_an_older_version_opens(view):
    raw = dict(parse_qsl(LINK))
    state, wrong = read_state({"view": view} | raw)
    assert wrong == {}
    added_later = {
        "attention": "tied",
        "mask": "none",
        "labels": "soft",
        "kurtosis": "3.0",
        "unasked": "0.0",
        "details": "0",
        "map_x": "alpha",
        "map_y": "weight_decay",
        "map_of": "test_error",
        "descent_step": "9",
        "ridge_query": "0.0",
    }
    found = dict(parse_qsl(state.query()))
    if view != "curve":
        raw.pop("direct")  # the link has what is now the default, which the address of other views leaves out
    assert {name: value for name, value in found.items() if name not in added_later} == {"view": view} | raw
    assert all(found.get(name, value) == value for name, value in added_later.items())
    assert state.task.target == (
        aim.PowerLaw(gamma=1.1, dim=60) if view == "scaling" else aim.MarchenkoPastur(kappa0=0.3)
    )
    assert (state.learner.decay, state.protocol.loss.name, state.protocol.beta) == (0.0, "hinge", 6.0)


def test_the_limit_of_no_penalty_may_be_typed_as_0_or_0_plus():
    for typed in ("0", "0+", " 0+ "):
        state, wrong = read_state({"weight_decay": typed, "ridge": typed})
        assert wrong == {}
        assert (state["weight_decay"], state["ridge"]) == ("0+", 0.0)


def test_a_weight_decay_may_be_given_by_the_dimension_of_the_target():
    state, wrong = read_state({"view": "scaling", "weight_decay": "1/d", "dim": "50"})
    assert (wrong, state["weight_decay"], state.adjusted) == ({}, 0.02, {"weight_decay": 0.02})
    state, wrong = read_state({"view": "scaling", "weight_decay": "sqrt(d)"})
    assert (wrong, state["weight_decay"]) == ({}, 10.0)
    for view, typed, dim in (("curve", "1/d", "50"), ("scaling", "1/d", "x"), ("scaling", "3/d", "50")):
        state, wrong = read_state({"view": view, "weight_decay": typed, "dim": dim})
        assert wrong["weight_decay"].startswith("Weight decay λ must be a number") and state["weight_decay"] == 0.01


def test_knobs_match_the_declarations():
    for problem in (
        aim.MarchenkoPastur,
        aim.PowerLaw,
        aim.Task,
        aim.Learner,
        sparse.Task,
        sparse.Protocol,
        Page,
        Training,
    ):
        own = {knob.parameter.name: knob.parameter for knob in KNOBS.values() if knob.problem is problem}
        declared = parameters_of(problem)
        assert own == {name: declared[name] for name in own}
        with_slider = {name: parameter.slider for name, parameter in declared.items() if parameter.slider}
        assert set(with_slider) <= set(own)
        assert all(slider.low < slider.high for slider in with_slider.values())


NEW_PARAMETERS = """
from onehead.aim import task
from onehead.fields import Slider, parameter

class Learner(task.Learner):
    __module__ = "onehead.aim.task"
    pull: float = parameter(0.25, "p", "Pull to the left.", ge=0.0, le=2.0, slider=Slider(0.0, 1.0))
    spin: str = parameter("up", "↕", "Spin.", choices=("up", "down"))

task.Learner = Learner
from onehead.app import VIEWS, read_state
from onehead.app.knobs import KNOBS
from onehead.app.page import index_page
from onehead.app.server.training_jobs import training_sweep

assert (KNOBS["pull"].group, KNOBS["spin"].group) == ("learner", "learner")
assert 'id="slide-pull"' in index_page() and "Pull to the left." in index_page()
for view in ("curve", "spectrum", "decay", "scaling"):
    state, wrong = read_state({"view": view, "pull": "0.75", "spin": "down"})
    assert wrong == {} and (state.learner.pull, state.learner.spin) == (0.75, "down")
    assert "pull=0.75" in state.query() and "spin=down" in state.query()
    code = VIEWS[view].code(state)
    assert "pull=0.75, spin='down'" in code.python, code.python
    assert "--pull 0.75 --spin down" in code.shell, code.shell
assert training_sweep(state)[1]["pull"] == 0.75
assert read_state({"pull": "3"})[1] == {"pull": "Pull p must be at least 0 and at most 2 (you entered 3)."}
assert "pull" not in VIEWS["sparse"].knobs
"""


def test_a_new_parameter_of_the_learner_appears_on_the_page_without_a_change_in_app():
    python(NEW_PARAMETERS)


def test_reading_a_state_loads_no_compiled_code():
    python(
        "import sys\nfrom onehead.app import VIEWS, read_state\nfor view in VIEWS:\n"
        "    state, _ = read_state({'view': view})\n    state.query(), state.task, state.learner, state.protocol\n"
        "    VIEWS[view].code(state)\nassert not {'numba', 'dash', 'plotly'} & set(sys.modules)"
    )
    python(
        "import sys\nfrom onehead.cli.main import cli\n"
        "try:\n    cli(['app', '--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "assert not {'numba', 'onehead.app'} & set(sys.modules)"
    )
