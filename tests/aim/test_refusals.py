"""Wrong arguments of the attention-indexed model: each is refused in one sentence that says what is allowed."""

from functools import partial

import numpy as np
import pytest
from tests.support.problems import mp
from tests.support.refusals import refusal

from onehead import aim
from onehead.aim import Atoms, Learner, Method, PowerLaw, Product, Spikes, Task, Variant
from onehead.aim.flat_parameters import problem_from_parameters
from onehead.aim.training.data import Tokens, check_target_map
from onehead.errors import OutsideDomain, WrongCall

POWER = Task(target=PowerLaw(gamma=0.75, dim=200))
CROSS_ENTROPY = Learner(loss="cross-entropy")
PRODUCT = "target must be symmetric for a tied head; a product needs attention self or cross; got Product(kappa0=0.5)."
EIGENVALUES = "eigenvalues must be a list of 1 to 20000 finite numbers of root mean square 1e-06 to 100"


def train_small(learner=None, **arguments):
    aim.train(Task(), learner or Learner(), **{"dim": 20, "alpha": 1.0, "method": Method(starts=1), **arguments})


def amp_small(learner=None, **arguments):
    aim.amp(Task(), learner or Learner(), **{"dim": 20, "alpha": 1.0, **arguments})


def from_parameters(**parameters):
    return partial(problem_from_parameters, parameters)


