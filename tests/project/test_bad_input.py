"""Every verb accepts an argument or refuses it with a one-line InvalidArgument, never with another exception."""

import math
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import onehead
from onehead import aim, sparse
from onehead.errors import InvalidArgument

TASK, LEARNER = aim.Task(), aim.Learner()
LISTED = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=20))
CROSS = aim.predict(aim.Task(attention="cross"), aim.Learner(weight_decay=0.1), 1.0)
HEADS, LEARNT = aim.Task(attention="cross", heads=2), aim.Learner(weight_decay=0.1, values="learnt")
SIGNAL, PLAN = sparse.Task(), sparse.Protocol()
BOTH_RIDGES = sparse.Protocol(beta=1.0, ridge=0.3, ridge_query=0.3)
RNG = np.random.default_rng(0)

# none of these is a valid value of any argument below; texts are never a known choice
NOT_FINITE = st.sampled_from([math.nan, math.inf, -math.inf])
NEGATIVE = st.floats(-1e6, -1.5).map(lambda x: x + 0.25 if x == int(x) else x)
TEXTS = st.text(alphabet="xyzé -_0", max_size=5).filter(lambda text: text.strip("0 -_") or not text.strip())
OBJECTS = st.sampled_from([object(), 1j, b"x", {"a": 1}, [1.0, "x"], [None], ("x",), [math.nan]])
INVALID = st.one_of(NOT_FINITE, NEGATIVE, TEXTS, OBJECTS)
INVALID_OR_NONE = st.one_of(INVALID, st.none())

