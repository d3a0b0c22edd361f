"""Flags that every ``aim`` command shares: a task and a learner from words and numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from io import BytesIO
from pathlib import Path
from tokenize import TokenError  # numpy lets it through for a hostile header
from typing import Any

import click

from onehead.aim.targets import Target
from onehead.aim.task import Ratio
from onehead.aim.words import SHAPE, WORDS, dimension, problem_from_words, ratio_from_samples
from onehead.cli.values import Number, Range, flag_of, named_as_flags, type_of
from onehead.errors import InvalidArgument
from onehead.fields import words_of
from onehead.files import read_file
from onehead.problem import Accuracy

__all__ = [
    "COUNTS",
    "accuracy_option",
    "aim_options",
    "alpha_option",
    "alphas_option",
    "any_alpha_option",
    "bayes_option",
    "read_array",
    "read_eigenvalues",
    "tuned_option",
]

ALPHA, ACCURACY = words_of(Ratio)["alpha"], words_of(Accuracy)["accuracy"]
ATOMS_BYTES = 2_000_000  # of a list of eigenvalues: a hundred for each of the most there can be
ARRAY_BYTES = 4_000_000_000  # of an array of tokens, all of which are kept
COUNT = Number(gt=0.0, le=1e15)
COUNTS = Range(gt=0.0, le=1e15)


def aim_options(target: str = WORDS["target"].default) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the flags of every ``aim`` command; the command gets a ``task`` and a ``learner``.

    A command with a ``dim`` of its own gets that as well; ``--samples`` becomes ``alpha`` (or ``alphas``).
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        wants_dim = "dim" in signature(function).parameters

        @wraps(function)
        def call(**flags: Any) -> Any:
            words = {name: flags.pop(name) for name in WORDS if name in flags}
            if words["target"] is None and target != WORDS["target"].default:
                words["target"] = target  # the command has one of its own
            with named_as_flags(*WORDS.values()):
                if words["atoms"] is not None:
                    words["atoms"] = read_eigenvalues(words["atoms"])
                task, learner, rest = problem_from_words(words)
                dim = dimension(task.target) or rest.get("dim")
                _take_samples(flags, dim)
                if wants_dim:
                    if dim is None:
                        raise InvalidArgument("dim", None, "given: the dimension of a token (d)")
                    flags["dim"] = dim
                return function(task=task, learner=learner, **flags)

        result: Callable[..., Any] = call
        for said in reversed(WORDS.values()):
            if said.kind != "other":
                result = flag_of(said, **_particular(said.flat, target))(result)
        return result

    return decorate


def _particular(name: str, target: str) -> dict[str, Any]:
    """What the command line adds to the declaration of a word."""
    if name == "target":
        return {"default": target}
    if name == "atoms":
        text = f"{WORDS[name].help} From a .npy file, or numbers in a text file."
        return {"type": None, "metavar": "FILE", "help": text}
    if name in SHAPE and SHAPE[name].required:  # by some kinds of target; others have a default
        kinds = {kind: words_of(own).get(SHAPE[name].name) for kind, own in Target.known.items()}
        known = [f"{said.default} with {kind}" for kind, said in kinds.items() if said and not said.required]
        return {"default": ", ".join(known) or None}
    return {}


def _take_samples(flags: dict[str, Any], dim: int | None) -> None:
    """Let ``--samples`` stand for the ratio, or the ratios, that a command takes; one of them must be given, and no other."""
    names = [name for name in ("alphas", "alpha") if name in flags]
    if not names or "samples" not in flags:
        return
    counts = flags.pop("samples")
    said = sum(value is not None for value in (counts, *(flags[name] for name in names)))
    if said != 1:
        others = " or ".join([*(f"--{name}" for name in names[:-1]), "--samples"])
        got = "neither" if said == 0 else "both"
        raise InvalidArgument(names[-1], got, f"given, or {others} in its place where d is known; not both")
    if counts is not None:
        many = isinstance(counts, tuple)
        ratios = tuple(ratio_from_samples(n, dim) for n in (counts if many else (counts,)))
        flags[names[0]] = ratios if many else ratios[0]


def alpha_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--alpha`` and, in its place, ``--samples``."""
    function = click.option("--samples", type=COUNT, help="Samples n, in place of alpha, where d is known.")(function)
    with_alpha: Callable[..., Any] = flag_of(ALPHA)(function)
    return with_alpha


def alphas_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--alphas`` and, in its place, ``--samples``."""
    text = "Sample ratios: start:stop:count, log:start:stop:count or a list."
    function = click.option("--samples", type=COUNTS, help="Samples n, in place of alphas, where d is known.")(function)
    return click.option("--alphas", type=type_of(ALPHA, ranged=True), help=text)(function)


def any_alpha_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--alpha``, ``--alphas`` and ``--samples``, one of which is given."""
    with_any: Callable[..., Any] = flag_of(ALPHA)(alphas_option(function))
    return with_any


def bayes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--bayes``."""
    text = "Lay the best possible learner beside it, who knows how the data were made."
    return click.option("--bayes", is_flag=True, help=text)(function)


def accuracy_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--accuracy``; the command gets a number, or None if nobody asked."""
    result: Callable[..., Any] = flag_of(ACCURACY)(function)
    return result


def tuned_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--tuned``."""
    return click.option("--tuned", is_flag=True, help="Use the best weight decay at every point.")(function)


def read_eigenvalues(path: str) -> list[float]:
    """Numbers of a .npy file, or of a text file with commas, spaces or lines between them."""
    allowed = "a .npy file of numbers, or a text file of numbers"
    with _read("--atoms", path, allowed, ATOMS_BYTES) as content:
        if path.endswith(".npy"):
            return [float(value) for value in _array(content).ravel()]
        lines = content.decode("utf-8-sig").splitlines()
        return [float(item) for line in lines for item in line.split("#")[0].replace(",", " ").split()]


def read_array(flag: str, path: str) -> Any:
    """The numbers of a .npy file."""
    with _read(flag, path, "a .npy file of numbers", ARRAY_BYTES) as content:
        return _array(content)


def _array(content: bytes) -> Any:
    from numpy.lib import format as npy

    file = BytesIO(content)
    header = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    if min(header(file)[0], default=0) < 0:
        raise ValueError  # numpy 2.0 takes a length of -1 for as many as there are
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)  # np.load would also open archives


@contextmanager
def _read(flag: str, path: str, allowed: str, limit: int) -> Iterator[bytes]:
    """The content of a file; one that is not there, is no plain file or holds something else is refused."""
    content = read_file(Path(path), limit, lambda trouble: InvalidArgument(flag, path, f"{allowed} ({trouble})"))
    try:
        yield content
    except (ValueError, TypeError, MemoryError, OverflowError, TokenError):
        raise InvalidArgument(flag, path, allowed) from None
