"""The rows of the regression table: published numbers of every kind, in groups that are computed together."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from checks.regression_layers import Numbers, Row, aim_data, aim_layers, sparse_joint
from onehead import aim, sparse, weights
from onehead.aim.verbs.scaling import ScalingPoint

__all__ = ["GROUPS", "Numbers", "Row"]

AIM = ("test_error", "test_error_clean", "train_loss", "rank", "q", "m", "sigma")
ALPHAS = (0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 4.0, 40.0)


def _share(result: Any) -> float:
    """The certificate's error of the test error, relative to it."""
    return float(result.certificate.quadrature_error / max(result.test_error, 1e-12))


def _numbers(result: Any, names: Iterable[str]) -> Numbers:
    return {name: float(getattr(result, name)) for name in names}


def _finite(numbers: Numbers) -> Numbers:
    return {name: value for name, value in numbers.items() if np.isfinite(value)}


def _aim_row(name: str, point: Any) -> Row:
    return name, _finite(_numbers(point, AIM)), point.errors


def _curve(words: str, task: aim.Task, learner: aim.Learner, alphas: tuple[float, ...]) -> Iterator[Row]:
    for point in aim.curve(task, learner, alphas):
        yield _aim_row(f"aim.curve {words} α={point.alpha:g}", point)


def aim_curves() -> Iterator[Row]:
    """Learning curves of two tokens, with the law of the eigenvalues at every point."""
    settings = [
        (0.5, 0.5, 1e-2),
        (0.5, 0.5, 1e-3),
        (0.2, 0.5, 1e-2),
        (0.8, 0.1, 1e-2),
        (2.0, 1.0, 0.05),
        (0.05, 0.05, 0.015),
    ]
    for kappa0, noise, decay in settings:
        task = aim.Task(target=aim.MarchenkoPastur(kappa0=kappa0), noise=noise)
        learner = aim.Learner(weight_decay=decay)
        for point in aim.curve(task, learner, ALPHAS):
            assert isinstance(point, aim.Prediction)
            words = f"κ₀={kappa0} Δ={noise} λ={decay} α={point.alpha:g}"
            yield _aim_row(f"aim.curve {words}", point)
            law = aim.spectrum(point)
            edges = {f"edge {i}.{j}": end for i, pair in enumerate(law.edges) for j, end in enumerate(pair)}
            numbers = {"zero_mass": law.zero_mass, "mean": law.mean, "second_moment": law.second_moment, **edges}
            yield f"aim.spectrum {words}", numbers, _share(point)


def aim_variants() -> Iterator[Row]:
    """Cross-entropy, direct training, narrow heads, temperatures, no noise, the global branch."""
    task, few = aim.Task(), (0.1, 0.35, 1.0, 4.0)
    yield from _curve("cross-entropy", task, aim.Learner(loss="cross-entropy", weight_decay=0.05), few)
    yield from _curve("direct", task, aim.Learner(param="direct"), few)
    yield from _curve("width=0.3", task, aim.Learner(width=0.3), few)
    yield from _curve("β₀=2 β=0.5", aim.Task(beta0=2.0), aim.Learner(beta=0.5), few)
    yield from _curve("Δ=0", aim.Task(noise=0.0), aim.Learner(), few)
    yield from _curve("global", task, aim.Learner(branch="global"), (0.1, 0.35))


