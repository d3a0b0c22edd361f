"""Definition of a sweep: axes, points, keys, sweep files and their mistakes."""

import numpy as np
import pytest
from tests.support.refusals import refusal

from onehead.errors import InvalidArgument
from onehead.sweep import CALLS, Spec
from onehead.sweep.axes import axis_values
from onehead.sweep.errors import BadSpec
from onehead.sweep.estimate import estimate
from onehead.sweep.examples import EXAMPLES, example
from onehead.sweep.solve import Outcome
from onehead.sweep.spec_file import parse_spec, read_spec


def test_ranges_are_read_as_on_the_command_line():
    from onehead.cli.parsing.values import Range

    for text in ("0.05:2:46", "log:1e-3:1:7", "0.5,1,2", "3"):
        assert tuple(axis_values("alpha", text)) == Range().convert(text, None, None)
    assert axis_values("dim", "10:20:4", integer=True) == [10, 13, 17, 20]
    assert axis_values("alpha", np.array([1.0, 2.0])) == [1.0, 2.0]
    assert axis_values("loss", "squared") == ["squared"]
    for bad in ("1:2", "log:0:1:3", "1:2:0", "1:2:x", "a:b:c", "1:2:3:4", []):
        with pytest.raises(InvalidArgument, match="alpha must be"):
            axis_values("alpha", bad)


def test_points_are_every_combination_in_order():
    spec = Spec(
        call="aim.train",
        axes={"noise": [0.1, 0.2], ("alpha", "weight_decay"): [(0.5, 0.01), (1.0, 0.02), (2.0, 0.03)]},
        fixed={"dim": 20},
        seeds=[3, 5],
        repeats=2,
    )
    points = list(spec.points())
    assert len(points) == len(spec) == 2 * 3 * 2 * 2
    assert len({point.key for point in points}) == len(points)
    first = [(p.parameters["noise"], p.parameters["alpha"], p.seed, p.repeat) for p in points[:5]]
    assert first == [(0.1, 0.5, 3, 0), (0.1, 0.5, 3, 1), (0.1, 0.5, 5, 0), (0.1, 0.5, 5, 1), (0.1, 1.0, 3, 0)]
    assert points[4].parameters["weight_decay"] == 0.02


def key(call="aim.predict", **fixed):
    """Key of the only point of a sweep without axes."""
    return next(Spec(call=call, axes={}, fixed=fixed).points()).key


def test_equal_problems_have_one_key():
    assert key(alpha=1) == key(alpha=1.0, noise=0.5) == key(alpha=1.0, kappa0=0.5, tokens=2.0, target="mp")
    assert key(alpha=1.0) != key(alpha=1.0 + 1e-15)
    law = {"target": "power-law", "gamma": 0.75, "dim": 100}
    assert key(**law, samples=2500) == key(**law, alpha=0.25)
    assert key(**law, alpha=0.25, weight_decay="1/d") == key(**law, alpha=0.25, weight_decay=0.01)
    assert key("sparse.predict", alpha=3.0) == key("sparse.predict", alpha0=1.5, alpha1=1.5)
    assert key("sparse.predict") != key("sparse.capacity")


def test_numerical_version_is_part_of_the_key(monkeypatch):
    before = key(alpha=1.0)
    monkeypatch.setattr("onehead.sweep.storage.keys.NUMERICAL", "next")
    assert key(alpha=1.0) != before


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_parameters_of_a_problem_describe_it_again(name):
    call, needed = CALLS[name], {"alpha": 0.5, "dim": 20} if name.startswith("aim") else {"dim": 30}
    if name == "aim.scaling":  # its target has a dimension
        needed["target"] = "power-law"
    elif name == "sparse.tune_joint":
        needed["procedure"] = "reuse"
    elif name in ("aim.predict", "aim.spectrum", "aim.tune", "aim.thresholds", "aim.bayes"):
        del needed["dim"]
    prepared = call.prepare({name: value for name, value in needed.items() if name in call.parameters})
    assert call.prepare(prepared.parameters).parameters == prepared.parameters
    assert set(prepared.parameters) <= set(call.parameters)


