"""What new users try first: arrays of any kind, defaults, losses of their own, misspelt names, results as tables."""

import copy
import inspect
import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from tests.support.programs import program

import onehead
from onehead import aim, sparse, weights
from onehead.aim.flat_parameters import validate_problem
from onehead.errors import InvalidArgument, OneheadError, TooLarge, WrongCall
from onehead.results import Result, Rows
from onehead.sanitize import did_you_mean
from onehead.validation import checked

TASK, HEAD = aim.Task(), aim.Learner()
SIGNAL, PLAN = sparse.Task(), sparse.Protocol(loss="square", ridge=0.1)
POWER = aim.Task(aim.PowerLaw(1.0, 20))


@pytest.fixture(scope="module")
def curve():
    return aim.curve(TASK, HEAD, [1.0, 0.5])


def refused(match, call, *args, kind=InvalidArgument, **keywords):
    """Assert that a call is refused with a one-line message."""
    with pytest.raises(kind, match=match) as caught:
        call(*args, **keywords)
    assert isinstance(caught.value, OneheadError) and "\n" not in str(caught.value)


# ---- arrays -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series], ids=lambda kind: kind.__name__)
def test_arrays_lists_and_series_are_accepted(kind):
    ratios = kind([0.5, 1.0])
    assert aim.Atoms(ratios).eigenvalues == (0.5, 1.0)
    assert aim.Spikes(ratios, 9).spikes == (0.5, 1.0)
    assert aim.curve(TASK, HEAD, ratios).alpha.tolist() == [0.5, 1.0]
    assert sparse.curve(SIGNAL, PLAN, ratios, model="pooled").alpha.tolist() == [0.5, 1.0]
    assert sparse.map(SIGNAL, PLAN, x=("beta", ratios), y=("ridge", ratios)).test_error.shape == (2, 2)
    assert len(onehead.sweep("sparse.align", {"alpha0": ratios})) == 2
    Q = kind([kind(row) for row in np.eye(3, 5)]) if kind is not pd.Series else pd.DataFrame(np.eye(3, 5))
    assert weights.head_report(Q, Q, fit=False).rank == pytest.approx(0.6)


def test_a_matrix_is_refused_where_a_list_is_expected():
    matrix = np.eye(3)
    refused(r"eigenvalues must be a list .*eigvalsh.*; got an array of shape \(3, 3\)", aim.Atoms, matrix)
    refused(r"eigenvalues .*shape \(2, 2\)", aim.Atoms, [[1.0, 2.0], [3.0, 4.0]])
    for verb, words in ((aim.curve, (TASK, HEAD)), (sparse.curve, (SIGNAL, PLAN))):
        refused(r"alphas must be a list of numbers; got an array of shape \(3, 3\)", verb, *words, matrix)


def test_unusual_weights():
    good = np.random.default_rng(0).standard_normal((8, 64))
    refused("query must be a matrix of real numbers; got complex numbers", weights.head_report, 1j * good, good)
    refused("key must be an array of numbers", weights.head_report, good, "key")
    assert "transposed" in weights.head_report(good.T, good.T, fit=False).certificate.warnings[0]
    assert weights.head_report(0.0 * good, good).status == "empty"
    refused("path must be a file, a folder, or a mapping", weights.survey, None)


# ---- defaults and accuracy ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["phase-diagram", "scaling", "features"])
def test_help_names_the_default_target(command, onehead):
    text = " ".join(onehead("aim", command, "--help").stdout.split())
    assert re.search(r"Spectrum of the target \(S\*\)\. \[default: power-law\]", text)


def test_accuracy_is_met_or_a_warning_says_so():
    usual, rough = (aim.predict(TASK.changed(tokens=3), HEAD, 0.5, **words) for words in ({}, {"accuracy": 0.1}))
    assert rough.certificate.evaluations <= usual.certificate.evaluations
    assert abs(rough.test_error - usual.test_error) <= 0.1 * usual.test_error
    asked = aim.predict(TASK, HEAD, 0.5, accuracy=1e-12)
    assert re.search(r"numerical error of the test error: .* \(wanted: 1e-12\)", asked.certificate.warnings[-1])
    assert not aim.predict(TASK, HEAD, 0.5).certificate.warnings
    for verb, words in (
        (aim.curve, {"alphas": [0.5]}),
        (aim.map, {"x": ("alpha", [0.5]), "y": ("noise", [0.5])}),
        (aim.tune, {"alpha": 0.5}),
    ):
        refused("accuracy must be a number > 0", verb, TASK, HEAD, accuracy=0.0, **words)
    assert aim.curve(TASK, HEAD, [0.5], accuracy=1e-12).test_error[0] == asked.test_error


