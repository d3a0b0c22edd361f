"""Flags that every ``aim`` command shares: a task and a learner from words and numbers."""

import re
from collections.abc import Callable
from functools import wraps
from inspect import signature
from tokenize import TokenError  # numpy lets it through for a hostile header
from typing import Any

import click

from onehead.cli.values import Number, Range, Typed, Whole, Word
from onehead.errors import InvalidArgument

__all__ = ["COUNTS", "RATIO", "RATIOS", "aim_options", "alpha_option", "alphas_option", "read_eigenvalues"]

RATIO = Number(0.0, 1e6, open_low=True)
RATIOS = Range(0.0, 1e6, open_low=True)
COUNT = Number(0.0, 1e15, open_low=True)
COUNTS = Range(0.0, 1e15, open_low=True)


class Decay(Typed):
    """A positive number, the word 0+ for the limit, or a power of the dimension."""

    name = "number|0+|1/d|sqrt(d)|d^x"
    allowed = (
        "a number > 0 and <= 1e+06, the word 0+ (the limit λ → 0⁺), or 1/d, sqrt(d), d^x with a target of dimension d"
    )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Parse and check; powers of d become numbers when d is known."""
        text = str(value).replace(" ", "")
        if text == "0+" or POWER.fullmatch(text):
            return text
        try:
            return Number(0.0, 1e6, open_low=True).convert(value, param, ctx)
        except click.BadParameter:
            self.refuse(value, param, ctx)
            raise


POWER = re.compile(r"1/d|sqrt\(d\)|d|d\^\(?[+-]?(\d+\.?\d*|\.\d+)\)?")


def aim_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of every ``aim`` command; the command gets a ``task`` and a ``learner``.

    A command with a ``dim`` of its own gets that as well; ``--samples`` becomes ``alpha`` (or ``alphas``).
    """

    @wraps(function)
    def call(**flags: Any) -> Any:
        from onehead.aim.words import WORDS, dimension, problem_from_words, ratio_from_samples

        if flags.get("atoms") is not None:
            flags["atoms"] = read_eigenvalues(flags["atoms"])
        words = {name: flags.pop(name) for name in WORDS if name in flags}
        try:
            task, learner, rest = problem_from_words(words)
            dim = dimension(task.target) or rest.get("dim")
            if "samples" in flags and "alpha" in flags:
                flags["alpha"] = _ratio(flags["alpha"], flags.pop("samples"), dim)
            if "samples" in flags and "alphas" in flags:
                counts = flags.pop("samples") or ()
                own = tuple(ratio_from_samples(n, dim) for n in counts) or None
                flags["alphas"] = _one_of("alphas", flags["alphas"], own)
        except InvalidArgument as failure:
            raise InvalidArgument(_flag(failure.name), failure.got, failure.allowed) from None
        if "dim" in signature(function).parameters:
            if dim is None:
                raise InvalidArgument("--dim", None, "given: the dimension of a token (d)")
            flags["dim"] = dim
        return function(task=task, learner=learner, **flags)

    for option in reversed(
        (
            click.option(
                "--target",
                type=Word("mp", "power-law", "spikes", "atoms"),
                help="Spectrum of the target.  [default: mp]",
            ),
            click.option("--kappa0", type=Number(1e-3, 1e3), help="Width of an mp target over d (κ₀).  [default: 0.5]"),
            click.option("--gamma", type=Number(0.0, 10.0), help="Decay of a power-law target (γ).  [default: 0.75]"),
            click.option(
                "--dim", type=Whole(2, 20_000), help="Dimension of a token (d); of a power law 200 if not given."
            ),
            click.option("--spikes", type=Range(), help="Eigenvalues of a spikes target; all others are zero."),
            click.option(
                "--atoms", metavar="FILE", help="Eigenvalues of an atoms target: .npy, or numbers in a text file."
            ),
            click.option(
                "--noise",
                type=Number(0.0, 1e3),
                default=0.5,
                show_default=True,
                help="Noise before the softmax (Δ).",
            ),
            click.option("--tokens", type=Whole(2, 16), default=2, show_default=True, help="Tokens in a sequence (T)."),
            click.option(
                "--beta",
                type=Number(1e-6, 100.0),
                default=1.0,
                show_default=True,
                help="Inverse temperature of the learner (β).",
            ),
            click.option(
                "--beta0",
                type=Number(1e-6, 100.0),
                default=1.0,
                show_default=True,
                help="Inverse temperature of the target (β₀).",
            ),
            click.option(
                "--weight-decay",
                type=Decay(),
                default=0.01,
                show_default=True,
                help="Weight decay (λ); 0+ is the limit.",
            ),
            click.option(
                "--loss",
                type=Word("squared", "cross-entropy"),
                default="squared",
                show_default=True,
                help="Training loss.",
            ),
            click.option(
                "--width",
                type=Number(0.0, 1e3, open_low=True),
                default=1.0,
                show_default=True,
                help="Width of the learner over d (κ).",
            ),
            click.option(
                "--param",
                type=Word("factorised", "direct"),
                default="factorised",
                show_default=True,
                help="Train factors W or the map S itself.",
            ),
            click.option(
                "--branch",
                type=Word("label", "global"),
                default="label",
                show_default=True,
                help="Minimum to follow where the output layer has several.",
            ),
        )
    ):
        call = option(call)
    return call


def alpha_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--alpha`` and, in its place, ``--samples``."""
    function = click.option("--samples", type=COUNT, help="Samples n, in place of alpha, where d is known.")(function)
    return click.option("--alpha", type=RATIO, help="Samples over d² (α = n/d²).")(function)


def alphas_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--alphas`` and, in its place, ``--samples``."""
    text = "Sample ratios: start:stop:count, log:start:stop:count or a list."
    function = click.option("--samples", type=COUNTS, help="Samples n, in place of alphas, where d is known.")(function)
    return click.option("--alphas", type=RATIOS, help=text)(function)


def _ratio(alpha: float | None, samples: float | None, dim: int | None) -> Any:
    from onehead.aim.words import ratio_from_samples

    return _one_of("alpha", alpha, None if samples is None else ratio_from_samples(samples, dim))


def _one_of(name: str, own: Any, other: Any) -> Any:
    """The value given; both or neither is a mistake."""
    if (own is None) == (other is None):
        got = None if own is None else "both"
        raise InvalidArgument(name, got, "given, or samples in its place where d is known; not both")
    return own if other is None else other


def _flag(name: str) -> str:
    """An argument of the library as the flag it came from."""
    return "--" + {"eigenvalues": "atoms"}.get(name, name).replace("_", "-")


def read_eigenvalues(path: str) -> list[float]:
    """Numbers of a .npy file, or of a text file with commas, spaces or lines between them."""
    import numpy as np

    allowed = "a .npy file of numbers, or a text file of numbers"
    try:
        if path.endswith(".npy"):
            with open(path, "rb") as file:  # np.load would also open archives
                values = np.lib.format.read_array(file, allow_pickle=False)
        else:
            with open(path) as file:
                text = "\n".join(line.split("#")[0] for line in file)
            values = np.array([float(item) for item in text.replace(",", " ").split()])
        return [float(value) for value in np.ravel(values)]
    except FileNotFoundError:
        raise InvalidArgument("--atoms", path, "a file that exists") from None
    except (ValueError, TypeError, IsADirectoryError, MemoryError, TokenError):
        raise InvalidArgument("--atoms", path, allowed) from None
