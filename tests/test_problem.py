"""A problem is a document: it reads back equal, wherever it was written; and a word is declared once."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onehead import aim, sparse
from onehead.aim.words import WORDS, problem_from_words, words_from_problem
from onehead.fields import words_of
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
def test_aim_reads_back_equal_from_json_and_from_words(task, learner):
    assert aim.Task.read(task.model_dump_json()) == task
    assert aim.Learner.read(json.loads(learner.model_dump_json())) == learner
    assert problem_from_words(words_from_problem(task, learner)) == (task, learner, {})


@given(task=tasks, learner=learners)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_aim_reads_back_equal_from_a_sweep_file(task, learner, tmp_path):
    """Words as TOML, read by the sweep, made into a problem by its call."""
    words = {**words_from_problem(task, learner), "alpha": 0.5}
    lines = [f"{name} = {json.dumps(value)}" for name, value in words.items()]
    (tmp_path / "sweep.toml").write_text("\n".join(['call = "aim.predict"', "[fixed]", *lines]))
    (point,) = read_spec(tmp_path / "sweep.toml").points()
    assert problem_from_words(point.parameters) == (task, learner, {"alpha": 0.5})


@given(
    st.sampled_from(["logistic", "square", "hinge", "squared-hinge"]), st.one_of(st.just("0+"), st.floats(0.0, 10.0))
)
def test_sparse_reads_back_equal(loss, ridge):
    plan = sparse.Protocol(loss=loss, ridge=ridge)
    assert sparse.Protocol.read(plan.model_dump_json()) == plan
    task = sparse.Task(length=3, positions=(1.0, 2.0, 3.0))
    assert sparse.Task.read(task.model_dump_json()) == task


def test_what_a_result_says_of_its_problem_reads_back_equal():
    task = aim.Task(target=aim.PowerLaw(gamma=1.0, dim=20))
    row = json.loads(aim.predict(task, aim.Learner(), 0.5).to_json())
    assert aim.Task.read(row["task"]) == task
    assert aim.Learner.read(row["learner"]) == aim.Learner()


def test_the_schema_knows_every_target():
    text = json.dumps(aim.Task.model_json_schema())
    assert all(f'"const": "{kind}"' in text for kind in aim.Target.known)
    assert list(aim.Target.known) == ["mp", "product", "power-law", "spikes", "atoms"]


def test_no_penalty_is_the_limit_in_both_halves():
    assert aim.Learner(weight_decay=0) == aim.Learner(weight_decay="0+")
    assert sparse.Protocol(ridge="0+") == sparse.Protocol(ridge=0.0)


def test_every_word_has_a_sentence_and_stands_in_the_docstring_of_its_problem():
    for problem in (
        aim.Task,
        aim.Learner,
        *aim.Target.known.values(),
        aim.Variant,
        aim.Method,
        sparse.Task,
        sparse.Protocol,
    ):
        for name, said in words_of(problem).items():
            if name != "kind":
                assert said.sentence.endswith("."), name
                assert f"    {name} : {said.allowed}" in problem.__doc__
    assert len({said.flat for said in WORDS.values()}) == len(WORDS)
    assert words_of(aim.Learner)["width"].help == "Width of the learner over d (κ); 1 and more leave the rank free."
