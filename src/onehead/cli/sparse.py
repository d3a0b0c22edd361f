"""``onehead sparse``: sparse-token classification."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onehead.cli.groups import Guide
from onehead.cli.output import (
    check_picture,
    output_options,
    print_json,
    print_rows,
    print_table,
    progress,
    save_figure,
    write_csv,
)
from onehead.cli.sparse_flags import (
    Axis,
    Case,
    Solved,
    abscissa,
    cases_of,
    check_plot,
    named_as_flags,
    problem_options,
    show,
    single,
    solve,
)
from onehead.cli.values import Number, Range, Whole, Word
from onehead.errors import InvalidArgument

if TYPE_CHECKING:
    from onehead.results import Result

__all__ = ["command"]


@click.group(
    cls=Guide,
)
def command() -> None:
    """Sparse-token classification: attention against pooled and vectorised linear classifiers.

    A positive sequence carries a weak signal in a few random tokens. Numeric flags take ranges
    (start:stop:count, log:start:stop:count, or a comma list); the answer is then a list.
    """


@command.command()
@problem_options
@output_options()
def align(as_json: bool, csv_file: str | None, plot: str | None, **flags: Any) -> None:
    """Where the two gradient steps point: cosine of query and readout with the signal."""
    from onehead import sparse

    cases = cases_of(flags)
    check_plot(plot, cases)
    solved = solve(cases, lambda case, _: sparse.align(case.task, case.protocol), "aligning")
    if plot is not None:
        from onehead import plot as pictures

        name, x, results = abscissa(solved)
        save_figure(plot, lambda: pictures.alignment(results, x, name))
    columns = {
        "cos_query": "cosine of the query with the signal",
        "cos_readout": "cosine of the first readout with the signal",
        "norm_query": "length of the query",
        "norm_readout": "length of the first readout",
        "overlap_query": "component of the query along the signal",
        "overlap_readout": "component of the first readout along the signal",
        "sharpness": "beta times the length of the query",
        "misalignment": "C of |cos| = 1 - C/alpha0 at large alpha0",
        "critical_bias_rate": "eta_b at which the query changes sign, for small eta_w",
        "status": "in words",
    }
    show(solved, columns, title="Two gradient steps", as_json=as_json, csv_file=csv_file)


@command.command()
@problem_options
@click.option(
    "--model",
    type=Word("attention", "pooled", "vectorised", "all"),
    default="attention",
    show_default=True,
    help="which model, or all three",
)
@click.option("--alpha", type=Range(0.0, open_low=True), help="all samples over dimension, split as alpha0 to alpha1")
@click.option("--test-length", type=Whole(1, 20_000), help="length of the test sequences, if it differs")
@click.option("--dim", type=Whole(3), help="finite dimension: average over sampled queries (attention)")
@click.option("--trials", type=Whole(2), default=40, show_default=True, help="sampled queries, with --dim")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="of the sampled queries")
@output_options()
def predict(
    model: str,
    alpha: tuple[float, ...] | None,
    test_length: int | None,
    dim: int | None,
    trials: int,
    seed: int,
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
    **flags: Any,
) -> None:
    """Test error, training loss and training error of a model, without training it."""
    from onehead import sparse

    cases = cases_of(flags, alpha)
    check_plot(plot, cases)
    if dim is not None and (model != "attention" or test_length is not None):
        raise InvalidArgument("--dim", dim, "used with --model attention and without --test-length")
    models = ["attention", "pooled", "vectorised"] if model == "all" else [model]
    solved: list[Solved] = []
    curves: dict[str, tuple[list[float], list[Any]]] = {}
    for name in models:

        def answer(case: Case, _: Callable[[], None], name: str = name) -> "Result":
            if dim is not None:
                return sparse.finite_size(case.task, case.protocol, dim=dim, trials=trials, seed=seed)
            return sparse.predict(case.task, case.protocol, model=name, test_length=test_length)

        part = solve(cases, answer, f"predicting {name}")
        solved += part
        if plot is not None:
            axis, x, results = abscissa(part)
            curves[name] = (x, results)
    if plot is not None:
        from onehead import plot as pictures

        save_figure(plot, lambda: pictures.error_curve(curves, axis))
    columns = {
        "test_error": "share of mistakes on fresh samples",
        "train_loss": "training loss, without the ridge",
        "train_error": "share of mistakes on training samples",
        "cos_query": "cosine of the query with the signal",
        "sharpness": "beta times the length of the query",
        "residual": "of the equations",
        "quadrature_error": "of the test error",
        "status": "in words",
    }
    show(solved, columns, title="Prediction", as_json=as_json, csv_file=csv_file)


@command.command()
@problem_options
@output_options()
def capacity(as_json: bool, csv_file: str | None, plot: str | None, **flags: Any) -> None:
    """Largest number of samples over dimension that each model separates (a conjecture)."""
    from onehead import sparse

    cases = cases_of(flags)
    check_plot(plot, cases)
    solved = solve(cases, lambda case, _: sparse.capacity(case.task, case.protocol), "capacity")
    if plot is not None:
        from onehead import plot as pictures

        name, x, results = abscissa(solved)
        save_figure(plot, lambda: pictures.capacity(results, x, name))
    columns = {
        "attention": "samples for the readout over dimension",
        "pooled": "all samples over dimension",
        "vectorised": "all samples over dimension; length times pooled",
        "cos_query": "cosine of the query with the signal",
        "sharpness": "beta times the length of the query",
        "quadrature_error": "of attention",
        "kind": "of truth",
    }
    show(solved, columns, title="Capacity", as_json=as_json, csv_file=csv_file)


@command.command()
@problem_options
@click.option(
    "--activation",
    type=Word("sigmoid", "step", "relu", "power"),
    default="sigmoid",
    show_default=True,
    help="gate of element-wise attention",
)
@click.option(
    "--growth",
    type=Word("fixed", "log", "sqrt"),
    default="fixed",
    show_default=True,
    help="strength as given, times sqrt(log L), or times sqrt(L)",
)
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="of the Monte Carlo samples")
@output_options()
def oracle(
    activation: str,
    growth: str,
    seed: int,
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
    **flags: Any,
) -> None:
    """Best achievable error of each model that knows the signal direction."""
    from onehead import sparse

    with named_as_flags():
        cases = [
            Case(sparse.grow(case.task, [case.task.length], growth)[0], case.protocol, case.varying)
            for case in cases_of(flags)
        ]
    check_plot(plot, cases)
    solved = solve(cases, lambda case, _: sparse.oracle(case.task, activation=activation, seed=seed), "oracle")
    if plot is not None:
        from onehead import plot as pictures

        name, x, results = abscissa(solved)
        save_figure(plot, lambda: pictures.oracle(results, x, name))
    columns = {
        "softmax": "attention with the best sharpness",
        "hardmax": "attention to the largest token",
        "elementwise": f"element-wise attention, {activation}",
        "pooled": "mean of the tokens",
        "vectorised": "best linear rule",
        "vectorised_symmetric": "uniform linear rule, which convex training finds",
        "bayes": "any rule at all",
        "status": "how",
    }
    show(solved, columns, title="Oracle", as_json=as_json, csv_file=csv_file)


@command.command()
@problem_options
@click.option(
    "--model",
    type=Word("attention", "pooled", "vectorised"),
    default="attention",
    show_default=True,
    help="which model",
)
@click.option("--alpha", type=Range(0.0, open_low=True), help="all samples over dimension, split as alpha0 to alpha1")
@click.option("--dim", type=Whole(3, 100_000), default=500, show_default=True, help="dimension d of a token")
@click.option("--trials", type=Whole(1, 100_000), default=8, show_default=True, help="independent runs")
@click.option(
    "--mode",
    type=Word("reduced", "tokens", "joint"),
    default="reduced",
    show_default=True,
    help="exact in law; every token stored; query and readout trained together",
)
@click.option("--test-length", type=Whole(1, 20_000), help="length of the test sequences, if it differs")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="of all random numbers")
@output_options()
def train(
    model: str,
    alpha: tuple[float, ...] | None,
    dim: int,
    trials: int,
    mode: str,
    test_length: int | None,
    seed: int,
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
    **flags: Any,
) -> None:
    """The protocol on real samples: means over trials and their spread; a picture lays them over the prediction."""
    from onehead import plot as pictures
    from onehead import sparse

    cases = cases_of(flags, alpha)
    check_plot(plot, cases)

    def answer(case: Case, advance: Callable[[], None]) -> "Result":
        return sparse.train(
            case.task,
            case.protocol,
            model=model,
            dim=dim,
            trials=trials,
            seed=seed,
            mode=mode,
            test_length=test_length,
            progress=advance,
        )

    def predicted(case: Case, _: Callable[[], None]) -> "Result":
        return sparse.predict(case.task, case.protocol, model=model, test_length=test_length)

    solved = solve(cases, answer, f"training at d = {dim}", steps=trials)
    if plot is not None:
        axis, x, results = abscissa(solve(cases, predicted, "predicting"))
        runs = {model: abscissa(solved)[1:]}
        save_figure(plot, lambda: pictures.error_curve({model: (x, results)}, axis, runs=runs))
    columns = {
        "test_error": "share of mistakes on fresh samples",
        "test_error_std": "spread between trials",
        "test_error_err": "standard error of the mean",
        "train_loss": "training loss, without the ridge",
        "train_loss_std": "spread between trials",
        "train_error": "share of mistakes on training samples",
        "train_error_std": "spread between trials",
        "cos_query": "cosine of the query with the signal",
        "cos_query_std": "spread between trials",
        "sharpness": "beta times the length of the query",
        "status": "in words",
    }
    show(solved, columns, title="Measurement", as_json=as_json, csv_file=csv_file)


@command.command("map")
@problem_options
@click.option("--x", "x_axis", type=Axis(), required=True, help="FLAG=RANGE, for example eta-b=0:9:10")
@click.option("--y", "y_axis", type=Axis(), required=True, help="FLAG=RANGE, for example beta=2:12:6")
@output_options()
def map_(
    x_axis: tuple[str, tuple[float, ...]],
    y_axis: tuple[str, tuple[float, ...]],
    as_json: bool,
    csv_file: str | None,
    plot: str | None,
    **flags: Any,
) -> None:
    """Alignment and errors over two of eta-w, eta-b, eta-q, beta, split, ridge, alpha0, alpha1."""
    from onehead import sparse

    check_picture(plot)
    case = single(flags)
    with progress("mapping", len(x_axis[1]) * len(y_axis[1])) as advance, named_as_flags():
        found = sparse.landscape(case.task, case.protocol, x=x_axis, y=y_axis, progress=advance)
    if plot is not None:
        from onehead import plot as pictures

        save_figure(plot, lambda: pictures.landscape(found))
    rows = found.to_rows()
    if csv_file is not None:
        write_csv(csv_file, rows)
    if as_json:
        print_json(rows)
    else:
        shown = [
            "cos_query",
            "test_error",
            "pooled_test_error",
            "anti_aligned",
            "worse_than_pooled",
            "status",
        ]
        print_rows(rows, [found.x_name, found.y_name, *shown], "Sensitivity")


@command.command()
@problem_options
@click.option("--alpha", type=Number(0.0, open_low=True), help="all samples over dimension [alpha0 + alpha1]")
@output_options()
def tune(alpha: float | None, as_json: bool, csv_file: str | None, plot: str | None, **flags: Any) -> None:
    """Best split, bias rate, temperature and ridge, from the theory."""
    from onehead import plot as pictures
    from onehead import sparse
    from onehead.sparse.verbs.tune import GRID

    check_picture(plot)
    case = single(flags)
    with named_as_flags(), progress("grid search", GRID) as step:
        found = sparse.tune(case.task, case.protocol, alpha=alpha, progress=step)
    row = found.to_dict()
    if csv_file is not None:
        names = ("split", "sharpness", "ridge", "test_error")
        write_csv(csv_file, [dict(zip(names, values, strict=True)) for values in found.scan])
    if plot is not None:
        save_figure(plot, lambda: pictures.tuned(found))
    if as_json:
        print_json(row)
        return
    meanings = {
        "alpha0": "samples for the query over dimension",
        "alpha1": "samples for the readout over dimension",
        "beta": "inverse temperature",
        "eta_b": "rate of the first step of the bias",
        "eta_q": "rate of the step of the query; its sign may have been flipped",
        "ridge": "penalty of the readout",
        "cos_query": "cosine of the query with the signal",
        "test_error": "predicted",
        "given_test_error": "of the flags as given, at the same number of samples",
        "pooled_test_error": "pooled model with its own best ridge",
        "vectorised_test_error": "vectorised model with its own best ridge",
    }
    print_table([(key, row[key], meaning) for key, meaning in meanings.items()], "Tuned")