PROBLEMS = {
    "aim.Task": (aim.Task, {}, ("target", "noise", "tokens", "beta0")),
    "aim.Learner": (aim.Learner, {}, ("weight_decay", "width", "param", "beta", "loss", "branch")),
    "aim.MarchenkoPastur": (aim.MarchenkoPastur, {}, ("kappa0",)),
    "aim.PowerLaw": (aim.PowerLaw, {}, ("gamma", "dim")),
    "aim.Spikes": (aim.Spikes, {"spikes": (1.0,), "dim": 9}, ("spikes", "dim")),
    "aim.Atoms": (aim.Atoms, {}, ("eigenvalues",)),
    "aim.Method": (aim.Method, {}, ("optimiser", "tolerance", "max_iterations", "starts")),
    "aim.Variant": (aim.Variant, {}, ("heads", "output")),
    "sparse.Task": (sparse.Task, {}, ("length", "signal_tokens", "strength", "positive_rate")),
    "sparse.Protocol": (sparse.Protocol, {}, ("alpha0", "alpha1", "beta", "eta_w", "eta_b", "loss", "ridge")),
    "sparse.Protocol, query": (sparse.Protocol, {"cos_query": 0.5, "sharpness": 1.0}, ("cos_query", "sharpness")),
}
_AIM = {"task": TASK, "learner": LEARNER}
_LAW = {"task": LISTED, "learner": LEARNER}
_SMALL = {**_AIM, "dim": 8, "alpha": 0.5}
_SPARSE = {"task": SIGNAL, "protocol": PLAN}
# verb -> valid values, each of which is replaced by an invalid one in turn, and names of other arguments
VERBS = {
    "aim.predict": ({**_AIM, "alpha": 0.5}, ()),
    "aim.curve": ({**_AIM, "alphas": [0.5]}, ()),
    "aim.spectrum": ({}, ("point",)),
    "aim.decompose": ({}, ("point",)),
    "aim.directions": ({}, ("point",)),
    "aim.thresholds": ({"task": TASK}, ()),
    "aim.plateau": ({"task": TASK}, ()),
    "aim.tune": ({**_AIM, "alpha": 0.5}, ()),
    "aim.scaling": ({**_LAW, "samples": [100.0]}, ()),
    "aim.unasked_curve": (
        {"task": aim.Task(attention="cross", unasked=0.5), "learner": LEARNER, "samples_per_dim": [2.0]},
        (),
    ),
    "aim.survivors": ({"task": HEADS, "learner": LEARNT, "alpha": 2.0}, ("seed",)),
    "aim.training_time": ({"point": CROSS, "time": 2.0}, ("start", "cut")),
    "aim.train_survivors": ({"task": HEADS, "learner": LEARNT, "alpha": 2.0, "dim": 8}, ("seed",)),
    "aim.gradient_descent": (
        {"task": aim.Task(attention="cross"), "learner": LEARNER, "dim": 8, "alpha": 0.5, "times": [0.1]},
        ("start", "cut", "rate", "seed"),
    ),
    "aim.features": ({**_LAW, "samples": [100.0, 200.0]}, ()),
    "aim.phase_diagram": ({"task": LISTED, "log_n": [2.0], "log_lambda": [0.0]}, ()),
    "aim.nuclear_equivalence": (_SMALL, ("seed", "tolerance", "max_iterations")),
    "aim.train": (_SMALL, ("seeds", "seed", "workers")),
    "aim.sample": ({"task": TASK, "dim": 8, "alpha": 0.5}, ("seed", "run", "part")),
    "aim.amp": (_SMALL, ("iterations", "damping", "seed")),
    "aim.compare": ({**_AIM, "alphas": [0.5], "dims": [8], "seeds": 2}, ("seed",)),
    "aim.bayes": ({"task": TASK, "alpha": 0.5}, ()),
    "aim.bayes_curve": ({"task": TASK, "alphas": [0.5]}, ()),
    "aim.data_for": ({"task": TASK, "learner": LEARNER, "error": 0.1}, ()),
    "aim.map": ({**_AIM, "x": ("alpha", [0.5]), "y": ("noise", [0.1])}, ("of",)),
    "sparse.align": (_SPARSE, ()),
    "sparse.predict": (_SPARSE, ("model",)),
    "sparse.curve": ({**_SPARSE, "alphas": [1.0]}, ("model",)),
    "sparse.capacity": (_SPARSE, ()),
    "sparse.ridgeless": (_SPARSE, ("model",)),
    "sparse.critical_bias_rate": (_SPARSE, ()),
    "sparse.misalignment_constant": (_SPARSE, ()),
    "sparse.tune": (_SPARSE, ()),
    "sparse.finite_size": ({**_SPARSE, "dim": 30}, ("trials", "seed")),
    "sparse.train": ({**_SPARSE, "dim": 30, "trials": 1}, ("seed", "model", "mode")),
    "sparse.compare": ({**_SPARSE, "dims": [30]}, ("trials", "seed", "model")),
    "sparse.separable_share": ({**_SPARSE, "dim": 20, "trials": 1}, ("seed", "model")),
    "sparse.map": ({**_SPARSE, "x": ("beta", [1.0]), "y": ("ridge", [0.1])}, ("of",)),
    "sparse.tune_joint": ({**_SPARSE, "procedure": "reuse"}, ("steps",)),
    "sparse.descend": ({**_SPARSE, "steps": 1}, ("batch", "batch_ratio")),
    "sparse.joint": ({"task": SIGNAL, "protocol": BOTH_RIDGES}, ("log2_points",)),
    "sparse.oracle": ({"task": SIGNAL}, ("activation", "seed")),
    "sparse.bayes": ({"task": SIGNAL, "alpha": 1.0}, ()),
    "sparse.data_for": ({**_SPARSE, "error": 0.1}, ("model",)),
    "sparse.sample": ({**_SPARSE, "dim": 30}, ("seed", "model", "trial")),
    "sparse.amp": (
        {"task": SIGNAL, "alpha": 1.0, "dim": 30, "trials": 1, "iterations": 2},
        ("method", "start", "seed"),
    ),
    "sparse.grow": ({"task": SIGNAL, "lengths": [10], "growth": "sqrt"}, ()),
    "sparse.draw": ({"task": SIGNAL, "rng": RNG, "samples": 3, "dim": 3}, ()),
}
OPTIONAL = {
    "aim.predict": ("near", "accuracy"),
    "aim.curve": ("accuracy",),
    "aim.tune": ("accuracy",),
    "aim.thresholds": ("learner",),
    "aim.data_for": ("dim",),
    "aim.plateau": ("learner",),
    "aim.train": ("variant", "method"),
    "aim.sample": ("variant", "method"),
    "aim.amp": ("first_sigma",),
    "sparse.predict": ("test_length", "accuracy"),
    "sparse.map": ("accuracy",),
    "sparse.tune": ("alpha", "accuracy"),
    "sparse.train": ("test_length",),
    "sparse.data_for": ("dim",),
    "sparse.sample": ("alpha",),
}


def arguments():
    """Every pair of a verb and one of its arguments."""
    for problem, (_, _, names) in PROBLEMS.items():
        yield from ((problem, name) for name in names)
    for verb, (values, others) in VERBS.items():
        yield from ((verb, name) for name in (*values, *others))
    yield from ((verb, name) for verb, names in OPTIONAL.items() for name in names)


@pytest.mark.parametrize(("verb", "name"), list(arguments()))
@given(data=st.data())
@settings(max_examples=8)
def test_invalid_arguments_are_refused_in_one_line(verb, name, data):
    if verb in PROBLEMS:
        function, given_values, _ = PROBLEMS[verb]
    else:
        function, given_values = attrgetter(verb)(onehead), VERBS[verb][0]
    values = INVALID if name in OPTIONAL.get(verb, ()) else INVALID_OR_NONE
    value = data.draw(values)
    assume((verb, name, value) != ("aim.survivors", "alpha", math.inf))  # the population limit
    with pytest.raises(InvalidArgument) as caught:
        function(**{**given_values, name: value})
    assert "\n" not in str(caught.value)


def test_every_verb_is_covered():
    """All functions of aim and sparse, except `softmax`, a compiled helper for losses that checks nothing."""
    functions = {
        f"{prefix}.{name}"
        for prefix, package in (("aim", aim), ("sparse", sparse))
        for name in dir(package)
        if callable(getattr(package, name)) and not isinstance(getattr(package, name), type)
    }
    assert functions - {"aim.softmax"} == set(VERBS)