# ---- losses -------------------------------------------------------------------------------------------------


class Log(sparse.Loss):
    """The logistic loss by hand."""

    def value(self, margin):
        return np.logaddexp(0.0, -margin)

    def derivative(self, margin):
        return -1.0 / (1.0 + np.exp(margin))

    def prox(self, margin, step):
        return sparse.Logistic().prox(margin, step)


class Kinked(sparse.Loss):
    """The hinge by hand."""

    value, derivative, prox = (getattr(sparse.Hinge, name) for name in ("value", "derivative", "prox"))


def test_a_user_defined_loss_of_sparse_is_checked():
    class Slope(Log):
        def derivative(self, margin):
            return -1.0 / (1.0 + np.exp(-margin))

    class Prox(Log):
        def prox(self, margin, step):
            return margin

    class Scalar(Log):
        def value(self, margin):
            return 1.0

    class Half(sparse.Loss):
        def value(self, margin):
            return margin

    good = [sparse.predict(SIGNAL, sparse.Protocol(loss=loss), model="pooled") for loss in (Log, Log(), "logistic")]
    assert good[0].test_error == good[1].test_error == pytest.approx(good[2].test_error, rel=1e-12)
    assert str(sparse.Protocol(loss=Kinked).loss) == "Kinked"  # the name of the class; a kink is allowed
    refused("loss 'Slope' .*a derivative that is not the slope of its value", sparse.Protocol, loss=Slope)
    refused("loss 'Prox' .*a prox that is not where", sparse.Protocol, loss=Prox())
    refused("loss 'Scalar' .*keep the shape", sparse.Protocol, loss=Scalar)
    refused("loss must be a Loss with value, derivative and prox", sparse.Protocol, loss=Half)


class Curved(aim.Loss):
    """A row that numba cannot compile."""

    @staticmethod
    def row(logits, label, gradient, hessian):
        return open("x").read()


def test_a_loss_of_a_head_is_a_class_or_an_instance():
    class Bare(aim.Loss):
        pass

    assert aim.Learner(loss=aim.Squared).loss == aim.Learner(loss=aim.Squared()).loss
    assert Curved.name == "Curved" and Curved().name == "Curved"
    refused("loss must be a Loss with a static method row", aim.Learner, loss=Bare)
    refused("loss 'Curved' must be a row function in the part of Python that numba compiles", aim.predict, TASK,
            HEAD.changed(loss=Curved), 0.5)  # fmt: skip


# ---- names, positional arguments, exceptions --------------------------------------------------------------------


def test_messages_name_the_package_of_a_class():
    refused("task must be a sparse Task, such as .*; got an aim Task", sparse.predict, TASK, PLAN)
    refused("task must be an aim Task, such as .*; got a sparse Task", aim.predict, SIGNAL, HEAD, 0.5)
    refused("learner must be an aim Learner, .*; got a sparse Protocol", aim.curve, TASK, PLAN, [0.5])
    refused("task must be an aim Task, .*; got the class Task itself", aim.predict, aim.Task, HEAD, 0.5)


def test_targets_take_positional_arguments():
    assert aim.MarchenkoPastur(0.3) == aim.MarchenkoPastur(kappa0=0.3)
    assert aim.Product(0.3) == aim.Product(kappa0=0.3)
    assert aim.PowerLaw(1.2, 50) == aim.PowerLaw(gamma=1.2, dim=50)
    assert aim.Spikes([6.0, 3.0], 50) == aim.Spikes(spikes=(6.0, 3.0), dim=50)
    assert aim.Task(aim.Product(0.3), attention="cross").target == aim.Product(0.3)
    refused("Learner takes keyword arguments only; write Learner", aim.Learner, 0.1, kind=WrongCall)
    refused(r"PowerLaw takes at most 2 positional arguments \(gamma, dim\)", aim.PowerLaw, 1.0, 20, 3, kind=WrongCall)
    refused("MarchenkoPastur is given kappa0 twice", aim.MarchenkoPastur, 0.1, kappa0=0.2, kind=WrongCall)


