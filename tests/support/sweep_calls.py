"""Calls that only tests make: trivial, slow, failing, deadly."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from onehead.errors import NotConverged


def trivial(words, seed):
    return {"square": words["x"] ** 2, "status": "done", "kind": "measurement", "residual": 0.0}


def sleep(words, seed):
    time.sleep(words["seconds"])
    return {"square": words["x"] ** 2}


def draw(words, seed):
    return {"number": float(np.random.default_rng(seed).standard_normal()), "seed_used": seed}


def broken(words, seed):
    """A third is not solved, a third has a bug, the rest is fine."""
    if words["x"] % 3 == 0:
        raise NotConverged("it ran away.", residual=0.25)
    if words["x"] % 3 == 1:
        return {"ratio": 1 / 0}
    return {"ratio": 1.0}


def deadly(words, seed):
    """Kills its own process at one point."""
    if words["x"] == words["victim"]:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.005)
    return {"square": words["x"] ** 2}


def deadly_once(words, seed):
    """Kills its own process the first time it is asked, and counts every visit in a file."""
    mark = Path(words["folder"]) / f"dead-{words['x']}"
    if words["x"] % 80 == 20 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": words["x"] ** 2}


def cured(words, seed):
    """Fails until a file appears."""
    if not Path(words["cure"]).exists():
        raise NotConverged("not yet.")
    return {"square": words["x"] ** 2}


def heavy(words, seed):
    time.sleep(words.get("pause", 0.0))
    return {"x_mean": 0.5, "table": np.random.default_rng(seed).standard_normal(words["size"])}


def wide(words, seed):
    """Slow enough that answers are written several times, and long."""
    time.sleep(0.002)
    return {"text": "y" * 2000, "square": words["x"] ** 2}


def interrupted(words, seed):
    if words["x"] == 5:
        raise KeyboardInterrupt
    return {"square": words["x"] ** 2}


def slow_once(words, seed):
    """Says which process works on it, and takes its time."""
    (Path(words["folder"]) / f"at-{os.getpid()}").touch()
    time.sleep(0.5)
    return {"square": words["x"] ** 2}


def stopped_once(words, seed):
    """Stops its own process the first time it is asked."""
    mark = Path(words["folder"]) / f"stopped-{words['x']}"
    if words["x"] == 7 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    return {"square": words["x"] ** 2}


def half_answer(words, seed):
    """Ctrl-C within a verb that answers it with what it has: not a point, and not a failed one."""
    from onehead.numerics.interrupts import heard

    try:
        with heard():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.0)
    except KeyboardInterrupt:
        if words["verb"] == "aim.scaling":
            raise NotConverged("interrupted before it was solved.") from None
    return {"square": words["x"] ** 2}
