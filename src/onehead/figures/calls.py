"""Numbers that figures need and no call of a sweep gives: each is one point of a sweep of its own, kept like any other.

Every function takes flat words and a seed, and returns numbers, words and arrays (see `onehead.sweep.calls`).
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onehead import aim, sparse
from onehead.aim.words import problem_from_words
from onehead.errors import NotConverged
from onehead.problem import Problem

__all__ = [
    "bayes_gap",
    "best_decay",
    "checkpoint_head",
    "counting",
    "distance",
    "first_cosines",
    "leading_point",
    "name",
    "phase_row",
    "scaling_point",
    "separable_crossing",
    "trained_head",
]

Array = NDArray[np.float64]
Row = dict[str, Any]
Kind = TypeVar("Kind", bound=Problem)


def name(function: str) -> str:
    """The word under which a sweep finds a function of this module."""
    return f"{__name__}:{function}"


def best_decay(words: Row, _seed: int) -> Row:
    """The weight decay with the lowest test error, and the prediction there; ``weight_decay`` 0 is the limit."""
    from onehead.aim.verbs.tune import best_decay as best  # noqa: PLC0415  (every call loads what it needs)

    task, learner, rest = problem_from_words(words)
    point = best(task, learner, rest["alpha"])
    row = {key: getattr(point, key) for key in ("test_error", "test_error_clean", "train_loss", "rank", "q", "m")}
    return {"weight_decay": point.learner.decay, **row, "status": point.status, "kind": point.certificate.kind}


def bayes_gap(words: Row, _seed: int) -> Row:
    """A head at its best weight decay beside the best possible learner (A.7)."""
    from onehead.aim.verbs.bayes import Yardstick  # noqa: PLC0415
    from onehead.aim.verbs.tune import beside_best  # noqa: PLC0415

    task, _, rest = problem_from_words(words)
    tuned, yardstick = best_decay({**words, "leading": 0}, _seed), Yardstick(task)  # both with Gaussian logits
    return {
        **tuned,
        **beside_best(yardstick, rest["alpha"], tuned["test_error"]),
        "floor": yardstick.test_error(yardstick.power),
    }


def scaling_point(words: Row, _seed: int) -> Row:
    """Excess error, local exponent and parts at one number of samples (7, 8)."""
    task, learner, _ = problem_from_words({key: value for key, value in words.items() if key != "samples"})
    point = aim.scaling(task, learner, [words["samples"]]).points[0]
    row = point.to_dict()
    if row["kind"] is None:
        raise NotConverged(row["status"])
    word = str(words["weight_decay"])
    return {**row, "warnings": "; ".join(row["warnings"]), "weight_decay": learner.decay, "weight_decay_word": word}


def leading_point(words: Row, _seed: int) -> Row:
    """A prediction for a power law, with its plateau, its largest eigenvalue and how large leading directions look (P3)."""
    asked = {key: value for key, value in words.items() if key != "samples"}
    task, learner, _ = problem_from_words(asked)
    point = aim.predict(task, learner, words["samples"] / words["dim"] ** 2)
    outliers = aim.spectrum(point).outliers
    return {
        "test_error": point.test_error,
        "plateau": point.test_error - point.excess_error,
        "top": outliers[0].position if outliers else 0.0,
        **{f"seen_{k}": one.effective / one.target for k, one in enumerate(point.directions, start=1)},
        "status": point.status,
        "kind": point.certificate.kind,
    }


def phase_row(words: Row, _seed: int) -> Row:
    """One weight decay of the rate diagram: every number of samples, from many to few (7)."""
    task = aim.Task(target=aim.PowerLaw(gamma=words["gamma"], dim=words["dim"]), noise=words["noise"])
    steps = np.round(np.arange(words["first"], words["last"] + 1e-9, words["step"]), 10)
    cells = aim.phase_diagram(task, log_n=steps.tolist(), log_lambda=[words["log_lambda"]]).cells
    return {
        "log_n": steps,
        "excess": np.array([np.nan if cell.excess_error is None else cell.excess_error for cell in cells]),
        "exponent": np.array([np.nan if cell.local_exponent is None else cell.local_exponent for cell in cells]),
        "region": np.array([cell.region or "failed" for cell in cells]),
        "solved": sum(cell.excess_error is not None for cell in cells),
        "status": "converged",
        "kind": "conjecture",
    }


def counting(words: Row, _seed: int) -> Row:
    """How many eigenvalues of the trained map lie above x, for x between the ends of its law (5)."""
    task, learner, rest = problem_from_words(words)
    law = aim.spectrum(aim.predict(task, learner, rest["alpha"]))
    top = max([edge for _, edge in law.edges] + [outlier.position for outlier in law.outliers])
    x = np.geomspace(0.01 * top, 1.05 * top, 400)
    return {
        "x": x,
        "count": words["dim"] * (1.0 - law.cdf(x)),
        "outliers": len(law.outliers),
        "outlier_position": np.array([outlier.position for outlier in law.outliers]),
        "rank": law.rank,
        "bulk_edge": law.edges[0][1] if law.edges else 0.0,
        "status": "converged",
        "kind": "conjecture",
    }


def distance(words: Row, seed: int) -> Row:
    """Squared distance |S - S*|²/d of trained heads, with its standard error over seeds (1.3)."""
    task, learner, rest = problem_from_words(words)
    found = aim.train(
        task,
        learner,
        dim=rest["dim"],
        alpha=rest["alpha"],
        seeds=rest["seeds"],
        seed=seed,
        method=aim.Method(starts=1),
    )
    if found.status.startswith("interrupted"):
        raise KeyboardInterrupt
    far = np.array([np.sum((run.map - run.target) ** 2) / rest["dim"] for run in found.runs])
    return {
        "distance": float(far.mean()),
        "distance_err": float(far.std(ddof=1) / np.sqrt(len(far))),
        "test_error": found.test_error,
        "test_error_err": found.spread["test_error_err"],
        "status": found.status,
        "kind": "measurement",
    }


def first_cosines(words: Row, seed: int) -> Row:
    """Cosines of query and first readout with the signal after the two gradient steps on real tokens."""
    from onehead.sparse.training.samplers import first_steps  # noqa: PLC0415

    task, plan = _part(sparse.Task, words), _part(sparse.Protocol, words)
    sources = np.random.SeedSequence(seed).spawn(words["trials"])
    found = np.array([first_steps(task, plan, words["dim"], np.random.default_rng(source)).cos for source in sources])
    error = float(found.std(ddof=1) / np.sqrt(len(found)))
    return {"cos_query": float(found.mean()), "cos_query_err": error, "status": "sampled", "kind": "measurement"}


def _part(problem: type[Kind], words: Row) -> Kind:
    """The part of some words that makes a problem."""
    return problem(**{key: value for key, value in words.items() if key in problem.model_fields})


def separable_crossing(words: Row, seed: int) -> Row:
    """Sample ratio at which half of the finite samples are separable, by linear programming around ``near``."""
    task = _part(sparse.Task, words)
    factors = np.array([0.7, 0.85, 1.0, 1.15, 1.3])
    shares = [
        sparse.separable_share(
            task,
            sparse.Protocol(
                alpha1=float(factor * words["near"]), cos_query=words["cos_query"], sharpness=words["sharpness"]
            ),
            dim=words["dim"],
            trials=words["trials"],
            seed=seed,
        )
        for factor in factors
    ]
    # a falling step from one to zero crosses one half at its area; each share has a binomial error
    widths = np.array([0.15, 0.15, 0.15, 0.15, 0.15])
    low = factors[0] - 0.075
    crossing = low + float(widths @ shares)
    share = np.clip(shares, 0.5 / words["trials"], 1.0 - 0.5 / words["trials"])
    error = float(np.sqrt(np.sum(widths**2 * share * (1.0 - share) / words["trials"])))
    return {
        "capacity": crossing * words["near"],
        "capacity_err": error * words["near"],
        "ratios": factors * words["near"],
        "shares": np.array(shares),
        "status": "linear programming",
        "kind": "measurement",
    }


def trained_head(words: Row, seed: int) -> Row:
    """A head trained by ourselves, read like one of a checkpoint: its factor W serves as query and key."""
    from onehead.weights import head_report  # noqa: PLC0415

    task, learner, rest = problem_from_words(words)
    run = aim.train(task, learner, dim=rest["dim"], alpha=rest["alpha"], seed=seed).runs[0]
    values, vectors = np.linalg.eigh(run.map)
    weights = (np.sqrt(np.clip(values, 0.0, None)) * vectors).T
    return _head(head_report(weights, weights, layer=0, head=0, bootstrap=0))


def checkpoint_head(words: Row, _seed: int) -> Row:
    """One head of a real checkpoint."""
    from onehead.weights import survey  # noqa: PLC0415

    return _head(survey(words["path"], layers=[words["layer"]], heads=[words["head"]]).heads[0])


def _head(report: Any) -> Row:
    """Numbers and arrays of a head for a picture: singular values, and what each law expects at each rank."""
    values = report.singular_values[: round(report.rank * report.hidden)]
    row: Row = {
        "values": values,
        "beyond": len(report.outliers),
        "bulk_edge": report.bulk_edge,
        "rank": report.rank,
        "hidden": report.hidden,
        "head_dim": report.head_dim,
        "symmetric_share": report.symmetric_share,
        "best_law": report.best_law,
        "verdict": report.verdict,
        "status": report.status,
        "kind": "measurement",
    }
    for fit in report.fits:
        row[f"expected_{fit.law}"] = np.asarray(fit.expected)
        row[f"ks_{fit.law}"] = fit.ks
    return row