def test_other_mistakes_get_a_one_line_message():
    law = aim.spectrum(aim.predict(TASK, HEAD, 0.5))
    assert law.sample(0, 5).tolist() == law.sample(np.random.default_rng(0), 5).tolist()
    refused("rng must be a seed", law.sample, "x", 5)
    refused("call must be a name such as 'aim.predict', or 'module:function'", onehead.sweep, aim.predict, {})
    refused("call must be a function that can be imported", onehead.sweep, "nowhere_at_all:f", {"x": [1]})
    refused(
        r"noise of an aim Task cannot be set.*changed\(noise=...\)", setattr, TASK, "noise", 0.1, kind=AttributeError
    )
    refused("does not fit into the memory", aim.train, TASK, HEAD, dim=10**6, alpha=0.5, kind=TooLarge)
    refused(r"predict has no argument alfa \(did you mean alpha\?\)", aim.predict, TASK, HEAD, alfa=1.0, kind=TypeError)
    refused("predict takes task, learner, alpha.*missing", aim.predict, TASK, HEAD, kind=TypeError)


def test_every_verb_is_checked():
    """Every verb that takes a task is decorated with `checked`, which turns mistakes into messages."""
    ours = {checked()(len).__code__, validate_problem()(len).__code__}
    for half in (aim, sparse):
        for name in dir(half):
            verb = getattr(half, name)
            if inspect.isfunction(verb) and "task" in inspect.signature(verb).parameters:
                assert verb.__code__ in ours, f"{half.__name__}.{name}"


# ---- misspelt names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("aim predict --alfa 0.5", "--alpha"),
        ("aim curve --alpha 0.5", "--alphas"),
        ("aim pedict", "predict"),
        ("spase", "sparse"),
        ("aim predict --alpha 0.5 --target powerlaw", "power-law"),
        ("aim map --x alfa=0.1,1 --y noise=0.1,0.2", "alpha"),
        ("figures make aim-learning-curv --out x", "aim-learning-curve"),
    ],
)
def test_did_you_mean_on_the_shell(line, meant, onehead):
    done = onehead(*line.split())
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert f"(did you mean {meant}?)" in done.stderr


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: aim.Task(nois=0.1), "noise"),
        (lambda: aim.Learner(param="fatorised"), "factorised"),
        (lambda: onehead.sweep("aim.predikt", {}), "aim.predict"),
        (lambda: onehead.sweep("aim.predict", {"alpah": [0.5]}), "alpha"),
        (lambda: sparse.predict(SIGNAL, PLAN, model="atention"), "attention"),
        (lambda: aim.map(TASK, HEAD, x=("alfa", [1.0]), y=("noise", [0.1])), "alpha"),
        (lambda: aim.predictt, "predict"),
    ],
)
def test_did_you_mean_in_python(call, meant):
    with pytest.raises((InvalidArgument, AttributeError), match=rf"\(did you mean {re.escape(meant)}\?\)"):
        call()


def test_no_suggestion_for_distant_names():
    assert (
        did_you_mean("zebra", ["alpha", "noise"])
        == did_you_mean(3.0, ["alpha"])
        == did_you_mean("alpha", ["alpha"])
        == ""
    )


def test_weight_decay_in_units_of_the_dimension():
    by_d = aim.Learner(weight_decay="1/d")
    assert aim.predict(POWER, by_d, 0.5) == aim.predict(POWER, aim.Learner(weight_decay=0.05), 0.5)
    assert aim.train(TASK, by_d, dim=10, alpha=0.5, seeds=1).learner.weight_decay == 0.1  # of the run
    assert aim.Learner.read(by_d.model_dump_json()) == by_d
    refused("this target has no dimension d; got '1/d'", aim.predict, TASK, by_d, 0.5)
    refused("weight_decay must be a number", aim.Learner, weight_decay="1/2")
    assert aim.curve(POWER, aim.Learner(weight_decay="0+"), [2.0])[0].learner.decay == 0.0


def test_sweeps_of_targets_and_of_equal_values(tmp_path):
    table = onehead.sweep(
        "aim.predict", {"target": [aim.PowerLaw(1.0, 20), aim.MarchenkoPastur(0.3)]}, fixed={"alpha": 0.5}
    )
    assert table.column("test_error")[0] == aim.predict(POWER, HEAD, 0.5).test_error
    refused("alpha must be different values; seeds and repeats", onehead.sweep, "aim.predict", {"alpha": [0.5, 0.5]})
    refused(
        "loss must be .*call='module:function'", onehead.sweep, "aim.predict", {"alpha": [0.5]}, fixed={"loss": Log()}
    )
    spec = tmp_path / "s.toml"
    spec.write_text('call = "aim.predict"\n[fixed]\ntarget = "atoms"\natoms = "values.txt"\n[grid]\nalpha = [0.5]\n')
    done = program("sweep", "check", str(spec))
    assert done.returncode == 2 and "line 4" in done.stderr and "atoms must be a list" in done.stderr


# ---- training and its prediction -------------------------------------------------------------------------


