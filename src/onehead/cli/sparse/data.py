"""``onehead sparse data``: samples that a test error needs."""

from typing import Any

import click

from onehead import sparse
from onehead.cli.parsing.options import explain_option
from onehead.cli.parsing.values import Number, flag_of, given
from onehead.cli.rendering.output import spinner
from onehead.cli.rendering.render import CommandResult, output_options
from onehead.cli.rendering.shared_results import data_result
from onehead.cli.sparse.flags import Case, sparse_options
from onehead.fields import parameters_of
from onehead.sweep.settings import SparsePredict


@click.command()
@sparse_options
@click.option("--error", type=Number(gt=0.0), required=True, help="Wanted test error.")
@flag_of(parameters_of(SparsePredict)["model"])
@click.option("--dim", type=Number(integer=True, ge=3), help="Dimension of a token, for the number of samples.")
@explain_option
@output_options(csv_rows=False, picture=False)
def data(case: Case, error: float, dim: int | None, explain: bool, **flags: Any) -> CommandResult:
    """Number of samples that a test error needs, and the best ridge there.

    Example: onehead sparse data --error 0.03 --dim 500
    """
    with spinner("searching"):
        found = sparse.data_for(case.task, case.protocol, error, dim=dim, **given(flags))
    return data_result(found, title=f"Samples for a test error of {error:g}", explain=explain)
