"""Verdicts of `onehead weights` on random heads, on planted ones, and on heads trained by `aim.train`.

`python -m studies.verdicts [--write]` prints the tables, and with ``--write`` puts them into docs/assets/verdicts.md.
The tables count verdicts on 2,000 random heads of six shapes (any other than noise is a false alarm) and on heads with
a known truth, and give the distance of fitted parameters of trained heads from the theory, in stated errors. About ten
minutes on one core.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from checks.tool import parser, table, write
from numpy.typing import NDArray

from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.training.settings import Method
from onehead.aim.training.train import train
from onehead.aim.verbs.predict import predict
from onehead.weights import VERDICTS, HeadReport, head_report

Array = NDArray[np.float64]
Pair = tuple[Array, Array]
Rng = np.random.Generator

ASSET = "verdicts.md"
SHAPES = ((16, 128), (32, 384), (64, 512), (64, 768), (64, 64), (128, 1024))  # head_dim, hidden
RANDOM = 2000  # random heads
PLANTED = 40  # planted heads of each kind
METHOD = Method(starts=1, test_samples=100)
PARAMETERS = ("kappa0", "spread", "threshold", "slope")


def random_pair(rng: Rng, kind: str, head_dim: int, hidden: int) -> Pair:
    """Return query and key before training: normal, uniform (Xavier, Kaiming) or normal truncated at two deviations."""
    if kind == "uniform":
        query, key = rng.uniform(-1.0, 1.0, (2, head_dim, hidden)) / hidden**0.5
        return query, key
    both = rng.standard_normal((2, head_dim, hidden))
    while kind == "truncated" and (far := np.abs(both) > 2.0).any():
        both[far] = rng.standard_normal(int(far.sum()))
    return both[0] / hidden**0.5, both[1] / hidden**0.5


def directions(rng: Rng, head_dim: int, hidden: int, count: int) -> Array:
    """Return a matrix with ``count`` singular values 1 in random directions."""
    left = np.linalg.qr(rng.standard_normal((head_dim, count)))[0]
    return np.asarray(left @ np.linalg.qr(rng.standard_normal((hidden, count)))[0].T)


def low_rank_plus_noise(rng: Rng, strength: float, count: int = 4) -> Pair:
    """Return random factors, with singular values 1 ± 0.3, plus directions common to query and key."""
    query, key = random_pair(rng, "normal", 32, 384)
    common = strength * directions(rng, 32, 384, count)
    return query + common, key + common


def low_rank(rng: Rng) -> Pair:
    """Return factors of rank 20 of 64."""
    query, key = (rng.standard_normal((64, 20)) @ rng.standard_normal((20, 512)) for _ in range(2))
    return query, key


def correlated(rng: Rng) -> Pair:
    """Return a key that contains part of the query: no direction stands out, but the head is not random."""
    query, key = random_pair(rng, "normal", 32, 384)
    return query, key + 0.3 * query


def decayed(rng: Rng) -> Pair:
    """Return a query whose large singular values are enhanced."""
    query, key = random_pair(rng, "normal", 64, 512)
    left, values, right = np.linalg.svd(query, full_matrices=False)
    return (left * values**2) @ right, key


PLANTS: dict[str, tuple[str, Callable[[Rng], Pair]]] = {  # kind of head -> expected verdict and its construction
    "random, 32 x 384": ("noise", lambda rng: random_pair(rng, "normal", 32, 384)),
    "4 directions of strength 0.5 in bulks of 1": ("noise", lambda rng: low_rank_plus_noise(rng, 0.5)),
    "4 directions of strength 1": ("features", lambda rng: low_rank_plus_noise(rng, 1.0)),
    "4 directions of strength 2": ("features", lambda rng: low_rank_plus_noise(rng, 2.0)),
    "1 direction of strength 8": ("features", lambda rng: low_rank_plus_noise(rng, 8.0, 1)),
    "rank 20 of 64": ("low rank", low_rank),
    "key in part the query": ("deformed", correlated),
    "squeezed query": ("deformed", decayed),
}
TRAINED: dict[str, tuple[str, Task, Learner]] = {
    "trained, tied, decay 0.03": ("low rank", Task(target=MarchenkoPastur(kappa0=0.2)), Learner(weight_decay=0.03)),
    "trained, self-attention, decay 0.05": ("low rank", Task.read({"attention": "self"}), Learner(weight_decay=0.05)),
    "trained, cross-attention, decay 0.05": ("low rank", Task.read({"attention": "cross"}), Learner(weight_decay=0.05)),
    "trained, cross-attention, width 0.3": (
        "deformed", Task.read({"attention": "cross"}), Learner(weight_decay=0.01, width=0.3)
    ),
}  # fmt: skip


def factors(S: Array, tied: bool, width: float) -> Pair:
    """Return query and key of a trained map, with width x d rows; for a tied head both are W with W'W = S."""
    rows = max(1, round(min(width, 1.0) * len(S)))
    if tied:
        values, vectors = np.linalg.eigh(S)
        W = ((np.sqrt(np.clip(values, 0.0, None)) * vectors).T)[::-1][:rows]
        return W, W
    U, values, Vt = np.linalg.svd(S)
    roots = np.sqrt(values[:rows])
    return (U[:, :rows] * roots).T, roots[:, None] * Vt[:rows]