def aim_heads() -> Iterator[Row]:
    """Untied, masked, with hard labels; singular values, and both sectors of self-attention."""
    hard = {"loss": "cross-entropy", "weight_decay": 0.1}
    heads: list[tuple[str, dict[str, Any], dict[str, Any], tuple[float, ...]]] = [
        ("cross", {"attention": "cross"}, {}, (0.3, 1.0, 4.0)),
        ("cross direct", {"attention": "cross"}, {"param": "direct"}, (0.3, 1.0)),
        ("cross width=0.4", {"attention": "cross"}, {"width": 0.4}, (1.0,)),
        ("cross λ→0⁺", {"attention": "cross"}, {"weight_decay": "0+"}, (0.3, 1.0)),
        ("cross hard", {"attention": "cross", "labels": "hard"}, hard, (0.5, 2.0)),
        ("cross causal T=3", {"attention": "cross", "mask": "causal", "tokens": 3}, {}, (1.0,)),
        ("cross causal T=6", {"attention": "cross", "mask": "causal", "tokens": 6}, {}, (0.5,)),
        (
            "cross causal hard T=6",
            {"attention": "cross", "mask": "causal", "tokens": 6, "labels": "hard"},
            hard,
            (1.0,),
        ),
        ("self", {"attention": "self"}, {}, (1.0, 4.0)),
        ("self direct", {"attention": "self"}, {"param": "direct"}, (1.0,)),
        ("self causal", {"attention": "self", "mask": "causal"}, {}, (1.0, 4.0)),
        ("self causal hard", {"attention": "self", "mask": "causal", "labels": "hard"}, hard, (2.0,)),
        ("self strict T=4", {"attention": "self", "mask": "strict", "tokens": 4}, {}, (1.0,)),
        ("tied causal", {"mask": "causal"}, {}, (0.5, 2.0)),
        ("tied hard", {"labels": "hard"}, hard, (1.0,)),
        ("cross mp", {"attention": "cross", "target": aim.MarchenkoPastur()}, {}, (1.0,)),
        ("cross power law", {"attention": "cross", "target": aim.PowerLaw(gamma=0.75, dim=100)}, {}, (1.0,)),
    ]
    for words, head, learner, alphas in heads:
        for alpha in alphas:
            point = aim.predict(aim.Task(**head), aim.Learner(**learner), alpha)
            numbers = _finite(_numbers(point, (*AIM, "test_cross_entropy")))
            yield f"aim.predict {words} α={alpha:g}", numbers, point.errors
            if point.zero_one_error is not None:
                yield f"aim.predict {words} α={alpha:g}, 0/1", {"zero_one_error": point.zero_one_error}, point.errors
            if point.sectors is not None:
                values = {
                    f"{name}_{c}": v for name, both in point.sectors.items() for c, v in zip("sa", both, strict=True)
                }
                yield f"aim.predict {words} α={alpha:g}, sectors", values, _share(point)
    for words, head, learner, _ in heads:
        found = aim.thresholds(aim.Task(**head), aim.Learner(**learner))
        named = ("interpolation", "bayes_optimal", "emergence", "peak_test_error", "separability")
        numbers = {name: value for name in named if (value := getattr(found, name)) is not None and np.isfinite(value)}
        error = max([found.errors[name] / numbers[name] for name in found.errors if name in numbers], default=0.0)
        yield f"aim.thresholds {words}", numbers, error


def aim_limit() -> Iterator[Row]:
    """λ → 0⁺: interpolating, at and above interpolation, perfect recovery."""
    for kappa0, noise, alpha in [
        (0.5, 0.5, 0.05), (0.5, 0.5, 0.1), (0.5, 0.5, 0.14), (0.5, 0.5, 0.5), (0.5, 0.5, 2.0), (0.2, 0.1, 0.1),
        (2.0, 0.5, 0.1), (0.5, 0.0, 0.1), (0.5, 0.0, 0.3),
    ]:  # fmt: skip
        task = aim.Task(target=aim.MarchenkoPastur(kappa0=kappa0), noise=noise)
        point = aim.predict(task, aim.Learner(weight_decay="0+"), alpha)
        yield _aim_row(f"aim.predict κ₀={kappa0} Δ={noise} λ=0+ α={alpha}", point)
    for alpha in (0.1, 0.2, 0.5):
        point = aim.predict(aim.Task(), aim.Learner(weight_decay="0+", param="direct"), alpha)
        yield _aim_row(f"aim.predict direct λ=0+ α={alpha}", point)


def aim_tokens() -> Iterator[Row]:
    """More than two tokens."""
    for tokens, alpha, decay in [(3, 0.1, 0.05), (3, 1.0, 0.01), (4, 0.1, 0.05), (5, 0.1, 0.05), (8, 0.05, 0.1)]:
        point = aim.predict(aim.Task(tokens=tokens), aim.Learner(weight_decay=decay), alpha)
        yield _aim_row(f"aim.predict T={tokens} λ={decay} α={alpha}", point)


