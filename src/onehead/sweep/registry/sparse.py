"""Calls of sparse-token classification: task and protocol from flat parameters, and the columns of each result."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from onehead import sparse
from onehead.fields import parameters_of
from onehead.problem import Problem
from onehead.results import plain
from onehead.sparse.task import Protocol, Task
from onehead.sweep.registry.base import (
    Call,
    PointResult,
    PreparedCall,
    Solver,
    omitted_from_key,
    point_result,
    verb_solver,
)
from onehead.sweep.settings import (
    AllSamples,
    NoSettings,
    SparseAmp,
    SparseDescend,
    SparseFiniteSize,
    SparseOracle,
    SparsePredict,
    SparseTrain,
    SparseTuneJoint,
    TotalSamples,
)

# a list of position weights cannot be written as a flat parameter
TASK = {name: declared for name, declared in parameters_of(Task).items() if name != "positions"}
PROTOCOL = parameters_of(Protocol)
TUNED = ("alpha0", "alpha1", "beta", "eta_b", "eta_q", "ridge", "cos_query", "sharpness", "dim")
TUNED_JOINT = (*TUNED, "eta_w", "ridge_query")


def _with_total(protocol: Protocol, alpha: float | None) -> Protocol:
    """Protocol with ``alpha`` samples over dimension in all, divided in the same proportion as before."""
    alpha = AllSamples(alpha=alpha).alpha
    if alpha is None:
        return protocol
    return protocol.changed(**{name: getattr(protocol, name) / protocol.alpha * alpha for name in ("alpha0", "alpha1")})


def _sparse_call(
    name: str,
    settings: type[Problem],
    solve: Solver | None = None,
    *,
    seeded: bool = False,
    given: tuple[str, ...] = (),
    defaults: Mapping[str, float] | None = None,
) -> Call:
    """Call of `onehead.sparse`; ``solve`` replaces the function of that name if the row needs more.

    ``defaults`` replace those of the protocol.
    """
    solver = solve or verb_solver(sparse, name)
    rescales = "alpha" not in settings.model_fields  # the call itself knows no total number of samples

    def build(values: dict[str, Any]) -> PreparedCall:
        others = {**(defaults or {}), **values}
        task = Task(**{name: others.pop(name) for name in TASK if name in others})
        protocol = Protocol(**{name: others.pop(name) for name in PROTOCOL if name in others})
        if rescales:
            protocol = _with_total(protocol, others.pop("alpha", None))
        chosen = settings(**others)

        def solve_seed(seed: int) -> PointResult:
            found = solver(task, protocol, chosen, seed if seeded else None)
            return PointResult(
                row={"alpha": protocol.alpha, **found.row} if rescales else found.row, arrays=found.arrays
            )

        return PreparedCall(
            parameters={**{name: plain(getattr(task, name)) for name in TASK}, **plain(protocol), **plain(chosen)},
            solve=solve_seed,
            omitted_from_key=omitted_from_key(task, protocol, chosen),
        )

    parameters = {**TASK, **PROTOCOL, **parameters_of(AllSamples), **parameters_of(settings)}
    return Call(name=name, parameters=parameters, seeded=seeded, build=build, given=given)


def _oracle(task: Task, _: Protocol, chosen: SparseOracle, seed: int) -> PointResult:
    return point_result(sparse.oracle(task, activation=chosen.activation, seed=seed))


def _bayes(task: Task, protocol: Protocol, _: NoSettings, seed: None) -> PointResult:
    return point_result(sparse.bayes(task, protocol.alpha))


def _amp(task: Task, protocol: Protocol, chosen: SparseAmp, seed: int) -> PointResult:
    found = sparse.amp(task, protocol.alpha, seed=seed, **dict(chosen))
    if found.certificate.interrupted:  # an incomplete measurement is not stored
        raise KeyboardInterrupt
    names = ("iteration", "overlap", "overlap_theory")
    steps = {name: np.array([getattr(step, name) for step in found.steps], dtype=float) for name in names}
    row = point_result(replace(found, steps=())).row
    return PointResult(row={**row, "steps": len(found.steps)}, arrays=steps)


def _descend(task: Task, protocol: Protocol, chosen: SparseDescend, seed: None) -> PointResult:
    found = sparse.descend(task, protocol, **dict(chosen))
    names = ("test_error", "train_loss", "train_error", "cos_query", "cos_readout")
    steps = {f"step_{name}": np.array([getattr(step, name) for step in found.steps]) for name in names}
    row = point_result(found).row
    return PointResult(row={**row, "steps": len(found.steps)}, arrays=steps)


SPARSE_CALLS = (
    _sparse_call("sparse.predict", SparsePredict),
    _sparse_call("sparse.train", SparseTrain, seeded=True),
    _sparse_call("sparse.descend", SparseDescend, _descend, given=("steps",), defaults={"beta": 1.0}),
    _sparse_call("sparse.joint", NoSettings, defaults={"beta": 1.0}),
    _sparse_call("sparse.align", NoSettings),
    _sparse_call("sparse.capacity", NoSettings),
    _sparse_call("sparse.oracle", SparseOracle, _oracle, seeded=True),
    _sparse_call("sparse.finite_size", SparseFiniteSize, seeded=True),
    _sparse_call("sparse.tune", TotalSamples, given=TUNED),
    _sparse_call("sparse.tune_joint", SparseTuneJoint, given=TUNED_JOINT),
    _sparse_call("sparse.bayes", NoSettings, _bayes),
    _sparse_call("sparse.amp", SparseAmp, _amp, seeded=True),
)