def trained_heads(task: Task, learner: Learner, dim: int, alpha: float, seeds: int) -> Iterator[HeadReport]:
    """Yield reports, with fits, on trained heads."""
    for run in train(task, learner, dim=dim, alpha=alpha, seeds=seeds, method=METHOD).runs:
        yield head_report(*factors(run.map, task.tied, learner.width))


def grouped(rng: Rng) -> list[HeadReport]:
    """Return reports on four queries that share a key with a direction of its own; the last query has one too."""
    _, key = random_pair(rng, "normal", 32, 384)
    key = key + 8.0 * directions(rng, 32, 384, 1)
    queries = [random_pair(rng, "normal", 32, 384)[0] for _ in range(4)]
    queries[3] = queries[3] + 8.0 * directions(rng, 32, 384, 1)
    return [head_report(query, key, fit=False, shared_key=True) for query in queries]


def false_alarms(count: int) -> list[tuple[str, str, int, int]]:
    """Return shape, kind, number of heads, and how many of them got a verdict other than noise."""
    rng, rows = np.random.default_rng(1), []
    kinds = ("normal", "uniform", "truncated")
    each = -(-count // (len(SHAPES) * len(kinds)))
    for head_dim, hidden in SHAPES:
        for kind in kinds:
            pairs = (random_pair(rng, kind, head_dim, hidden) for _ in range(each))
            alarms = sum(head_report(*pair, fit=False).verdict != "noise" for pair in pairs)
            rows.append((f"{head_dim} x {hidden}", kind, each, alarms))
    return rows


def confusion(count: int, seeds: int) -> list[tuple[str, str, Counter[str | None]]]:
    """Return kind of head, expected verdict, and the verdicts it got."""
    rng, rows = np.random.default_rng(2), []
    for name, (expected, make) in PLANTS.items():
        rows.append((name, expected, Counter(head_report(*make(rng), fit=False).verdict for _ in range(count))))
    for name, (expected, task, learner) in TRAINED.items():
        found = trained_heads(task, learner, 80, 1.0, seeds)
        rows.append((name, expected, Counter(head.verdict for head in found)))
    shared = [grouped(rng) for _ in range(count)]
    rows.append(("grouped: only the key has a direction", "noise", Counter(h.verdict for g in shared for h in g[:3])))
    rows.append(("grouped: the query has one too", "features", Counter(g[3].verdict for g in shared)))
    return rows


def recovered(seeds: int) -> list[tuple[str, str, float, list[tuple[float, float]]]]:
    """Return setting, parameter, value in theory, and the fitted values with their stated errors."""
    rows = []
    for name, (_, task, learner) in list(TRAINED.items())[:3]:
        point = predict(task, learner, alpha=1.0)
        truth = {
            "kappa0": 0.2 if task.tied else 0.5,
            "spread": point.spread,
            "threshold": point.threshold,
            "slope": point.slope,
        }
        heads = list(trained_heads(task, learner, 80, 1.0, seeds))
        fits = [head.fit("tied" if task.tied else "untied") for head in heads]
        for parameter in PARAMETERS:
            found = [(fit.parameters[parameter], fit.errors[parameter]) for fit in fits if fit is not None]
            rows.append((name, parameter, truth[parameter], found))
    return rows


def report(count: int, planted: int, seeds: int) -> str:
    """Return all tables."""
    alarms = false_alarms(count)
    heads, wrong = sum(row[2] for row in alarms), sum(row[3] for row in alarms)
    verdicts = confusion(planted, seeds)
    fits = recovered(seeds)
    farthest = max(abs(value - truth) / error for _, _, truth, found in fits for value, error in found)
    return "\n\n".join(
        [
            f"**False alarms.** {wrong} of {heads} random heads ({wrong / heads:.2%}) got a verdict other than noise.",
            table(
                ["head_dim x hidden", "entries", "heads", "false alarms"],
                [[shape, kind, str(number), str(bad)] for shape, kind, number, bad in alarms],
                (2, 3),
            ),
            "**Verdicts.** Each row is a kind of head; the expected verdict is in bold.",
            table(
                ["heads", *VERDICTS],
                [
                    [
                        name,
                        *(
                            f"**{found[verdict]}**" if verdict == expected else str(found[verdict] or "")
                            for verdict in VERDICTS
                        ),
                    ]
                    for name, expected, found in verdicts
                ],
                range(1, 1 + len(VERDICTS)),
            ),
            f"**Parameters** of trained heads (d = 80, α = 1), fitted from their weights alone. "
            f"The farthest is {farthest:.1f} stated errors off.",
            table(
                ["heads", "parameter", "theory", "fitted"],
                [
                    [name, parameter, f"{truth:.3f}", ", ".join(f"{value:.2f} ± {error:.2f}" for value, error in found)]
                    for name, parameter, truth, found in fits
                ],
                (2,),
            ),
        ]
    )


def main() -> int:
    """Print the tables."""
    options = parser("studies.verdicts", __doc__, f"docs/assets/{ASSET}")
    options.add_argument("--count", type=int, default=RANDOM)
    options.add_argument("--planted", type=int, default=PLANTED)
    options.add_argument("--seeds", type=int, default=3)
    arguments = options.parse_args()
    write(ASSET, report(arguments.count, arguments.planted, arguments.seeds), wanted=arguments.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