def test_training_includes_its_prediction(onehead):
    assert inspect.signature(aim.train).parameters["seeds"].default == 4  # as on the shell
    assert "nan" not in repr(aim.train(TASK, HEAD, dim=8, alpha=0.5, seeds=1))
    done = onehead("sparse", "train", "--model", "pooled", "--dim", "40", "--trials", "3", "--json").stdout
    assert {"test_error_theory", "test_error_z", "verdict", "test_error_std"} <= set(json.loads(done))


# ---- results as tables -----------------------------------------------------------------------------------------------


def test_a_curve_is_a_list_of_points_with_columns(curve):
    assert curve[0].alpha == 1.0 and curve[-1] is curve.points[1] and len(curve[:1]) == len(curve) - 1 == 1
    assert curve.test_error.tolist() == [point.test_error for point in curve]
    assert curve.test_error_err.tolist() == [point.errors["test_error"] for point in curve]
    assert (curve.weight_decay == 0.01).all()
    with pytest.raises(
        AttributeError, match=r"no attribute 'tset_error' \(did you mean test_error\?\); columns: alpha, "
    ):
        _ = curve.tset_error
    assert not hasattr(curve, "_private") and not hasattr(curve, "nothing")
    again = pickle.loads(pickle.dumps(curve))
    assert again == curve == copy.deepcopy(curve)
    grid = aim.map(TASK, HEAD, x=("alpha", [0.5, 1.0]), y=("noise", [0.1]))
    assert grid.test_error.tolist() == [[cell.test_error for cell in grid]] and grid[0].alpha == 0.5


def results():
    """One result of each kind."""
    point, course = aim.predict(TASK, HEAD, 0.5), np.geomspace(50, 500, 3)
    runs = aim.train(TASK, HEAD, dim=8, alpha=0.5, seeds=2)
    matrix = np.random.default_rng(0).standard_normal((2, 32, 96))
    layer = {
        f"encoder.layer.0.attention.self.{side}.weight": W for side, W in zip(("query", "key"), matrix, strict=True)
    }
    yield from (
        point,
        aim.thresholds(TASK),
        aim.spectrum(point),
        aim.decompose(aim.predict(POWER, HEAD, 0.5)),
        aim.directions(aim.predict(aim.Task(aim.PowerLaw(1.0, 40)), HEAD, 0.5)),
        runs,
        runs.runs[0],
    )
    yield from (aim.plateau(TASK), aim.bayes(TASK, 0.5), aim.bayes_curve(TASK, [0.5]), aim.tune(TASK, HEAD, 0.5))
    yield from (aim.compare(TASK, HEAD, [0.5], dims=(8,), seeds=2), aim.scaling(POWER, HEAD, course))
    yield from (aim.map(TASK, HEAD, x=("alpha", [0.5]), y=("noise", [0.1])), *aim.features(POWER, HEAD, course)[:1])
    yield aim.phase_diagram(POWER, HEAD, log_n=[2.0], log_lambda=[0.0])
    yield from (sparse.align(SIGNAL, PLAN), sparse.predict(SIGNAL, PLAN, model="pooled"), sparse.oracle(SIGNAL))
    yield from (sparse.capacity(SIGNAL, PLAN), sparse.bayes(SIGNAL, 1.0), sparse.train(SIGNAL, PLAN, dim=30, trials=2))
    yield sparse.map(SIGNAL, PLAN, x=("beta", [1.0]), y=("ridge", [0.1]))
    yield onehead.sweep("sparse.align", {"alpha0": [1.0, 2.0]})
    yield from (weights.head_report(*matrix), weights.survey(layer, head_count=3, head_dim=32, fit=False))


def test_every_result_has_repr_table_and_explanation():
    for found in results():
        name = type(found).__name__
        assert isinstance(found, (Result, Rows)), name
        assert "\n" not in repr(found) and len(repr(found)) < 320, (name, repr(found))
        assert found._repr_html_().startswith("<table>"), name
        assert len(found.to_frame()) >= 1, name
        assert len(found.explain()) > 30 and "``" not in found.explain(), name


def test_long_lists_are_abbreviated_in_repr():
    assert repr(aim.Atoms(np.linspace(0.1, 1.0, 100))) == "Atoms(eigenvalues=(0.1, ..., 1.0; 100 numbers))"
    assert len(repr(aim.curve(aim.Task(aim.Atoms(np.linspace(0.1, 1.0, 100))), HEAD, [0.5]))) < 100


def test_cite():
    text = onehead.cite()
    assert text.strip() == program("cite").stdout.strip() == repr(text).strip()
    assert text.count("@") == 3 and text.count("https://arxiv.org/abs/") == 2
