"""Rows of the regression table for tokens with a mean or a covariance, layers of several heads, finite training time,
and sparse tokens that are trained jointly.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from onehead import aim, sparse

Numbers = dict[str, float]
Row = tuple[str, Numbers, float | Numbers]  # name, numbers, relative error by the certificate or the errors they state

CROSS = {"attention": "cross", "target": aim.Product(kappa0=0.5)}
POINT = ("test_error", "train_loss", "rank", "q", "m", "sigma")
HEADS = (*POINT, "q_cross", "m_cross", "head_error")
DESCENT = ("test_error", "train_loss", "cos_query", "cos_readout", "norm_query", "norm_readout")


def _row(name: str, result: Any, names: Iterable[str]) -> Row:
    """Row of numbers that the result states errors for."""
    return name, {key: float(getattr(result, key)) for key in names}, result.errors


def aim_data() -> Iterator[Row]:
    """Tokens with a mean, a fluctuating mean or a covariance, and the data that a learner needs."""
    settings: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "cross unasked=0.77": ({"unasked": 0.77}, {}),
        "cross T=3 causal unasked=0.5": ({"tokens": 3, "mask": "causal", "unasked": 0.5}, {}),
        "self unasked=0.5": ({"attention": "self", "unasked": 0.5}, {}),
        "cross hard unasked=0.5": ({"labels": "hard", "unasked": 0.5}, {"loss": "cross-entropy", "weight_decay": 0.1}),
        "cross unasked=0.5 fluctuation=1": ({"unasked": 0.5, "fluctuation": 1.0}, {}),
        "cross levels direct": ({"token_spectrum": "levels:0.5,0.1"}, {"param": "direct"}),
        "cross levels": ({"token_spectrum": "levels:0.5,0.1"}, {}),
        "cross subspace": ({"token_spectrum": "subspace:0.5"}, {}),
    }
    for words, (task, learner) in settings.items():
        point = aim.predict(aim.Task(**{**CROSS, **task}), aim.Learner(**{"weight_decay": 0.05, **learner}), 1.0)
        yield _row(f"aim.predict {words} α=1", point, POINT)
        if point.task.unasked:
            yield _row(f"aim.predict {words} α=1, shared", point, ("unasked_scale", "unasked_share"))
    task, learner = aim.Task(**CROSS), aim.Learner(weight_decay=0.05)
    needed = aim.data_for(task, learner, 0.1)
    assert isinstance(needed, aim.DataNeeded)
    yield (
        "aim.data_for cross λ=0.05 0.1",
        {"alpha": needed.alpha, "weight_decay": float(needed.weight_decay or 0.0)},
        1e-4,
    )


def aim_layers() -> Iterator[Row]:
    """Heads that share values, learnt values, heads that vanish, singular values in time."""
    learner = aim.Learner(weight_decay=0.05)
    for words, own in {
        "H=2 ρ=0.5": {"heads": 2, "sharing": 0.5},
        "H=2 ρ=-0.5 T=3": {"heads": 2, "sharing": -0.5, "tokens": 3},
        "H=3 ρ=0.3": {"heads": 3, "sharing": 0.3},
    }.items():
        yield _row(f"aim.predict {words} α=1", aim.predict(aim.Task(**CROSS, **own), learner, 1.0), HEADS)
    learnt = aim.Learner(weight_decay=0.05, values="learnt")
    yield _row("aim.predict H=2 learnt α=1", aim.predict(aim.Task(**CROSS, heads=2), learnt, 1.0), HEADS)
    found = aim.survivors(aim.Task(**CROSS, heads=2), learnt, 1.0)
    yield _row("aim.survivors H=2 λ=0.05 α=1", found, ("test_error", "q", "m"))
    point = aim.predict(aim.Task(**CROSS), learner, 1.0)
    for time in (3.0, 30.0):
        law = aim.training_time(point, time)
        yield f"aim.training_time λt={time:g}", {"mean": law.mean, "second_moment": law.second_moment}, 1e-4


def sparse_joint() -> Iterator[Row]:
    """Query and readout trained together or on the same samples."""
    task, plan = sparse.Task(), {"beta": 1.0, "alpha0": 1.0, "alpha1": 1.0}
    for batch in ("same", "fresh"):
        found = sparse.descend(task, sparse.Protocol(ridge=1e-2, **plan), steps=6, batch=batch)
        yield _row(f"sparse.descend {batch}, 6 steps", found, DESCENT)
    joint = sparse.joint(task, sparse.Protocol(ridge=0.1, ridge_query=0.1, **plan))
    yield _row("sparse.joint ridges 0.1 α=2", joint, DESCENT)
    reused = sparse.predict(task, sparse.Protocol(reuse=True, ridge=1e-2, alpha0=1.0, alpha1=1.0))
    yield _row("sparse.predict reuse α=2", reused, ("test_error", "train_loss"))
