"""The regression table: published numbers of every kind, each with its error, and the rule by which they may change.

    python -m checks.regression            # recompute and compare
    python -m checks.regression --write    # write tests/regression/table.json anew

**How a change is caught.** The tests recompute every row and fail when a number has moved by more than its stated error.
Writing the table keeps every old number that has not moved, so its hash changes only when a published number did, or when
rows were added; and it refuses to store moved numbers until `NUMERICAL` in `onehead/sweep/version.py` is raised. A second
test demands that the newest hash named in a "Numerical changes" section of CHANGELOG.md, written `table 0123456789ab`, is
that of the table. So a moved number fails the tests until somebody has raised the numerical version, written the table
and said so in the changelog.

**Errors.** Every number is computed by two rules: the one users get, and a second one (the finest lattice, other panels
and points). Its error is twice their difference, plus its relative share of the certificate's own estimate, plus 1e-6 of
itself for the residual at which solvers stop.
"""

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np

import onehead
from checks.tool import ROOT, parser
from onehead import aim, sparse
from onehead.aim.equations import plateau, ridgeless
from onehead.aim.equations.geometry import Geometry
from onehead.aim.verbs.scaling import ScalingPoint
from onehead.sparse.verbs import predict as sparse_theory
from onehead.spectra import atoms, marchenko_pastur
from onehead.sweep.version import NUMERICAL

TABLE = ROOT / "tests" / "regression" / "table.json"
CHANGELOG = ROOT / "CHANGELOG.md"
VERSION = 1  # of the format of the table
STOPPED = 1e-6  # relative: residuals of 3e-7, times the inverse of 1 - F'
OTHERS = 1e-3  # the largest share of the certificate's relative error that counts for numbers it does not speak of
# Another processor or another version of the linear algebra rounds differently, and a solver that stops one step earlier or
# later ends elsewhere within its residual.
SLACK = 2e-6
SMALL = 1e-11  # absolute: a number that is zero but for rounding

Numbers = dict[str, float]
Row = tuple[
    str, Numbers, float | Numbers
]  # name, numbers, relative error by the certificate or the errors that they state
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
    """Targets with a dimension: scaling laws with their four parts, features, phases, spikes and lists of eigenvalues."""
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


SPARSE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "L=10 R=1 θ=5 π=.5": ({"length": 10}, {"cos_query": 0.9, "sharpness": 2.0, "alpha1": 1.5, "ridge": 1e-2}),
    "L=6 R=2 θ=3 π=.3": (
        {"length": 6, "signal_tokens": 2, "strength": 3.0, "positive_rate": 0.3},
        {"cos_query": -0.5, "sharpness": 1.5, "alpha1": 2.0, "ridge": 1e-2},
    ),
    "two steps": ({"length": 10}, {"alpha0": 1.0, "alpha1": 1.0, "ridge": 1e-3}),
}
READOUT = ("test_error", "train_loss", "train_error", "signal_weight", "bias", "rest_norm")


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
        (10, 1, 2.0, 0.5, 0.5, 1.0), (6, 2, 3.0, 0.3, -0.5, 1.5), (10, 1, 5.0, 0.5, 0.0, 1.0), (10, 1, 5.0, 0.5, 0.7, 2.0),
        (20, 3, 2.0, 0.2, 0.8, 1.0),
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


GROUPS: dict[str, Callable[[], Iterator[Row]]] = {
    "aim_curves": aim_curves,
    "aim_variants": aim_variants,
    "aim_heads": aim_heads,
    "aim_limit": aim_limit,
    "aim_tokens": aim_tokens,
    "aim_targets": aim_targets,
    "aim_thresholds": aim_thresholds,
    "aim_tune": aim_tune,
    "sparse_readouts": sparse_readouts,
    "sparse_others": sparse_others,
}


USUAL = Geometry.levels.fget  # type: ignore[attr-defined]


def _other_levels(shape: Geometry) -> tuple[int, ...]:
    """The finest lattice at once; of sampled points the next smaller number."""
    return (USUAL(shape)[-1] - (1 if shape.sampled else 0),)


@contextmanager
def second_rule() -> Iterator[None]:
    """Other quadrature everywhere: the finest lattice or another count, other panels, other scramblings."""
    changes = [
        (Geometry, "levels", property(_other_levels)),
        (marchenko_pastur, "NODES", 90),
        (atoms, "NODES", 24),
        (sparse_theory, "SCRAMBLING", 1000),
        (import_module("onehead.sparse.verbs.capacity"), "SCRAMBLING", 1000),  # the name is also that of the verb
    ]
    with ExitStack() as stack:
        for room, name, value in changes:
            stack.enter_context(mock.patch.object(room, name, value))
        _forget()
        yield
    _forget()


def _forget() -> None:
    """Drop what was found by the other rule."""
    ridgeless._interpolation.cache_clear()
    plateau._plateau.cache_clear()