ONE = {"alpha": [1.0]}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"axes": ONE, "fixed": {"noise": -1}}, "noise must be a number >= 0 and <= 1000; got -1"),
        ({"axes": ONE, "fixed": {"nose": 1}}, "parameter of aim.predict must be one of "),
        ({"axes": {}}, "alpha must be given"),
        (
            {"call": "aim.train", "axes": {}, "fixed": {"alpha": 1, "dim": 10, "optimiser": "sgd"}},
            "optimiser must be lbfgs, adam or amp; got 'sgd'",
        ),
        ({"axes": ONE, "seeds": 3}, "seeds must be left out: aim.predict uses no random numbers"),
        ({"axes": ONE, "repeats": 3}, "repeats must be left out"),
        (
            {"axes": {"noise": [1.0]}, "fixed": {"noise": 1.0}},
            "axes must be parameters that are not set twice; got 'noise'",
        ),
        (
            {"call": "aim.train", "axes": {}, "seeds": [-1]},
            "seeds must be an integer from 1 to 1000000 or a list of integers from 0 to 2^63 - 1",
        ),
        ({"axes": None}, "axes must be a mapping from names of parameters to values; got None"),
        ({"axes": [("alpha", [1.0])]}, "axes must be a mapping from names of parameters to values; got"),
        ({"axes": {"alpha": [1.0]}, "fixed": 3}, "fixed must be a mapping from names of parameters to values; got 3"),
        ({"axes": {("alpha", "noise"): 3}}, "axes must be given a list with one list of values for each point; got"),
        ({"axes": {("alpha", "noise"): [3]}}, "axes must be given a list with one list of values for each point; got"),
        ({"axes": {"alpha": [b"1"]}}, "alpha must be a number > 0 and <= 1e+06; got b'1'"),
    ],
)
def test_bad_arguments_get_the_message_of_the_library(arguments, sentence):
    assert str(refusal(lambda: list(Spec(**{"call": "aim.predict", **arguments}).points()))).startswith(sentence)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_valid(name):
    spec = parse_spec(example(name))
    assert len(spec) >= 20


MISTAKES = {
    'call = "aim.predict"\n[grid]\nalpha = "0.1:1:5"\nnoise = [0.1, -2]\n': (4, "noise must be a number >= 0"),
    'call = "aim.predict"\n[grid\n': (2, "Expected ']'"),
    'call = "aim.predct"\n': (1, "call must be one of aim.predict"),
    "# nothing\n\n[grid]\nalpha = 1\n": (1, "call must be a name"),
    'call = "aim.predict"\n[fixed]\nalpha = 1\nnose = 2\n': (4, "parameter of aim.predict must be one of"),
    'call = "aim.predict"\n[grid]\nalpha = "1:2"\n': (3, "alpha must be a value, a list"),
    'call = "aim.predict"\n[gird]\nalpha = 1\n': (2, "'gird' is not known"),
    'call = "aim.predict"\nseeds = 4\n[grid]\nalpha = 1\n': (2, "seeds must be left out"),
    'call = "aim.train"\nrepeats = 0\n[fixed]\nalpha = 1\ndim = 9\n': (2, "repeats must be an integer >= 1"),
    'call = "aim.predict"\n\n[zip]\nalpha = [1, 2, 3]\nnoise = [1, 2]\n': (3, "zip must be axes of equal length"),
    'call = "aim.predict"\n[grid]\nalpha = 1\n[slurm]\ncores = "many"\n': (5, "cores must be an integer"),
    'call = "aim.predict"\n[grid]\nalpha = 1\n[run]\nplace = "here"\n': (5, "'place' is not known in [run]"),
    'call = "aim.predict"\nfixed = {noise = -1}\n[grid]\nalpha = 1\n': (2, "noise must be"),
    'call = "aim.predict"\ngrid.alpha = 1\ngrid.noise = -1\n': (3, "noise must be"),
    'call = "aim.predict"\nfixed = 3\n': (2, "fixed must be a table of parameters"),
    "call: aim.predict\ngrid:\n  alpha: [1, 2]\n": (1, "a sweep file is TOML and not YAML or JSON"),
    "# mine\n\n---\ncall: aim.predict\n": (1, "a sweep file is TOML and not YAML or JSON: write call ="),
    '{"call": "aim.predict", "grid": {"alpha": 1}}': (1, "a sweep file is TOML and not YAML or JSON: write"),
    'call = "os:system"\n[fixed]\nx = 1\n': (1, "call must be one of"),
}