def aim_targets() -> Iterator[Row]:
    """Targets with a dimension: scaling laws with their four parts, features, phases, spikes and lists of
    eigenvalues.
    """
    law = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=200))
    parts = ("excess_error", "local_exponent", "underfitting", "approximation", "overfitting", "mismatch", "rank")
    for decay in (1.0 / 200.0, 1.0):
        for row in aim.scaling(law, aim.Learner(weight_decay=decay), [1e4, 1e5, 1e6]):
            assert isinstance(row, ScalingPoint)
            yield f"aim.scaling d=200 λ={decay:g} n={row.samples:g}", _numbers(row, parts), _share(row)
    for item in aim.features(law, aim.Learner(weight_decay=1.0), [3000.0, 10_000.0]):
        yield f"aim.features d=200 λ=1 feature {item.feature}", {"samples": item.samples}, 1e-4
    small = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=100))
    for cell in aim.phase_diagram(small, log_n=[1.5, 2.0, 2.5], log_lambda=[-1.0, 0.0]):
        numbers = {"excess_error": cell.excess_error or 0.0, "local_exponent": cell.local_exponent or 0.0}
        yield f"aim.phase_diagram d=100 log_n={cell.log_n} log_lambda={cell.log_lambda}", numbers, 1e-4
    spiked = aim.Spikes(spikes=(6.0, 3.0, 1.8), dim=100, bulk=aim.MarchenkoPastur(kappa0=0.3))
    listed = aim.Atoms(eigenvalues=tuple(np.linspace(-0.5, 2.0, 40)))
    for name, target in (("spikes", spiked), ("atoms", listed)):
        for alpha in (0.2, 1.0):
            point = aim.predict(aim.Task(target=target), aim.Learner(), alpha)
            yield _aim_row(f"aim.predict {name} α={alpha}", point)
            yield f"aim.decompose {name} α={alpha}", _numbers(aim.decompose(point), parts[2:6]), _share(point)


def aim_leading() -> Iterator[Row]:
    """Targets with leading directions, averaged exactly: power laws and spikes, other losses, the limit 0+, plateaus
    and emergence.
    """
    law, sharp = (aim.Task(target=aim.PowerLaw(gamma=gamma, dim=100)) for gamma in (0.75, 1.25))
    for words, task, learner, alpha in [
        ("γ=0.75 λ=1", law, {"weight_decay": 1.0}, 0.3981),
        ("γ=0.75 λ=0.01", law, {}, 2.0),
        ("γ=1.25 λ=1", sharp, {"weight_decay": 1.0}, 1.0),
        ("γ=0.75 K=2", law, {"weight_decay": 1.0, "leading": 2}, 1.0),
        ("γ=0.75 direct", law, {"param": "direct"}, 1.0),
        ("γ=0.75 cross-entropy", law, {"loss": "cross-entropy"}, 1.0),
        ("γ=0.75 λ=0+", law, {"weight_decay": "0+"}, 0.1),
    ]:
        point = aim.predict(task, aim.Learner(**learner), alpha)
        yield _aim_row(f"aim.predict {words} α={alpha:g}", point)
        seen = {f"effective {k}": one.effective for k, one in enumerate(point.directions, start=1)}
        yield f"aim.predict {words} α={alpha:g}, directions", seen, 5e-3
    for words, task in (("γ=0.75", law), ("γ=1.25", sharp)):
        found = aim.thresholds(task, aim.Learner(weight_decay=1.0))
        yield f"aim.thresholds {words} d=100 λ=1", {"emergence": found.emergence}, 1e-3
        yield f"aim.plateau {words} d=100", _numbers(aim.plateau(task), ("shrinkage", "test_error")), 1e-5


def aim_thresholds() -> Iterator[Row]:
    """Sample ratios where behaviour changes, and plateaus."""
    names = ("interpolation", "recovery", "bayes_optimal", "direct", "emergence", "peak_test_error")
    for kappa0 in (0.05, 0.25, 0.5, 0.75, 2.0):
        for noise in (0.0, 0.1, 0.5, 2.0):
            task = aim.Task(target=aim.MarchenkoPastur(kappa0=kappa0), noise=noise)
            yield f"aim.thresholds κ₀={kappa0} Δ={noise}", _finite(_numbers(aim.thresholds(task), names)), 1e-8
            yield f"aim.plateau κ₀={kappa0} Δ={noise}", _numbers(aim.plateau(task), ("shrinkage", "test_error")), 1e-5


