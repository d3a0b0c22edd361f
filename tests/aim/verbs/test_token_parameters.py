"""Every function of the attention-indexed model uses the mean and the covariance of tokens, or refuses them."""

import inspect
import warnings

import numpy as np
import pytest

from onehead import aim
from onehead.aim import Learner, Method, PowerLaw, Task
from onehead.errors import ApproximationWarning, InvalidArgument
from onehead.fields import parameters_of

QUICK = Method(starts=1, test_samples=500, max_iterations=30)
SIZE = {"dim": 8, "alpha": 1.0, "seeds": 1, "method": QUICK}
OF_A_TARGET = {"scaling", "features", "phase_diagram"}  # need a target with a dimension


def calls(task, learner):
    """One number of every function, as a function without arguments."""
    point = lambda: aim.predict(task, learner, 0.8)  # noqa: E731
    return {
        "predict": lambda: point().test_error,
        "curve": lambda: aim.curve(task, learner, [0.8])[0].test_error,
        "map": lambda: float(aim.map(task, learner, x=("alpha", [0.8]), y=("noise", [0.5])).grid("test_error")[0, 0]),
        "tune": lambda: aim.tune(task, learner, 2.0).test_error,
        "thresholds": lambda: [
            getattr(aim.thresholds(task, learner), name) for name in ("emergence", "unasked_emergence")
        ],
        "unasked_curve": lambda: aim.unasked_curve(task, learner, [3.0])[0].unasked_scale,
        "plateau": lambda: aim.plateau(task, learner).test_error,
        "spectrum": lambda: (aim.spectrum(point()).rank, aim.spectrum(point()).unasked_outlier, point().test_error),
        "bayes": lambda: aim.bayes(task, 0.8).test_error,
        "bayes_curve": lambda: aim.bayes_curve(task, [0.8])[0].test_error,
        "data_for": lambda: aim.data_for(task, 0.12),
        "scaling": lambda: aim.scaling(task, learner, [800.0])[0].test_error,
        "features": lambda: aim.features(task, learner, [100.0, 3000.0])[0].samples,
        "phase_diagram": lambda: aim.phase_diagram(task, log_n=[2.0], log_lambda=[-0.3])[0].excess_error,
        "decompose": lambda: aim.decompose(point()).mismatch,
        "directions": lambda: aim.directions(point()).q,
        "training_time": lambda: aim.training_time(point(), 3.0).rank,
        "survivors": lambda: aim.survivors(task, learner, 0.8),
        "train_survivors": lambda: aim.train_survivors(task, learner, 0.8, dim=8),
        "gradient_descent": lambda: aim.gradient_descent(task, learner, dim=8, alpha=1.0, times=[1.0]),
        "amp": lambda: aim.amp(task, learner, dim=10, alpha=0.8, iterations=2).steps[-1].q,
        "nuclear_equivalence": lambda: aim.nuclear_equivalence(task, learner, dim=8, alpha=1.0).difference,
        "train": lambda: aim.train(task, learner, **SIZE).test_error,
        "sample": lambda: float(np.sum(aim.sample(task, dim=8, alpha=0.5, seed=1).clean_labels[..., 0])),
        "compare": lambda: aim.compare(task, learner, [1.0], [8], 1, method=QUICK).to_rows()[0]["test_error"],
    }  # fmt: skip


CHANGES = {
    "unasked": {"unasked": 0.5},
    "token_mean": {"token_mean": 0.3},
    "fluctuation": {"fluctuation": 0.6},
    "token_spectrum": {"token_spectrum": "levels:0.5,0.2"},
    "key_spectrum": {"key_spectrum": "levels:0.5,0.2"},
}
# the mean of the queries has a length at a finite dimension only (D3), or at n ~ d samples (D4)
USE_THE_LENGTH = {"thresholds", "unasked_curve", "spectrum", "train", "amp", "sample", "compare"}
# with infinitely many samples the map is c S*, whose logits have the same variance for any covariance of mean one
UNCHANGED = {("plateau", "token_spectrum"), ("plateau", "key_spectrum")}


def problem_for(verb, name):
    """A head whose answers are quick, with a mean where its length is tested."""
    target = {"target": PowerLaw(gamma=0.75, dim=30)} if verb in OF_A_TARGET else {}
    task = Task(attention="cross", **target)
    if name in ("token_mean", "fluctuation") or verb == "unasked_curve":
        task = task.changed(unasked=0.4)
    if verb == "spectrum" and name.endswith("spectrum"):  # that of a covariance is sampled
        return task.changed(token_spectrum="values:1,0.9,1.1"), Learner(weight_decay=0.3, sampled=2)
    direct = name.endswith("spectrum")  # exact and quick
    return task, Learner(weight_decay=0.3, param="direct" if direct else "factorised", loss="cross-entropy")


def test_the_table_has_every_function_of_a_task():
    functions = {
        name for name in dir(aim) if inspect.isfunction(found := getattr(aim, name))
        and set(inspect.signature(found).parameters) & {"task", "point"}
    }  # fmt: skip
    assert functions == set(calls(*problem_for("predict", "unasked")))


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("verb", sorted(calls(Task(), Learner())))
def test_a_function_uses_a_token_parameter_or_refuses_it(verb, name):
    task, learner = problem_for(verb, name)
    changes = {name: "values:1,0.6,1.4"} if verb == "spectrum" and name.endswith("spectrum") else CHANGES[name]
    changed = task.changed(**changes)
    supported = parameters_of(Task)[name].verbs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        if verb not in supported:
            with pytest.raises(InvalidArgument, match=f"(unasked|{name}) must be .* for {verb}; predict, curve"):
                calls(changed, learner)[verb]()
            return
        before, after = calls(task, learner)[verb](), calls(changed, learner)[verb]()
    used = (name != "token_mean" or verb in USE_THE_LENGTH) and (verb, name) not in UNCHANGED
    assert (before != after) == used, (before, after)


def test_spectra_of_maps_that_are_not_sampled_are_refused():
    """Neither asks for sampled maps, which these heads refuse."""
    task = Task(attention="cross", token_spectrum="subspace:0.5")
    for learner in (Learner(weight_decay=0.3), Learner(weight_decay=0.3, param="direct")):
        with pytest.raises(InvalidArgument, match="token_spectrum must be isotropic for the spectrum of a map"):
            aim.spectrum(aim.predict(task, learner, 0.5))
    with pytest.raises(InvalidArgument, match="sampled must be 0 for a subspace"):
        aim.predict(task, Learner(weight_decay=0.3, sampled=2), 0.5)
