"""Results are the same bit for bit: when repeated, in fresh processes, with any number of threads, and while compiling.

Every number is compared by its hexadecimal form. Each process solves the same list of problems, one of each kind.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.golden import differences
from tests.support.programs import python

from onehead import aim, sparse
from onehead.spectra.atoms import AtomsSemicircle

ROOT = Path(__file__).parents[2]
POWER_LAW = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=60))
RARE = sparse.Task(length=6, signal_tokens=2, strength=3.0, positive_rate=0.3)
PLAN = sparse.Protocol(ridge=1e-2)


def bits(value):
    """Every number inside a result, exactly."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    return value


def heads():
    """Points with two, three and five tokens, and a curve."""
    points = [aim.predict(aim.Task(tokens=tokens), aim.Learner(weight_decay=0.1), 0.5) for tokens in (2, 3, 5)]
    # with few samples and noisy labels the solver continues in Sigma
    points.append(aim.predict(aim.Task(noise=1.5, beta0=2.0), aim.Learner(weight_decay=1e-5), 0.02))
    alphas = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 2.0]
    points += aim.curve(aim.Task(), aim.Learner(weight_decay=0.01), alphas).points
    return [point.to_dict() for point in points]


def readouts():
    """Every loss and every model of the sparse task."""
    return [
        sparse.predict(RARE, PLAN.changed(loss=loss), model=model).to_dict()
        for loss in ("logistic", "square", "hinge", "squared-hinge")
        for model in ("attention", "pooled", "vectorised")
    ]


def law():
    """A law of many eigenvalues: its edges, its density between them, and its mass."""
    found = AtomsSemicircle([0.0, 0.5, 3.0], 0.01)
    return [list(map(list, found.edges)), found.density(np.linspace(-0.2, 3.2, 30)).tolist(), found.mass_above(0.4)]


# one quick problem of each kind
KINDS = {
    "heads": heads,
    "law": law,
    "thresholds": lambda: aim.thresholds(aim.Task()).to_dict(),
    "spectrum": lambda: aim.spectrum(aim.predict(aim.Task(), aim.Learner(weight_decay=0.1), 0.5)).to_dict(),
    "power law": lambda: aim.scaling(POWER_LAW, aim.Learner(weight_decay=1.0 / 60.0), [500.0, 2000.0]).to_rows(),
    "phase diagram": lambda: [
        cell.to_dict() for cell in aim.phase_diagram(POWER_LAW, log_n=[1.5, 2.0, 2.5], log_lambda=[-1.0, 0.0])
    ],
    "tune": lambda: aim.tune(aim.Task(noise=0.1), aim.Learner(param="direct"), 2.0).to_dict(),
    "readouts": readouts,
    "capacity": lambda: sparse.capacity(RARE, PLAN).to_dict(),
    "oracle": lambda: sparse.oracle(RARE).to_dict(),
}
COMPILED = ("law", "capacity")  # quick to compile; functions that call each other, and functions passed to others
COMPILED_SOLVERS = ("spectrum", "power law", "capacity")  # the smallest set with the solvers of both theories


def answers(*names):
    """Answers of the named kinds, or of all, as JSON."""
    return json.dumps(bits({name: KINDS[name]() for name in names or KINDS}), sort_keys=True)


def fresh_process(threads, *names, **environment):
    """The same answers from a new process with that many threads, for kernels and for linear algebra."""
    settings = {**dict.fromkeys(("ONEHEAD_THREADS", "OPENBLAS_NUM_THREADS"), str(threads)), **environment}
    code = f"from tests.project.test_reproducibility import answers; print(answers(*{names!r}))"
    return json.loads(python(code, cwd=ROOT, **settings).strip())


@pytest.fixture(scope="module")
def here():
    return json.loads(answers())


def test_repeated_in_the_same_process(here):
    """Caches of the first solve do not change the second; `tune` is left out, a search that would repeat its own
    points.
    """
    names = [name for name in KINDS if name != "tune"]
    assert list(differences({name: here[name] for name in names}, json.loads(answers(*names)))) == []


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.nightly), 4])
def test_fresh_processes_with_any_number_of_threads(here, threads):
    assert list(differences(here, fresh_process(threads))) == []


@pytest.mark.slow
@pytest.mark.parametrize("names", [COMPILED, pytest.param(COMPILED_SOLVERS, marks=pytest.mark.nightly)], ids=len)
def test_processes_that_compile(here, tmp_path, names):
    """The first process after an installation, and one that finds only some functions in the cache."""
    wanted = {name: here[name] for name in names}
    assert list(differences(wanted, fresh_process(1, *names, NUMBA_CACHE_DIR=str(tmp_path)))) == []
    removed = [*tmp_path.rglob("atoms._find_edge*.nb?"), *tmp_path.rglob("atoms._densities*.nb?")]
    assert removed
    for file in removed:
        file.unlink()
    assert list(differences(wanted, fresh_process(1, *names, NUMBA_CACHE_DIR=str(tmp_path)))) == []