def aim_tune() -> Iterator[Row]:
    """Best weight decays; flat minima move a lot for little."""
    sparse_target = aim.Task(target=aim.MarchenkoPastur(kappa0=0.05), noise=0.05)
    for words, task, learner, alpha in [
        ("κ₀=Δ=0.05 α=0.25", sparse_target, aim.Learner(), 0.25),
        ("direct α=1", aim.Task(), aim.Learner(param="direct"), 1.0),
    ]:
        found = aim.tune(task, learner, alpha)
        share = _share(found)
        yield f"aim.tune {words}", {"test_error": found.test_error}, share
        # at a minimum the error is flat: an error e of it leaves the place open by its square root
        yield f"aim.tune {words}, place", {"weight_decay": found.weight_decay}, float(np.sqrt(share)) + 5e-3


def aim_maps() -> Iterator[Row]:
    """Maps over two words, curves along the best weight decay, and the best weight decay of other heads."""
    task, head = aim.Task(), aim.Learner()
    decays = ("weight_decay", [0.003, 0.03, 0.3])
    for cell in aim.map(task, head, x=("alpha", [0.2, 1.0]), y=decays):
        assert isinstance(cell.point, aim.Prediction)
        yield _aim_row(f"aim.map α={cell.x:g} λ={cell.y:g}", cell.point)
    for cell in aim.map(task, head, alpha=0.5, x=("noise", [0.1, 1.0]), y=("kappa0", [0.2, 2.0]), bayes=True):
        assert isinstance(cell.point, aim.Prediction)
        numbers = {"test_error": cell.point.test_error, "bayes_test_error": float(cell.bayes_test_error or 0.0)}
        yield f"aim.map Δ={cell.x:g} κ₀={cell.y:g}", numbers, _share(cell.point)
    for point in aim.curve(task, head, [0.1, 0.4, 1.6], tuned=True):
        assert isinstance(point, aim.Prediction)
        share = _share(point)
        yield f"aim.curve tuned α={point.alpha:g}", {"test_error": point.test_error}, share
        place = {"weight_decay": float(point.learner.weight_decay)}
        yield f"aim.curve tuned α={point.alpha:g}, place", place, float(np.sqrt(share)) + 5e-3
    for words, other in (
        ("cross", aim.Task(attention="cross")),
        ("self", aim.Task(attention="self")),
    ):
        found = aim.tune(other, head, 1.0)
        share = _share(found)
        yield f"aim.tune {words} α=1", {"test_error": found.test_error}, share
        yield f"aim.tune {words} α=1, place", {"weight_decay": found.weight_decay}, float(np.sqrt(share)) + 5e-3
        law = aim.spectrum(aim.predict(other, aim.Learner(weight_decay=0.05), 1.0))
        numbers = {"zero_mass": law.zero_mass, "mean": law.mean, "edge": law.edges[-1][1]}
        yield f"aim.spectrum {words} λ=0.05 α=1", numbers, 1e-6
    beside = aim.tune(task, head, 0.5, bayes=True)
    numbers = {name: float(getattr(beside, name)) for name in ("bayes_test_error", "data_multiple", "logit_nuclear")}
    yield "aim.tune α=0.5, beside the best possible learner", numbers, 1e-4


