"""Options that the commands of both models share."""

from collections.abc import Callable
from typing import Any

import click

from onehead.cli.parsing.values import Number, Range

BAYES = "Also show the best possible learner, which knows how the data were generated."

bayes_option = click.option("--bayes", is_flag=True, help=BAYES)
explain_option = click.option("--explain", is_flag=True, help="Explain the numbers in sentences.")


def seed_option(sentence: str = "Seed of the random numbers.") -> Callable[[Any], Any]:
    """Add ``--seed``."""
    return click.option("--seed", type=Number(integer=True, ge=0), default=0, show_default=True, help=sentence)


def dims_option(default: str, *, smallest: int) -> Callable[[Any], Any]:
    """Add ``--dims``, the dimensions at which trained heads are compared with the theory."""
    kind = Range(integer=True, ge=smallest)
    return click.option("--dims", type=kind, default=default, show_default=True, help="Dimensions of a token.")
