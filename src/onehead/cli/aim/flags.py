"""Flags that every ``aim`` command shares, from which a task and a learner are made."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from io import BytesIO
from pathlib import Path
from tokenize import TokenError  # raised by numpy for a malformed header
from typing import Any

import click

from onehead.aim.flat_parameters import (
    PARAMETERS,
    TARGET_PARAMETERS,
    dimension,
    problem_from_parameters,
    ratio_from_samples,
)
from onehead.aim.mask import Mask
from onehead.aim.targets import Target
from onehead.aim.task import Ratio
from onehead.atomic_io import read_file
from onehead.cli.parsing.values import Number, Range, flag_of, named_as_flags, type_of
from onehead.errors import InvalidArgument
from onehead.fields import parameters_of
from onehead.problem import Accuracy

ALPHA, ACCURACY = parameters_of(Ratio)["alpha"], parameters_of(Accuracy)["accuracy"]
MAX_ATOMS_BYTES = 2_000_000  # a hundred bytes for each of at most 20,000 eigenvalues
MAX_ARRAY_BYTES = 4_000_000_000  # size of an array of tokens, which is kept in memory
SPECTRA = ("token_spectrum", "key_spectrum")  # flags whose text may be the name of a file of eigenvalues
KINDS_OF_SPECTRA = ("isotropic", "queries", "subspace", "levels", "power", "values")
NUMBERS_FILE = "a .npy file of numbers, or a text file of numbers"
SPECTRUM_OR_FILE = "isotropic, subspace:R, levels:SHARE,RATIO, power:P, or a .npy or text file of eigenvalues"
MAX_MASK_BYTES = 10_000_000  # eight bytes for each entry of a matrix of 1024 tokens, and more
MASK_FILE = (
    "Mask of one's own, in place of --mask: a matrix of zeros and ones, whose rows attend to its columns. From a .npy "
    "file, or rows in a text file."
)
SAMPLE_COUNT = Number(gt=0.0, le=1e15)
SAMPLE_COUNTS = Range(gt=0.0, le=1e15)


def aim_options(
    target: str = PARAMETERS["target"].default, **defaults: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the flags of every ``aim`` command, which is called with a ``task`` and a ``learner``.

    A command that takes ``dim`` gets the dimension as well, which is required; one that takes ``known_dim`` gets it if
    it is known. ``--samples`` is converted to ``alpha`` or ``alphas``.
    ``target`` is the default of ``--target``, ``defaults`` are those of other flags.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        wants_dim, wants_known_dim = (name in signature(function).parameters for name in ("dim", "known_dim"))

        @wraps(function)
        def call(**flags: Any) -> Any:
            values = {name: flags.pop(name) for name in PARAMETERS if name in flags}
            if values["target"] is None and target != PARAMETERS["target"].default:
                values["target"] = target
            values |= {name: value for name, value in defaults.items() if values[name] is None}
            with _mask_from_file(flags.pop("mask_file"), values), named_as_flags(*PARAMETERS.values()):
                if values["atoms"] is not None:
                    values["atoms"] = read_eigenvalues(values["atoms"])
                for name in SPECTRA:
                    if values[name] is not None and values[name].partition(":")[0] not in KINDS_OF_SPECTRA:
                        values[name] = read_eigenvalues(values[name], PARAMETERS[name].flag, SPECTRUM_OR_FILE)
                task, learner, others = problem_from_parameters(values)
                dim = dimension(task.target) or others.get("dim")
                _convert_samples(flags, dim)
                if wants_dim:
                    if dim is None:
                        raise click.UsageError("give --dim, the dimension of a token (d).")
                    flags["dim"] = dim
                if wants_known_dim:
                    flags["known_dim"] = dim
                return function(task=task, learner=learner, **flags)

        decorated: Callable[..., Any] = call
        for declared in reversed(PARAMETERS.values()):
            if declared.name == "mask":
                decorated = click.option("--mask-file", metavar="FILE", help=MASK_FILE)(decorated)
            if declared.kind != "other" or declared.flat in SPECTRA:
                decorated = flag_of(declared, **_option_attributes(declared.flat, target, defaults))(decorated)
        return decorated

    return decorate


def _option_attributes(name: str, target: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of an option in which it differs from its declaration."""
    if name in chosen:
        return {"default": chosen[name]}
    if name == "target":
        return {"default": target}
    if name == "atoms":
        text = f"{PARAMETERS[name].help} From a .npy file, or numbers in a text file."
        return {"type": None, "metavar": "FILE", "help": text}
    if name in SPECTRA:
        return {"metavar": "SPECTRUM|FILE"}
    if name in TARGET_PARAMETERS and TARGET_PARAMETERS[name].required:
        # some kinds of target require the parameter, others have a default for it
        declared = {kind: parameters_of(own).get(TARGET_PARAMETERS[name].name) for kind, own in Target.known.items()}
        defaults = [f"{one.default} with {kind}" for kind, one in declared.items() if one and not one.required]
        return {"default": ", ".join(defaults) or None}
    return {}