def aim_long() -> Iterator[Row]:
    """Many tokens: rows by themselves, tied and self-attending heads, hard labels, the limit of long rows."""
    hard = {"loss": "cross-entropy", "weight_decay": 0.3}
    heads: list[tuple[str, dict[str, Any], dict[str, Any], float]] = [
        ("cross T=32", {"attention": "cross", "tokens": 32}, {"weight_decay": 0.02}, 0.01),
        ("cross hard T=200", {"attention": "cross", "tokens": 200, "labels": "hard"}, hard, 0.01),
        ("cross hard T=5000", {"attention": "cross", "tokens": 5000, "labels": "hard"}, hard, 4e-4),
        ("tied T=12", {"tokens": 12}, {"weight_decay": 0.1}, 0.1),
        ("tied causal T=12", {"tokens": 12, "mask": "causal"}, {"weight_decay": 0.05}, 0.1),
        ("self T=32", {"attention": "self", "tokens": 32}, {"weight_decay": 0.02}, 0.01),
        ("self causal T=16", {"attention": "self", "mask": "causal", "tokens": 16}, {"weight_decay": 0.02}, 0.1),
        ("self strict T=16", {"attention": "self", "mask": "strict", "tokens": 16}, {"weight_decay": 0.02}, 0.1),
    ]
    for words, head, learner, alpha in heads:
        point = aim.predict(aim.Task(**head), aim.Learner(**learner), alpha)
        yield _aim_row(f"aim.predict {words} α={alpha:g}", point)


SPARSE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "L=10 R=1 θ=5 π=.5": ({"length": 10}, {"cos_query": 0.9, "sharpness": 2.0, "alpha1": 1.5, "ridge": 1e-2}),
    "L=6 R=2 θ=3 π=.3": (
        {"length": 6, "signal_tokens": 2, "strength": 3.0, "positive_rate": 0.3},
        {"cos_query": -0.5, "sharpness": 1.5, "alpha1": 2.0, "ridge": 1e-2},
    ),
    "two steps": ({"length": 10}, {"alpha0": 1.0, "alpha1": 1.0, "ridge": 1e-3}),
}
READOUT = ("test_error", "train_loss", "train_error", "signal_weight", "bias", "rest_norm")


def aim_bayes() -> Iterator[Row]:
    """The best possible learner of every kind of head, the data it needs for an error, and what weight decay lacks."""
    names = ("mmse", "test_error", "test_error_clean", "head_error", "plugin_error")
    heads: dict[str, tuple[aim.Task, tuple[float, ...]]] = {
        "κ₀=0.5": (aim.Task(), (0.05, 0.5, 4.0)),
        "κ₀=0.05 Δ=0.05": (aim.Task(target=aim.MarchenkoPastur(kappa0=0.05), noise=0.05), (0.05, 0.5)),
        "β₀=2": (aim.Task(beta0=2.0), (0.2,)),
        "T=5": (aim.Task(tokens=5), (0.05, 0.2)),
        "T=3 causal": (aim.Task(tokens=3, mask="causal"), (0.3,)),
        "cross": (aim.Task(attention="cross"), (0.3, 1.0)),
        "cross T=4 causal": (aim.Task(attention="cross", mask="causal", tokens=4), (0.5,)),
        "power law d=200": (aim.Task(target=aim.PowerLaw(gamma=0.75, dim=200)), (0.02, 0.5)),
        "Δ=0": (aim.Task(noise=0.0), (0.1, 0.15)),
    }
    for words, (task, alphas) in heads.items():
        for alpha in alphas:
            found = aim.bayes(task, alpha)
            yield f"aim.bayes {words} α={alpha:g}", _numbers(found, names), found.errors
    for error in (0.25, 0.12121, 0.08):
        yield f"aim.data_for {error:g}", {"alpha": aim.data_for(aim.Task(), error)}, 1e-6


def _readout_row(name: str, point: sparse.Prediction) -> Row:
    return name, _numbers(point, READOUT), point.errors


def sparse_readouts() -> Iterator[Row]:
    """Stage four: three models, four losses, with and without a ridge, other lengths."""
    for words, (problem, plan) in SPARSE.items():
        task = sparse.Task(**problem)
        for loss in ("logistic", "square", "hinge", "squared-hinge"):
            protocol = sparse.Protocol(**plan, loss=loss)
            for model in ("attention", "pooled", "vectorised"):
                yield _readout_row(
                    f"sparse.predict {words} {loss} {model}", sparse.predict(task, protocol, model=model)
                )
    weak = sparse.Task(strength=2.0)
    for loss in ("logistic", "square", "hinge"):
        plan_0 = sparse.Protocol(cos_query=0.5, sharpness=1.0, alpha1=4.0, ridge=0.0, loss=loss)
        yield _readout_row(f"sparse.predict θ=2 ridge=0 {loss}", sparse.predict(weak, plan_0))
    for model in ("attention", "pooled"):
        point = sparse.predict(sparse.Task(), sparse.Protocol(), model=model, test_length=20)
        yield f"sparse.predict test_length=20 {model}", {"test_error": point.test_error}, _share(point)


