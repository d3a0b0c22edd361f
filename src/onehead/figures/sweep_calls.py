"""Functions of one sweep point for numbers that figures need and that no public verb returns.

Every function takes a flat dictionary of parameters and a seed, and returns numbers, texts and arrays (see
`onehead.sweep.registry`). The names of the functions are part of the keys in stores, so they must not change.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onehead import aim, sparse
from onehead.aim.flat_parameters import problem_from_parameters
from onehead.errors import NotConverged
from onehead.problem import Problem

Array = NDArray[np.float64]
Row = dict[str, Any]
Kind = TypeVar("Kind", bound=Problem)


def call_name(function: str) -> str:
    """Return the name under which a sweep finds a function of this module."""
    return f"{__name__}:{function}"


def best_decay(parameters: Row, _seed: int) -> Row:
    """Return the weight decay with the lowest test error, 0 for the limit λ → 0⁺, and the prediction there."""
    from onehead.aim.verbs.tune import best_decay as best

    task, learner, others = problem_from_parameters(parameters)
    point = best(task, learner, others["alpha"])
    row = {key: getattr(point, key) for key in ("test_error", "test_error_clean", "train_loss", "rank", "q", "m")}
    return {"weight_decay": point.learner.decay, **row, "status": point.status, "kind": point.certificate.kind}


def bayes_gap(parameters: Row, _seed: int) -> Row:
    """Return the prediction at the best weight decay and its gap to the best possible learner (A.7)."""
    from onehead.aim.verbs.bayes import BayesReference
    from onehead.aim.verbs.tune import bayes_gap_at

    task, _, others = problem_from_parameters(parameters)
    # both with Gaussian logits
    tuned, reference = best_decay({**parameters, "leading": 0}, _seed), BayesReference(task)
    return {
        **tuned,
        **bayes_gap_at(reference, others["alpha"], tuned["test_error"]),
        "floor": reference.test_error(reference.power),
    }


def scaling_point(parameters: Row, _seed: int) -> Row:
    """Return excess error, local exponent and parts of the error at one number of samples (7, 8)."""
    task, learner, _ = problem_from_parameters({key: value for key, value in parameters.items() if key != "samples"})
    point = aim.scaling(task, learner, [parameters["samples"]]).points[0]
    row = point.to_dict()
    if row["kind"] is None:
        raise NotConverged(row["status"])
    text = str(parameters["weight_decay"])
    return {**row, "warnings": "; ".join(row["warnings"]), "weight_decay": learner.decay, "weight_decay_word": text}


def leading_point(parameters: Row, _seed: int) -> Row:
    """Return the prediction for a power law: error, plateau, largest and effective eigenvalues (P3)."""
    task, learner, _ = problem_from_parameters({key: value for key, value in parameters.items() if key != "samples"})
    point = aim.predict(task, learner, parameters["samples"] / parameters["dim"] ** 2)
    outliers = aim.spectrum(point).outliers
    return {
        "test_error": point.test_error,
        "plateau": point.test_error - point.excess_error,
        "top": outliers[0].position if outliers else 0.0,
        **{f"seen_{k}": one.effective / one.target for k, one in enumerate(point.directions, start=1)},
        "status": point.status,
        "kind": point.certificate.kind,
    }


def phase_row(parameters: Row, _seed: int) -> Row:
    """Return one row of the rate diagram: all numbers of samples at one weight decay (7)."""
    task = aim.Task(target=aim.PowerLaw(gamma=parameters["gamma"], dim=parameters["dim"]), noise=parameters["noise"])
    steps = np.round(np.arange(parameters["first"], parameters["last"] + 1e-9, parameters["step"]), 10)
    cells = aim.phase_diagram(task, log_n=steps.tolist(), log_lambda=[parameters["log_lambda"]]).cells
    return {
        "log_n": steps,
        "excess": np.array([np.nan if cell.excess_error is None else cell.excess_error for cell in cells]),
        "exponent": np.array([np.nan if cell.local_exponent is None else cell.local_exponent for cell in cells]),
        "region": np.array([cell.region or "failed" for cell in cells]),
        "solved": sum(cell.excess_error is not None for cell in cells),
        "status": "converged",
        "kind": "conjecture",
    }


def counting(parameters: Row, _seed: int) -> Row:
    """Return the number of eigenvalues of the trained map above x, for x over the range of its law (5)."""
    task, learner, others = problem_from_parameters(parameters)
    law = aim.spectrum(aim.predict(task, learner, others["alpha"]))
    top = max([edge for _, edge in law.edges] + [outlier.position for outlier in law.outliers])
    x = np.geomspace(0.01 * top, 1.05 * top, 400)
    return {
        "x": x,
        "count": parameters["dim"] * (1.0 - law.cdf(x)),
        "outliers": len(law.outliers),
        "outlier_position": np.array([outlier.position for outlier in law.outliers]),
        "rank": law.rank,
        "bulk_edge": law.edges[0][1] if law.edges else 0.0,
        "status": "converged",
        "kind": "conjecture",
    }


def distance(parameters: Row, seed: int) -> Row:
    """Return the squared distance |S - S*|²/d of trained heads, with its standard error over seeds (1.3)."""
    task, learner, others = problem_from_parameters(parameters)
    found = aim.train(
        task,
        learner,
        dim=others["dim"],
        alpha=others["alpha"],
        seeds=others["seeds"],
        seed=seed,
        method=aim.Method(starts=1),
    )
    if found.status.startswith("interrupted"):
        raise KeyboardInterrupt
    distances = np.array([np.sum((run.map - run.target) ** 2) / others["dim"] for run in found.runs])
    return {
        "distance": float(distances.mean()),
        "distance_err": float(distances.std(ddof=1) / np.sqrt(len(distances))),
        "test_error": found.test_error,
        "test_error_err": found.spread["test_error_err"],
        "status": found.status,
        "kind": "measurement",
    }


def first_cosines(parameters: Row, seed: int) -> Row:
    """Return the cosine of the query with the signal after the two gradient steps on sampled tokens."""
    from onehead.sparse.training.samplers import first_steps

    task, plan = _part(sparse.Task, parameters), _part(sparse.Protocol, parameters)
    sources = np.random.SeedSequence(seed).spawn(parameters["trials"])
    found = np.array(
        [first_steps(task, plan, parameters["dim"], np.random.default_rng(source)).cos for source in sources]
    )
    error = float(found.std(ddof=1) / np.sqrt(len(found)))
    return {"cos_query": float(found.mean()), "cos_query_err": error, "status": "sampled", "kind": "measurement"}


def _part(problem: type[Kind], parameters: Row) -> Kind:
    """Return the problem of this class made of those parameters that are its fields."""
    return problem(**{key: value for key, value in parameters.items() if key in problem.model_fields})


def separable_crossing(parameters: Row, seed: int) -> Row:
    """Return the sample ratio at which half of the data sets are separable, by linear programming around ``near``."""
    task = _part(sparse.Task, parameters)
    factors = np.array([0.7, 0.85, 1.0, 1.15, 1.3])
    shares = [
        sparse.separable_share(
            task,
            sparse.Protocol(
                alpha1=float(factor * parameters["near"]),
                cos_query=parameters["cos_query"],
                sharpness=parameters["sharpness"],
            ),
            dim=parameters["dim"],
            trials=parameters["trials"],
            seed=seed,
        )
        for factor in factors
    ]
    # for a decreasing step from one to zero, the crossing of one half is its area; each share has a binomial error
    widths = np.array([0.15, 0.15, 0.15, 0.15, 0.15])
    low = factors[0] - 0.075
    crossing = low + float(widths @ shares)
    share = np.clip(shares, 0.5 / parameters["trials"], 1.0 - 0.5 / parameters["trials"])
    error = float(np.sqrt(np.sum(widths**2 * share * (1.0 - share) / parameters["trials"])))
    return {
        "capacity": crossing * parameters["near"],
        "capacity_err": error * parameters["near"],
        "ratios": factors * parameters["near"],
        "shares": np.array(shares),
        "status": "linear programming",
        "kind": "measurement",
    }


def start_gap(parameters: Row, seed: int) -> Row:
    """Return how much higher an objective random weights reach than weights close to the targets, for two heads (M6).

    The overlap of their values may be any, up to one.
    """
    from onehead.aim.training.data import Samples, Tokens
    from onehead.aim.training.instance import sample_count
    from onehead.aim.training.layer import LayerLoss, draw_targets
    from onehead.aim.training.objective import Objective
    from onehead.aim.training.parametrisation import Untied
    from onehead.numerics.minimise import lbfgs

    task = aim.Task(attention="cross", heads=2, beta0=parameters["beta0"], noise=parameters["noise"])
    dim, overlap, rng = parameters["dim"], parameters["overlap"], np.random.default_rng(seed)
    targets, weights = draw_targets(task, dim, rng), Untied(dim, dim, heads=2)
    samples = Samples(
        task=task,
        target=targets,
        count=sample_count(parameters["alpha"], dim),
        law=Tokens(),
        seed=np.random.SeedSequence(seed),
    )
    loss = LayerLoss(value_gram=(1.0 - overlap) * np.eye(2) + overlap)
    objective = Objective(samples=samples, weights=weights, loss=loss, decay=parameters["weight_decay"])
    # half the target is close to the minimum, whose maps weight decay makes smaller
    starts = weights.start(rng), weights.informed_start(0.5 * task.beta0 * targets, rng)
    random, informed = (
        lbfgs(objective, theta, tolerance=1e-4, max_iterations=3000, curvature=weights.curvature) for theta in starts
    )
    return {
        "excess": random.value / informed.value - 1.0,
        "train_loss": informed.value,
        "status": random.status,
        "kind": "measurement",
    }


def surviving_heads(parameters: Row, seed: int) -> Row:
    """Return the smallest head over the largest one, map times values, after training from each start (M8)."""
    task, learner, others = problem_from_parameters({**parameters, "attention": "cross", "values": "learnt"})
    found = aim.train_survivors(task, learner, others["alpha"], dim=others["dim"], seed=seed)
    sizes = {run.start: np.abs(run.scales) * run.trace_norms for run in found.trained}
    shares = {start.replace(" ", "_"): float(size[-1] / size[0]) for start, size in sizes.items()}
    best = found.trained[0]
    return {**shares, "alive": best.alive, "objective": best.objective, "status": best.ended, "kind": "measurement"}


def trained_head(parameters: Row, seed: int) -> Row:
    """Return the report on a head trained by `onehead.aim.train`, whose factor W serves as query and key."""
    from onehead.weights import head_report

    task, learner, others = problem_from_parameters(parameters)
    run = aim.train(task, learner, dim=others["dim"], alpha=others["alpha"], seed=seed).runs[0]
    values, vectors = np.linalg.eigh(run.map)
    weights = (np.sqrt(np.clip(values, 0.0, None)) * vectors).T
    return _head(head_report(weights, weights, layer=0, head=0, bootstrap=0))


def checkpoint_head(parameters: Row, _seed: int) -> Row:
    """Return the report on one head of a checkpoint."""
    from onehead.weights import survey

    return _head(survey(parameters["path"], layers=[parameters["layer"]], heads=[parameters["head"]]).heads[0])


def _head(report: Any) -> Row:
    """Return numbers and arrays of a report for a figure: singular values, and those that each law expects."""
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
