"""Flags that every ``aim`` command shares: a task and a learner from words and numbers."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from onehead.cli.values import Number, Range, Typed, Whole, Word

__all__ = ["RATIO", "RATIOS", "aim_options", "alpha_option"]

RATIO = Number(0.0, 1e6, open_low=True)
RATIOS = Range(0.0, 1e6, open_low=True)


class Decay(Typed):
    """A positive number, or the word 0+ for the limit."""

    name = "number|0+"
    allowed = "a number > 0 and <= 1e+06, or the word 0+ (the limit λ → 0⁺)"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Parse and check."""
        if value == "0+":
            return "0+"
        try:
            return Number(0.0, 1e6, open_low=True).convert(value, param, ctx)
        except click.BadParameter:
            self.refuse(value, param, ctx)
            raise


def aim_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of every ``aim`` command; the command gets a ``task`` and a ``learner``."""

    @wraps(function)
    def call(**flags: Any) -> Any:
        from onehead.aim import Learner, MarchenkoPastur, Task

        flags.pop("target")
        kappa0 = flags.pop("kappa0")
        task = Task(
            target=MarchenkoPastur(kappa0=kappa0),
            **{key: flags.pop(key) for key in ("noise", "tokens", "beta0")},
        )
        names = ("weight_decay", "width", "param", "beta", "loss", "branch")
        learner = Learner(**{key: flags.pop(key) for key in names})
        return function(task=task, learner=learner, **flags)

    for option in reversed(
        (
            click.option("--target", type=Word("mp"), default="mp", show_default=True, help="Spectrum of the target."),
            click.option(
                "--kappa0",
                type=Number(1e-3, 1e3),
                default=0.5,
                show_default=True,
                help="Width of the target over d (κ₀).",
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
                type=Number(0.0, 100.0, open_low=True),
                default=1.0,
                show_default=True,
                help="Inverse temperature of the learner (β).",
            ),
            click.option(
                "--beta0",
                type=Number(0.0, 100.0, open_low=True),
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


alpha_option = click.option("--alpha", type=RATIO, required=True, help="Samples over d² (α = n/d²).")