def _convert_samples(flags: dict[str, Any], dim: int | None) -> None:
    """Replace ``--samples`` by ``alpha`` or ``alphas``; exactly one of them must be given."""
    names = [name for name in ("alphas", "alpha") if name in flags]
    if not names or "samples" not in flags:
        return
    samples = flags.pop("samples")
    count = sum(value is not None for value in (samples, *(flags[name] for name in names)))
    alternatives = " or ".join(f"--{name}" for name in reversed(names))
    if count > 1:
        raise click.UsageError(f"give only one of {alternatives.replace(' or ', ', ')} and --samples.")
    if count == 0 or (samples is not None and dim is None):
        raise click.UsageError(f"give {alternatives}, or --samples together with --dim.")
    if samples is not None:
        many = isinstance(samples, tuple)
        ratios = tuple(ratio_from_samples(n, dim) for n in (samples if many else (samples,)))
        flags[names[0]] = ratios if many else ratios[0]


def alpha_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--alpha`` and its alternative ``--samples``."""
    text = "Number of samples n, in place of --alpha; needs a dimension."
    function = click.option("--samples", type=SAMPLE_COUNT, help=text)(function)
    with_alpha: Callable[..., Any] = flag_of(ALPHA)(function)
    return with_alpha


def alphas_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--alphas`` and its alternative ``--samples``."""
    text = "Numbers of samples n, in place of --alphas; need a dimension."
    function = click.option("--samples", type=SAMPLE_COUNTS, help=text)(function)
    text = "Sample ratios: start:stop:count, log:start:stop:count or a list."
    return click.option("--alphas", type=type_of(ALPHA, ranged=True), help=text)(function)


def any_alpha_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--alpha``, ``--alphas`` and ``--samples``, exactly one of which must be given."""
    with_any: Callable[..., Any] = flag_of(ALPHA)(alphas_option(function))
    return with_any


def accuracy_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--accuracy``; its value is None if it is not given."""
    with_accuracy: Callable[..., Any] = flag_of(ACCURACY)(function)
    return with_accuracy


def tuned_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--tuned``."""
    return click.option("--tuned", is_flag=True, help="Use the best weight decay at every point.")(function)


def read_eigenvalues(path: str, flag: str = "--atoms", allowed: str = NUMBERS_FILE) -> list[float]:
    """Read the numbers of a .npy file, or of a text file in which commas, spaces or line breaks separate them."""
    with _read(flag, path, allowed, MAX_ATOMS_BYTES) as content:
        if path.endswith(".npy"):
            return [float(value) for value in _array(content).ravel()]
        lines = content.decode("utf-8-sig").splitlines()
        return [float(item) for line in lines for item in line.split("#")[0].replace(",", " ").split()]


def read_mask(path: str) -> Any:
    """Read the matrix of a .npy file, or of a text file with one row of zeros and ones in each line."""
    allowed = "a .npy file or a text file of a square matrix of zeros and ones, at most 1024 rows"
    with _read("--mask-file", path, allowed, MAX_MASK_BYTES) as content:
        if path.endswith(".npy"):
            return _array(content)
        lines = (line.split("#")[0] for line in content.decode("utf-8-sig").splitlines())
        rows = ["".join(line.replace(",", " ").split()) for line in lines]
        return "/".join(row for row in rows if row)


@contextmanager
def _mask_from_file(path: str | None, values: dict[str, Any]) -> Iterator[None]:
    """Context manager that reads the mask from a file, if one is given, and refuses it in its name."""
    if path is None:
        yield
        return
    if values["mask"] is not None:
        raise click.UsageError("give only one of --mask and --mask-file.")
    try:
        values["mask"] = Mask(read_mask(path))
        yield
    except InvalidArgument as error:
        name = "--mask-file" if error.name in ("mask", "--mask") else error.name
        raise InvalidArgument(name, error.got, error.allowed, error.known) from None


def read_array(flag: str, path: str) -> Any:
    """Read the array of a .npy file."""
    with _read(flag, path, "a .npy file of numbers", MAX_ARRAY_BYTES) as content:
        return _array(content)


def _array(content: bytes) -> Any:
    """Parse the content of a .npy file; unlike `numpy.load`, never open an archive or a pickle."""
    from numpy.lib import format as npy

    file = BytesIO(content)
    header = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    if min(header(file)[0], default=0) < 0:
        raise ValueError  # numpy 2.0 reads a length of -1 as all remaining values
    file.seek(0)
    return npy.read_array(file, allow_pickle=False)


@contextmanager
def _read(flag: str, path: str, allowed: str, limit: int) -> Iterator[bytes]:
    """Context manager that gives the content of a file; errors in the block are reported as a refusal of the file."""
    content = read_file(Path(path), limit, lambda reason: InvalidArgument(flag, path, f"{allowed} ({reason})"))
    try:
        yield content
    except (ValueError, TypeError, MemoryError, OverflowError, TokenError):
        raise InvalidArgument(flag, path, allowed) from None
