"""Functions for sweeps in tests: trivial, slow, failing, or killing their own process."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from onehead.errors import NotConverged


def trivial(parameters, seed):
    return {"square": parameters["x"] ** 2, "status": "done", "kind": "measurement", "residual": 0.0}


def sleep(parameters, seed):
    time.sleep(parameters["seconds"])
    return {"square": parameters["x"] ** 2}


def draw(parameters, seed):
    return {"number": float(np.random.default_rng(seed).standard_normal()), "seed_used": seed}


def broken(parameters, seed):
    """Not solved for a third of x, a bug for another third, and a number otherwise."""
    if parameters["x"] % 3 == 0:
        raise NotConverged("it ran away.", residual=0.25)
    if parameters["x"] % 3 == 1:
        return {"ratio": 1 / 0}
    return {"ratio": 1.0}


def deadly(parameters, seed):
    """Kill the own process at x = victim."""
    if parameters["x"] == parameters["victim"]:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.005)
    return {"square": parameters["x"] ** 2}


def deadly_once(parameters, seed):
    """Kill the own process on the first call for some x; a file marks that it happened."""
    mark = Path(parameters["folder"]) / f"dead-{parameters['x']}"
    if parameters["x"] % 80 == 20 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": parameters["x"] ** 2}


def cured(parameters, seed):
    """Fail until the file ``cure`` exists."""
    if not Path(parameters["cure"]).exists():
        raise NotConverged("not yet.")
    return {"square": parameters["x"] ** 2}


def heavy(parameters, seed):
    time.sleep(parameters.get("pause", 0.0))
    return {"x_mean": 0.5, "table": np.random.default_rng(seed).standard_normal(parameters["size"])}


def wide(parameters, seed):
    """Return long answers, slowly enough that they are written in several batches."""
    time.sleep(0.002)
    return {"text": "y" * 2000, "square": parameters["x"] ** 2}


def interrupted(parameters, seed):
    if parameters["x"] == 5:
        raise KeyboardInterrupt
    return {"square": parameters["x"] ** 2}


def slow_once(parameters, seed):
    """Record the process number in a file, and take half a second."""
    (Path(parameters["folder"]) / f"at-{os.getpid()}").touch()
    time.sleep(0.5)
    return {"square": parameters["x"] ** 2}


def stopped_once(parameters, seed):
    """Stop the own process on the first call for x = 7."""
    mark = Path(parameters["folder"]) / f"stopped-{parameters['x']}"
    if parameters["x"] == 7 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    return {"square": parameters["x"] ** 2}


def half_answer(parameters, seed):
    """Press Ctrl-C inside a function that then returns an incomplete answer; the point must be neither stored nor
    failed.
    """
    from onehead.numerics.interrupts import record_interrupts

    try:
        with record_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.0)
    except KeyboardInterrupt:
        if parameters["verb"] == "aim.scaling":
            raise NotConverged("interrupted before it was solved.") from None
    return {"square": parameters["x"] ** 2}