def sparse_others() -> Iterator[Row]:
    """Alignment, capacity, oracle, the limit without ridge."""
    aligned = ("cos_query", "cos_readout", "norm_query", "norm_readout", "query_readout", "misalignment", "sharpness")
    for words, (problem, _) in SPARSE.items():
        for loss in ("logistic", "square", "hinge", "squared-hinge"):
            found = sparse.align(sparse.Task(**problem), sparse.Protocol(alpha0=2.0, beta=1.0, loss=loss))
            yield f"sparse.align {words} {loss}", _numbers(found, aligned), 1e-10
    for L, R, theta, rate, s, kappa in [
        (10, 1, 2.0, 0.5, 0.5, 1.0), (6, 2, 3.0, 0.3, -0.5, 1.5), (10, 1, 5.0, 0.5, 0.0, 1.0),
        (10, 1, 5.0, 0.5, 0.7, 2.0), (20, 3, 2.0, 0.2, 0.8, 1.0),
    ]:  # fmt: skip
        task = sparse.Task(length=L, signal_tokens=R, strength=theta, positive_rate=rate)
        plan = sparse.Protocol(cos_query=s, sharpness=kappa)
        words = f"L={L} R={R} θ={theta} π={rate} s={s} κ={kappa}"
        room = sparse.capacity(task, plan)
        share = room.certificate.quadrature_error / room.attention
        yield f"sparse.capacity {words}, attention", _numbers(room, ["attention"]), share
        yield f"sparse.capacity {words}, linear", _numbers(room, ("pooled", "vectorised")), 1e-8
        for model in ("attention", "pooled", "vectorised"):
            limit, slope = sparse.ridgeless(task, plan, model=model)
            share = 1e-3 if model == "attention" else 1e-10  # Sobol points against a closed form
            yield f"sparse.ridgeless {words} {model}", {"limit": limit, "slope": slope}, share
        yield f"sparse.oracle {words}", _numbers(sparse.oracle(task), ("hardmax", "pooled", "vectorised")), 1e-6
    rare = sparse.Task(length=10, strength=4.0, positive_rate=0.2)
    for loss in ("logistic", "square"):
        rate_c = sparse.critical_bias_rate(rare, sparse.Protocol(loss=loss))
        yield f"sparse.critical_bias_rate {loss}", {"rate": float(rate_c or 0.0)}, 1e-10
    best = sparse.oracle(sparse.Task(length=10**6, strength=6.0))
    yield "sparse.oracle L=1e6 θ=6", _numbers(best, ("hardmax", "elementwise")), 1e-6


def sparse_bayes() -> Iterator[Row]:
    """The best possible learner of sparse tokens: one signal token and several, both branches, and where the hard phase
    begins and ends.
    """
    problems: dict[str, tuple[sparse.Task, tuple[float, ...]]] = {
        "L=10 θ=5": (sparse.Task(), (0.1, 0.5, 2.0, 8.0)),
        "L=30 θ=4": (sparse.Task(length=30, strength=4.0), (0.5, 2.0)),
        "L=10 θ=2": (sparse.Task(strength=2.0), (2.0,)),
        "L=300 θ=8": (sparse.Task(length=300, strength=8.0), (0.01, 0.035, 0.06)),
        "L=1000 θ=8": (sparse.Task(length=1000, strength=8.0), (0.05,)),
        "L=10 R=3 θ=3 π=0.2": (sparse.Task(signal_tokens=3, strength=3.0, positive_rate=0.2), (1.0, 2.0)),
    }
    names = ("overlap", "test_error", "overlap_amp", "test_error_amp")
    for words, (task, alphas) in problems.items():
        for alpha in alphas:
            found = sparse.bayes(task, alpha)
            yield f"sparse.bayes {words} α={alpha:g}", _numbers(found, names), found.errors
    for length, strength in ((100, 5.0), (1000, 8.0), (100_000, 12.0)):
        found = sparse.bayes(sparse.Task(length=length, strength=strength), 0.05)
        ends = ("spinodal", "information_threshold", "algorithmic_threshold")
        yield f"sparse.bayes L={length} θ={strength:g}, thresholds", _numbers(found, ends), found.errors
    for task, error in ((sparse.Task(), 0.0327), (sparse.Task(length=30, strength=4.0), 0.12)):
        yield f"sparse.data_for L={task.length} {error:g}", {"alpha": sparse.data_for(task, error)}, 1e-6