@pytest.mark.parametrize("text", MISTAKES, ids=[sentence for _, sentence in MISTAKES.values()])
def test_a_mistake_is_reported_with_its_line(text, tmp_path):
    line, sentence = MISTAKES[text]
    file = tmp_path / "spec.toml"
    file.write_text(text)
    with pytest.raises(BadSpec) as caught:
        read_spec(str(file))
    assert str(caught.value).startswith(f"{file}, line {line}: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_large_sweep_is_checked_by_axis_and_registered_completely_or_not_at_all(tmp_path, monkeypatch):
    from onehead.sweep import Inline, Store, drive

    text = 'call = "sparse.align"\n[grid]\nlength = [4, 9]\nsignal_tokens = [1, 2, 6]\n'
    with pytest.raises(BadSpec, match=r"line 4: signal_tokens must be at most length = 4; got 6"):
        parse_spec(text)
    monkeypatch.setattr("onehead.sweep.spec.MAX_POINTS_CHECKED_FIRST", 5)
    with pytest.raises(BadSpec, match=r"line 4: signal_tokens must be at most length = 4; got 6"):
        parse_spec(text)  # the bad value is combined with the first length
    spec = parse_spec(text.replace("[4, 9]", "[9, 4]"))  # only another combination is wrong
    with Store.writing(tmp_path / "points.db") as store:
        with pytest.raises(BadSpec, match=r"line 4: signal_tokens must be at most length = 4; got 6"):
            drive(spec, store, Inline())
        assert store.latest() == (0, {}) and store.counts().total == 0


def test_a_file_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument) as caught:
        read_spec("none.toml")
    assert str(caught.value) == (
        "Cannot read none.toml: no such file (`onehead sweep example > none.toml` writes one)."
    )
    with pytest.raises(InvalidArgument, match=r"Cannot read .*: it is not a regular file"):
        read_spec(str(tmp_path))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgument, match="it is not text"):
        read_spec(str(tmp_path / "binary.toml"))


@pytest.mark.parametrize(
    ("fixed", "growth", "solved", "dim"),
    [
        ({"alpha": 0.1, "dim": 1000}, 4, [100, 100, 150, 225], 225),  # 7.7 s; the next size would take 26 s
        ({"alpha": 0.1, "dim": 200}, 4, [100, 100, 150, 200], None),  # the first solve also loads kernels
        ({"alpha": 0.1, "dim": 30}, 4, [30, 30], None),
    ],
)
def test_the_time_of_a_large_training_is_extrapolated_from_smaller_ones(monkeypatch, fixed, growth, solved, dim):
    """One training at d = 1,000 takes half an hour, its estimate seconds; the result says from which size it is
    extrapolated.
    """
    tried = []

    def solve(call, point):
        tried.append(point.parameters["dim"])
        return Outcome(point.key, "{}", {}, "converged", None, None, None, 3e-9 * tried[-1] ** growth)

    monkeypatch.setattr("onehead.sweep.estimate.solve_point", solve)
    found = estimate(Spec(call="aim.train", axes={}, fixed=fixed))
    assert (tried, found.tried_dim) == (solved, dim)
    assert found.seconds == pytest.approx(3e-9 * fixed["dim"] ** growth)
    assert found.seconds_on(2) == found.seconds  # a single point runs in one process