# the call, and its message, or the beginning of it
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        *((partial(aim.predict, Task(), Learner(), alpha), "alpha must be a number > 0")
          for alpha in (0.0, -1.0, float("nan"), float("inf"), "many", None)),
        (partial(mp, 0.0), "kappa0 must"),
        (partial(mp, -1.0), "kappa0 must"),
        (partial(Task, target="mp"), "target must"),
        (partial(Task, noise=-0.1), "noise must"),
        (partial(Task, noise=float("nan")), "noise must"),
        (partial(Task, tokens=1), "tokens must"),
        (partial(Task, tokens=65), "tokens must"),
        (partial(Task, tokens=2.5), "tokens must"),
        (partial(Task, beta0=0.0), "beta0 must"),
        (partial(Task, beta=1.0), "argument of Task must"),
        (partial(Task.read, "{"), "document of Task must be JSON; got '{'."),
        (partial(Task.read, "[1]"), "document of Task must be an object with named values; got [1]."),
        (partial(Task, target={"kind": "mq"}), "kind of target must be one of mp, product, power-law, spikes, atoms; "
            "got 'mq'."),
        (partial(Task.read, {"target": {"kind": "mp", "kappa0": -3}}), "kappa0 must be a number >= 0.001 and <= 1000; "
            "got -3."),
        (partial(Task, attention="crossed"), "attention must be tied, self or cross; got 'crossed' (did you mean "
            "cross?)."),
        (partial(Task, mask="causally"), "mask must be none, causal or strict, or a square matrix of zeros and "
            "ones; got 'causally' (did you mean causal?)."),
        (partial(Task, labels=1), "labels must be soft or hard; got 1."),
        (partial(Task, mask="strict"), "tokens must be an integer >= 3 with a strict mask: a choice needs two "
            "columns; got 2."),
        (partial(Task, target=Product()), PRODUCT),
        (from_parameters(target="product"), PRODUCT),
        (from_parameters(target="product", attention="cross", gamma=0.7), "gamma must be left out with target "
            "product; got 0.7."),
        (partial(aim.predict, Task(labels="hard"), Learner(), 1.0), "loss must be cross-entropy with hard labels; got "
            "'squared'."),
        (partial(aim.train, Task(labels="hard"), Learner(), dim=20, alpha=1.0), "loss must be cross-entropy with hard "
            "labels"),
        (partial(Task.read, {"nois": 1}), f"argument of Task must be one of {', '.join(Task.model_fields)}; "
            "got 'nois' (did you mean noise?)."),
        (partial(Learner, weight_decay=-0.1), "weight_decay must"),
        (partial(Learner, weight_decay="small"), "weight_decay must"),
        (partial(Learner, width=0.0), "width must"),
        (partial(Learner, param="tied"), "param must"),
        (partial(Learner, beta=-1.0), "beta must"),
        (partial(Learner, loss="hinge"), "loss must"),
        (partial(Learner, branch="both"), "branch must"),
        (partial(PowerLaw, gamma=-1), "gamma must be a number >= 0 and <= 10; got -1."),
        (partial(PowerLaw, dim=1), "dim must be an integer >= 2 and <= 100000; got 1."),
        (partial(Atoms, eigenvalues=()), f"{EIGENVALUES}; got ()."),
        (partial(Atoms, eigenvalues=(0.0, 0.0)), EIGENVALUES),
        (partial(Atoms, eigenvalues=(np.nan,)), EIGENVALUES[:58]),
        (partial(Spikes, spikes=(1.0, 2.0), dim=2), "dim must be an integer > 2, the number of spikes; got 2."),
        (partial(Spikes, spikes=(0.0,), dim=9), "spikes must be a list of finite numbers; all d eigenvalues of root "
            "mean square 1e-06 to 100; got (0.0,)."),
        (from_parameters(target="zip"), "target must be one of mp, product, power-law, spikes, atoms; got 'zip'."),
        (from_parameters(gamma=0.7), "gamma must be left out with target mp; got 0.7."),
        (from_parameters(target="power-law", kappa0=0.5), "kappa0 must be left out with target power-law; got 0.5."),
        (from_parameters(samples=100), "samples must be given together with dim, or replaced by alpha; got 100."),
        (from_parameters(weight_decay="1/d"), "weight_decay must be a number, or 0+: this target has no dimension d; "
            "got '1/d'."),
        (from_parameters(target="atoms", atoms=[1.0, 2.0], dim=3), "dim must be left out, or 2, the number of "
            "eigenvalues; got 3."),
        (from_parameters(dim=50, samples=-3), "samples must be a number > 0; got -3."),
        (from_parameters(target="power-law", samples=10, alpha=0.5),
         "samples must be left out when alpha is given: one follows from the other; got 10."),
        (partial(aim.curve, Task(), Learner(), [0.1, -0.2]), "alpha must"),
        (partial(aim.curve, Task(), Learner(), []), "alphas must"),
        (partial(aim.scaling, Task(), Learner(), [1e3]), "target must be a target with a dimension d"),
        (partial(aim.scaling, POWER, Learner(), []), "samples must be at least one number of samples"),
        (partial(aim.scaling, POWER, Learner(), [-1.0]), "samples must be a number > 0; got -1.0"),
        (partial(aim.features, POWER, Learner(), [1e3]), "samples must be at least two"),
        (partial(aim.phase_diagram, Task()), "target must be a target with a dimension d"),
        (partial(aim.phase_diagram, POWER, log_n=[]), "log_n must be at least one value"),
        (partial(train_small, dim=1), "dim must be an integer >= 2"),
        (partial(train_small, dim=2.5), "dim must be an integer"),
        (partial(train_small, seeds=0), "seeds must be an integer >= 1"),
        (partial(train_small, alpha=-1.0), "alpha must be"),
        (partial(train_small, alpha=1e-3), "alpha must be at least 2/dim²"),
        (partial(train_small, Learner(weight_decay="0+")), "weight_decay must be a number > 0"),
        (partial(train_small, Learner(param="direct"), variant=Variant(tied=False)), "tied must be true"),
        (partial(train_small, Learner(width=0.5), method=Method(optimiser="amp")), "optimiser must be lbfgs or adam"),
        (partial(train_small, variant=Variant(token_law=np.eye(7))), "dim must be 7"),
        (partial(train_small, target_map=np.eye(7)), "target_map must be an array of shape (20, 20)"),
        (partial(Variant, heads=0), "heads must"),
        (partial(Variant, output="image"), "output must be label or sequence"),
        (partial(Variant, token_law="cauchy"), "token_law must"),
        (partial(Variant, token_law=np.ones((1, 3))), "token_law must"),
        (partial(Method, optimiser="sgd"), "optimiser must be lbfgs, adam or amp"),
        (partial(Method, tolerance=0.0), "tolerance must"),
        (partial(amp_small, damping=0.0), "damping must"),
        (partial(amp_small, alpha=1e-4), "alpha must"),
        (partial(aim.compare, Task(), Learner(), alphas=[]), "alphas must"),
        (partial(aim.compare, Task(), Learner(), alphas=[1.0], seeds=[1]), "seeds must"),
        (partial(aim.compare, Task(), Learner(), alphas=[1.0], dims=[]), "seeds must"),
        (partial(Tokens, np.ones(5)), "token_law must be two-dimensional, one token per row; got 'an array of shape "
            "(5,)'."),
        (partial(Tokens, np.ones((1, 5))), "token_law must be at least two tokens; got 'an array of 1 row(s)'."),
        (partial(Tokens, np.full((3, 2), np.nan)),
         "token_law must be an array of finite numbers; got 'an entry that is not finite'."),
        (partial(Tokens, np.ones((3, 2))), "token_law must be tokens that differ; got 'an array whose rows are all "
            "equal'."),
        (partial(Tokens, [["a"]]), "token_law must be an array of numbers, one token per row; got 'list'."),
        (partial(Tokens, "cauchy"),
         "token_law must be gaussian, rademacher, sparse, sphere, heavy-tailed, or an array of tokens"),
        (partial(Tokens, "gaussian", correlation=1.0), "correlation must"),
        (partial(Atoms(eigenvalues=(1.0, 0.0)).draw, 3, np.random.default_rng(0), tied=True), "dim must be 2"),
    ],
)  # fmt: skip
def test_a_wrong_argument_gets_one_sentence(call, sentence):
    message = str(refusal(call))
    assert message == sentence if sentence.endswith(".") else message.startswith(sentence)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (partial(amp_small, Learner(width=0.5)), "full width"),
        (partial(amp_small, Learner(weight_decay="0+")), "positive weight decay"),
        (partial(aim.nuclear_equivalence, Task(), Learner(width=0.5), dim=20, alpha=1.0), "full width"),
        (partial(check_target_map, np.ones((3, 2)), 3), "shape"),
        (partial(check_target_map, np.full((3, 3), np.inf), 3), "finite"),
        (partial(check_target_map, np.eye(3, k=1), 3), "symmetric"),
    ],
)
def test_a_refusal_says_what_is_allowed(call, expected):
    assert expected in str(refusal(call))