def with_errors(group: str) -> dict[str, dict[str, list[float]]]:
    """The rows of a group: every number with its error."""
    first = list(GROUPS[group]())
    with second_rule():
        other = {name: numbers for name, numbers, _ in GROUPS[group]()}
    table = {}
    for name, numbers, share in first:
        table[name] = {
            key: [_digits(value), _error(key, value, other[name][key], share)] for key, value in numbers.items()
        }
    return table


def _error(key: str, value: float, other: float, share: float | Numbers) -> float:
    """Two digits, rounded up. The certificate speaks of the test error; other numbers may be much better known."""
    if isinstance(share, dict):
        own = share[key]
    else:
        own = (share if key.startswith("test_error") else min(share, OTHERS)) * abs(value)
    return float(f"{1.05 * (2.0 * abs(other - value) + own + STOPPED * abs(value) + SMALL):.1e}")


def _digits(value: float) -> float:
    return float(f"{value:.10g}")


def moved(old: dict[str, list[float]], new: Numbers) -> list[str]:
    """The numbers of a row that left their stated error, in words."""
    lost = [f"{key} is gone" for key in old if key not in new]
    found = [f"{key} is new" for key in new if key not in old]
    for key, (value, error) in old.items():
        if key in new and not abs(new[key] - value) <= error + SLACK * abs(value) + SMALL:
            found.append(f"{key} {value!r} → {new[key]!r}, error {error:.1e}")
    return lost + found


def compare(group: str, table: dict[str, Any]) -> list[str]:
    """Recompute a group and say what moved."""
    stored = table["groups"].get(group, {})
    complaints, seen = [], set()
    for name, numbers, _ in GROUPS[group]():
        seen.add(name)
        if name in stored:
            complaints += [f"{name}: {text}" for text in moved(stored[name], numbers)]
        else:
            complaints.append(f"{name}: not in the table")
    return complaints + [f"{name}: no longer computed" for name in stored if name not in seen]


def fingerprint(table: dict[str, Any]) -> str:
    """A short hash of all numbers and of the numerical version."""
    text = json.dumps([table["numerical"], table["groups"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def named_in_changelog(text: str) -> str | None:
    """The newest hash of a table in a "Numerical changes" section."""
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        if section.startswith("Numerical changes"):
            found = re.search(r"`?table ([0-9a-f]{12})`?", section)
            if found:
                return found.group(1)
    return None


def load() -> dict[str, Any]:
    """The stored table."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def _merged(old: dict[str, Any], new: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """New rows, but the old numbers wherever they have not moved; and the names of rows that have."""
    rows, changed = {}, []
    for name, numbers in new.items():
        same = name in old and not moved(old[name], {key: pair[0] for key, pair in numbers.items()})
        rows[name] = old[name] if same else numbers
        if name in old and not same:
            changed.append(name)
    return rows, changed


def write() -> int:
    """Write the table; refuse when numbers moved and the numerical version did not."""
    old = load() if TABLE.exists() else {"groups": {}, "numerical": None}
    groups, changed = {}, []
    for group in GROUPS:
        print(group, file=sys.stderr)
        rows, names = _merged(old["groups"].get(group, {}), with_errors(group))
        groups[group] = rows
        changed += names
    if changed and old["numerical"] == NUMERICAL:
        print("These numbers moved; raise NUMERICAL in src/onehead/sweep/version.py first:", *changed, sep="\n  ")
        return 1
    table: dict[str, Any] = {
        "version": VERSION,
        "onehead": onehead.__version__,
        "numerical": NUMERICAL,
        "groups": groups,
    }
    table["table"] = fingerprint(table)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(_text(table), encoding="utf-8")
    count = sum(len(rows) for rows in groups.values())
    print(
        f"{count} rows; CHANGELOG.md, under Numerical changes: - Regression table: `table {table['table']}`, {count} rows."
    )
    return 0


def _text(table: dict[str, Any]) -> str:
    """JSON with one row per line, so that a change shows as a line."""
    head = ",\n".join(
        f" {json.dumps(key)}: {json.dumps(table[key])}" for key in ("version", "onehead", "numerical", "table")
    )
    groups = []
    for group, rows in table["groups"].items():
        lines = ",\n".join(
            f"   {json.dumps(name, ensure_ascii=False)}: {json.dumps(row)}" for name, row in rows.items()
        )
        groups.append(f"  {json.dumps(group)}: {{\n{lines}\n  }}")
    body = ",\n".join(groups)
    return f'{{\n{head},\n "groups": {{\n{body}\n }}\n}}\n'


def main(words: list[str] | None = None) -> int:
    """Compare or write."""
    wish = parser("checks.regression", __doc__, "tests/regression/table.json anew").parse_args(words)
    if wish.write:
        return write()
    table, complaints = load(), []
    for group in GROUPS:
        start = time.perf_counter()
        found = compare(group, table)
        print(f"{group}: {len(table['groups'][group])} rows, {len(found)} moved, {time.perf_counter() - start:.1f} s")
        complaints += found
    print(*complaints, sep="\n")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
