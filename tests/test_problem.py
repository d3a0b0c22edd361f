"""Problems survive serialisation, and every parameter is declared once, with a description."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onehead import aim, sparse
from onehead.aim.flat_parameters import PARAMETERS, parameters_from_problem, problem_from_parameters
from onehead.errors import InvalidArgument
from onehead.fields import parameters_of
from onehead.sweep import read_spec

eigenvalues = st.lists(st.floats(0.1, 5.0), min_size=1, max_size=5)
targets = st.one_of(
    st.builds(aim.MarchenkoPastur, kappa0=st.floats(0.01, 10.0)),
    st.builds(aim.PowerLaw, gamma=st.floats(0.0, 3.0), dim=st.integers(2, 500)),
    st.builds(aim.Spikes, spikes=eigenvalues, dim=st.integers(10, 100)),
    st.builds(aim.Atoms, eigenvalues=eigenvalues),
)
tasks = st.builds(
    aim.Task, target=targets, noise=st.floats(0.0, 10.0), tokens=st.integers(2, 16), beta0=st.floats(0.1, 9.0)
)
learners = st.builds(
    aim.Learner,
    weight_decay=st.one_of(st.just("0+"), st.floats(1e-6, 1e3)),
    param=st.sampled_from(["factorised", "direct"]),
    loss=st.sampled_from(["squared", "cross-entropy"]),
)


@given(tasks, learners)
def test_aim_problems_read_back_equal_from_json_and_from_flat_parameters(task, learner):
    assert aim.Task.read(task.model_dump_json()) == task
    assert aim.Learner.read(json.loads(learner.model_dump_json())) == learner
    assert problem_from_parameters(parameters_from_problem(task, learner)) == (task, learner, {})


@given(task=tasks, learner=learners)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_aim_problems_read_back_equal_from_a_sweep_file(task, learner, tmp_path):
    """Parameters are written as TOML, read by the sweep, and converted to a problem by its call."""
    parameters = {**parameters_from_problem(task, learner), "alpha": 0.5}
    # TOML has no null: a parameter that follows from another one is left out
    lines = [f"{name} = {json.dumps(value)}" for name, value in parameters.items() if value is not None]
    (tmp_path / "sweep.toml").write_text("\n".join(['call = "aim.predict"', "[fixed]", *lines]))
    (point,) = read_spec(tmp_path / "sweep.toml").points()
    assert problem_from_parameters(point.parameters) == (task, learner, {"alpha": 0.5})


@given(
    st.sampled_from(["logistic", "square", "hinge", "squared-hinge"]), st.one_of(st.just("0+"), st.floats(0.0, 10.0))
)
def test_sparse_problems_read_back_equal(loss, ridge):
    plan = sparse.Protocol(loss=loss, ridge=ridge)
    assert sparse.Protocol.read(plan.model_dump_json()) == plan
    task = sparse.Task(length=3, positions=(1.0, 2.0, 3.0))
    assert sparse.Task.read(task.model_dump_json()) == task


def test_text_that_cannot_be_read_is_refused_in_one_sentence():
    for text in ("[" * 100_000, b"\xff", "{", '{"a":' * 100_000):
        with pytest.raises(InvalidArgument, match="document of Task must be JSON"):
            aim.Task.read(text)


@pytest.mark.parametrize("number", [b"1", bytearray(b"1")])
def test_bytes_are_not_numbers(number):
    for call in (
        lambda: aim.Task(noise=number),
        lambda: aim.predict(aim.Task(), aim.Learner(), number),
        lambda: aim.Atoms(eigenvalues=[number]),
        lambda: sparse.Task(length=number),
    ):
        with pytest.raises(InvalidArgument, match=r"must be .*; got "):
            call()


def test_the_problem_in_a_result_reads_back_equal():
    task = aim.Task(target=aim.PowerLaw(gamma=1.0, dim=20))
    row = json.loads(aim.predict(task, aim.Learner(), 0.5).to_json())
    assert aim.Task.read(row["task"]) == task
    assert aim.Learner.read(row["learner"]) == aim.Learner()


def test_the_json_schema_contains_every_target():
    text = json.dumps(aim.Task.model_json_schema())
    assert all(f'"const": "{kind}"' in text for kind in aim.Target.known)
    assert list(aim.Target.known) == ["mp", "product", "power-law", "spikes", "atoms"]


def test_zero_penalty_is_the_limit_in_both_theories():
    assert aim.Learner(weight_decay=0) == aim.Learner(weight_decay="0+")
    assert sparse.Protocol(ridge="0+") == sparse.Protocol(ridge=0.0)


def test_every_parameter_has_a_description_and_is_in_the_docstring_of_its_problem():
    for problem in (
        aim.Task,
        aim.Learner,
        *aim.Target.known.values(),
        aim.Variant,
        aim.Method,
        sparse.Task,
        sparse.Protocol,
    ):
        for name, parameter in parameters_of(problem).items():
            if name != "kind":
                assert parameter.sentence.endswith("."), name
                assert f"    {name} : {parameter.allowed}" in problem.__doc__
    assert len({parameter.flat for parameter in PARAMETERS.values()}) == len(PARAMETERS)
    assert (
        parameters_of(aim.Learner)["width"].help
        == "Width of the learner divided by d (κ); from 1 on the rank is not limited."
    )