def sparse_maps() -> Iterator[Row]:
    """Maps and curves of sparse tokens, and what is tuned; what needs no sampled point is known to rounding."""
    task, plan = sparse.Task(), sparse.Protocol(ridge=1e-2)
    for cell in sparse.map(task, plan, x=("alpha0", [0.5, 2.0]), y=("beta", [4.0, 8.0]), accuracy=3e-4):
        assert isinstance(cell.point, sparse.Prediction)
        numbers = {name: float(getattr(cell, name)) for name in ("test_error", "cos_query", "pooled_test_error")}
        errors = {"test_error": cell.point.errors["test_error"], "cos_query": 1e-8, "pooled_test_error": 1e-7}
        yield f"sparse.map α₀={cell.x:g} β={cell.y:g}", numbers, errors
    for model in ("pooled", "vectorised"):
        for point in sparse.curve(task, plan, [1.0, 4.0], model=model):
            assert isinstance(point, sparse.Prediction)
            yield _readout_row(f"sparse.curve {model} α={point.protocol.alpha:g}", point)
    found = sparse.tune(sparse.Task(positive_rate=0.2), sparse.Protocol(loss="square"), alpha=2.0, bayes=True)
    names = ("pooled_test_error", "vectorised_test_error", "bayes_test_error")
    yield "sparse.tune π=0.2 square α=2", {"test_error": found.test_error}, 2e-3  # a search that ends where it is flat
    yield "sparse.tune π=0.2 square α=2, beside it", _numbers(found, names), 1e-5


def heads_of_files() -> Iterator[Row]:
    """What is measured of the heads of a checkpoint: random, with a feature, of low rank; and the symmetric share that
    theory predicts.
    """
    rng = np.random.default_rng(7)
    query, key = rng.standard_normal((2, 48, 256))
    feature = query.copy()
    feature[0] += 4.0 * key[0]
    names = ("rank", "symmetric_share", "bulk_edge", "effective_rank_nuclear", "effective_rank_stable", "strength")
    for words, own in (("random", query), ("feature", feature), ("low rank", query[:, :40] @ np.eye(40, 256))):
        report = weights.head_report(own, key, fit=False)
        yield f"weights.head_report {words}", _finite(_numbers(report, names)), 1e-6
    for labels, learner in (("soft", {}), ("hard", {"loss": "cross-entropy", "weight_decay": 0.1})):
        point = aim.predict(aim.Task(attention="self", labels=labels), aim.Learner(**learner), 1.0)
        yield f"weights.predicted_share {labels} α=1", {"share": weights.predicted_share(point)}, 1e-4


GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    "aim_curves": aim_curves,
    "aim_variants": aim_variants,
    "aim_heads": aim_heads,
    "aim_limit": aim_limit,
    "aim_tokens": aim_tokens,
    "aim_targets": aim_targets,
    "aim_leading": aim_leading,
    "aim_thresholds": aim_thresholds,
    "aim_tune": aim_tune,
    "aim_maps": aim_maps,
    "aim_long": aim_long,
    "aim_bayes": aim_bayes,
    "aim_data": aim_data,
    "aim_layers": aim_layers,
    "sparse_readouts": sparse_readouts,
    "sparse_others": sparse_others,
    "sparse_bayes": sparse_bayes,
    "sparse_maps": sparse_maps,
    "sparse_joint": sparse_joint,
    "heads_of_files": heads_of_files,
}