SELF, CROSS = Task(attention="self"), Task(attention="cross", labels="hard")


@pytest.mark.parametrize(
    ("task", "learner", "sentence"),
    [
        (SELF, Learner(weight_decay="0+"), "below alpha = 0.5 the limit λ → 0⁺ of self-attention that sees its own "
            "logit is not known"),
        (CROSS, CROSS_ENTROPY.changed(weight_decay="0+"), "at alpha = 0.2 the hard labels are separable, as they are "
            "up to 1.218"),
        (Task(labels="hard"), CROSS_ENTROPY.changed(weight_decay="0+"), "the limit λ → 0⁺ of hard labels is "
            "computed only for untied heads"),
    ],
)  # fmt: skip
def test_a_limit_without_theory_is_refused_in_one_sentence(task, learner, sentence):
    with pytest.raises(OutsideDomain) as raised:
        aim.predict(task, learner, 0.2)
    assert str(raised.value).startswith(sentence)
    assert str(raised.value).endswith("number.") or str(raised.value).endswith("strict.")
    assert "\n" not in str(raised.value)


def test_errors_of_two_sectors_are_not_decomposed():
    task = SELF.changed(target=PowerLaw(gamma=0.75, dim=40))
    with pytest.raises(OutsideDomain, match="depends on two sectors of the map and is not split"):
        aim.decompose(aim.predict(task, Learner(weight_decay=0.05), 1.0))


def test_every_head_takes_hard_labels_of_five_tokens():
    for attention in ("tied", "self"):
        assert aim.thresholds(Task(labels="hard", tokens=5, attention=attention), CROSS_ENTROPY).emergence > 0.0
    for head in ({"mask": "causal"}, {"mask": "strict"}, {"attention": "cross"}):
        assert aim.thresholds(Task(labels="hard", tokens=5, **head), CROSS_ENTROPY).emergence > 0.0


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"kappa0": 0.3}, "kappa0 is a parameter of the target: write Task(target=MarchenkoPastur(kappa0=0.3))."),
        ({"kappa0": 0.3, "attention": "cross"}, "kappa0 is a parameter of the target: write "
            "Task(target=Product(kappa0=0.3))."),
        ({"gamma": 1.0}, "gamma is a parameter of the target: write Task(target=PowerLaw(gamma=1.0))."),
    ],
)  # fmt: skip
def test_a_parameter_of_the_target_given_to_the_task_is_refused_with_advice(given, advice):
    with pytest.raises(WrongCall) as raised:
        Task(**given)
    assert str(raised.value) == advice
