"""``onehead sparse``: theory and training of sparse-token classification."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from onehead import plot, sparse
from onehead.cli.parsing.axes import axis_options
from onehead.cli.parsing.groups import OrderedGroup
from onehead.cli.parsing.options import bayes_option, dims_option, explain_option, seed_option
from onehead.cli.parsing.values import Choice, flag_of, given, type_of
from onehead.cli.rendering.output import progress
from onehead.cli.rendering.render import CommandResult, output_options
from onehead.cli.rendering.shared_results import comparison_result, map_result, prediction_or_note
from onehead.cli.sparse.flags import (
    Case,
    SolvedCase,
    abscissa,
    cases_result,
    curve_cases,
    solve_cases,
    sparse_options,
    train_options,
)
from onehead.errors import InvalidArgument, OneheadError, SolveError
from onehead.fields import parameters_of
from onehead.problem import Accuracy
from onehead.results import Result, plain
from onehead.results.bayes_gap import BAYES_TEST_ERROR, GAP_MEANINGS
from onehead.results.grids import Axis
from onehead.sparse.flat_parameters import PARAMETERS
from onehead.sparse.task import MODELS
from onehead.sweep.settings import SparseAmp, SparseFiniteSize, SparseOracle, SparsePredict, SparseTrain, TotalSamples

PREDICT, FINITE_SIZE = parameters_of(SparsePredict), parameters_of(SparseFiniteSize)
TRAIN, AMP = parameters_of(SparseTrain), parameters_of(SparseAmp)
TOTAL = parameters_of(TotalSamples)
ALPHA, ACCURACY = TOTAL["alpha"], parameters_of(Accuracy)["accuracy"]
# columns of `train` in a table of several cases
TRAIN_COLUMNS = (
    "test_error",
    "test_error_err",
    "test_error_theory",
    "test_error_z",
    "verdict",
    "train_loss",
    "cos_query",
)
STATUS = {"status": "how the numbers were obtained"}


LAZY_COMMANDS = {
    "data": lambda: import_module("onehead.cli.sparse.data").data,
    "descend": lambda: import_module("onehead.cli.sparse.joint").descend,
    "joint": lambda: import_module("onehead.cli.sparse.joint").joint,
}


@click.group(cls=OrderedGroup, lazy_commands=LAZY_COMMANDS)
def command() -> None:
    """Sparse-token classification: attention compared with pooled and vectorised linear classifiers.

    A positive sequence carries a weak signal in a few random tokens. Numeric flags take ranges
    (start:stop:count, log:start:stop:count, or a comma list); the result is then a list.
    """


@command.command()
@sparse_options
@flag_of(FINITE_SIZE["dim"], help="Finite dimension: average over the share of positives in the sample.")
@output_options()
def align(cases: list[Case], dim: int | None) -> CommandResult:
    """Result of the two gradient steps: cosine of query and readout with the signal."""
    solved = solve_cases(cases, lambda case, _: sparse.align(case.task, case.protocol, dim=dim), "aligning")
    at_dim = ("cos_query_mean", "cos_query_spread")
    meanings = {name: text for name, text in sparse.Alignment.MEANINGS.items() if dim is not None or name not in at_dim}
    columns = {**meanings, **STATUS}
    return cases_result(solved, columns, title="Two gradient steps", draw=plot.alignment)


@command.command()
@sparse_options
@flag_of(PREDICT["model"], type=Choice(*MODELS, "all"), help="Model to solve, or all three.")
@flag_of(ALPHA, ranged=True)
@flag_of(PREDICT["test_length"])
@flag_of(FINITE_SIZE["dim"], help="Finite dimension: average over sampled queries (attention).")
@flag_of(FINITE_SIZE["trials"], help="Number of sampled queries, with --dim.")
@seed_option("Seed of the sampled queries.")
@flag_of(ACCURACY, default="an error of 0.0002")
@bayes_option
@explain_option
@output_options()
def predict(
    cases: list[Case],
    model: str | None,
    test_length: int | None,
    seed: int,
    accuracy: float | None,
    bayes: bool,
    explain: bool,
    **queries: int | None,
) -> CommandResult:
    """Test error, training loss and training error of a model, without training it."""
    if queries["dim"] is None and queries["trials"] is not None:
        raise InvalidArgument("--trials", queries["trials"], "given together with --dim")
    finite = SparseFiniteSize(**given(queries)) if queries["dim"] is not None else None
    if finite is not None and (model not in (None, "attention") or test_length is not None or accuracy is not None):
        allowed = "used with --model attention, without --test-length and without --accuracy"
        raise InvalidArgument("--dim", finite.dim, allowed)
    solved: dict[str, list[SolvedCase]] = {}
    for name in MODELS if model == "all" else [model or SparsePredict().model]:

        def predicted(case: Case, _: Callable[[], None], name: str = name) -> Result:
            if finite is not None:
                return sparse.finite_size(case.task, case.protocol, **dict(finite), seed=seed)
            return sparse.predict(case.task, case.protocol, model=name, test_length=test_length, accuracy=accuracy)

        solved[name] = solve_cases(cases, predicted, f"predicting {name}")
    optimum = solve_cases(cases, _bayes_optimum, "best possible") if bayes else []
    for of_model in solved.values():
        for one, best in zip(of_model, optimum, strict=bool(optimum)):
            one.row[BAYES_TEST_ERROR] = None if best.result is None else best.result.test_error

    def draw(results: list[Any], x: list[float], axis: str) -> Any:
        found = {name: abscissa(of_model) for name, of_model in solved.items()}
        curves = {name: (x, results) for name, (results, x, _) in found.items()}
        return plot.error_curve(curves, axis, best=abscissa(optimum)[1::-1] if optimum else None)

    certificate = {"residual": "of the equations", "quadrature_error": "of the test error", **STATUS}
    optional = {BAYES_TEST_ERROR: GAP_MEANINGS[BAYES_TEST_ERROR]} if bayes else {}
    columns = {**sparse.Prediction.MEANINGS, **optional, **certificate}
    listed = [one for of_model in solved.values() for one in of_model]
    return cases_result(listed, columns, title="Prediction", draw=draw, explain=explain)


def _bayes_optimum(case: Case, _: Callable[[], None]) -> "sparse.Best":
    return sparse.bayes(case.task, case.protocol.alpha)


@command.command()
@sparse_options
@flag_of(ALPHA, ranged=True, help="All labelled sequences over dimension.")
@explain_option
@output_options()
def bayes(cases: list[Case], explain: bool) -> CommandResult:
    """Lowest error that any learner can reach with the same data, if it knows all but the signal direction.

    Example: onehead sparse bayes --length 300 --strength 8 --alpha 0.035
    """
    solved = solve_cases(cases, _bayes_optimum, "best possible")
    columns = {**sparse.Best.MEANINGS, **STATUS}
    return cases_result(solved, columns, title="Best possible learner", draw=plot.best_error, explain=explain)


@command.command()
@sparse_options
@flag_of(ALPHA, ranged=True, help="All labelled sequences over dimension.")
@flag_of(AMP["dim"])
@flag_of(AMP["trials"])
@flag_of(AMP["method"])
@flag_of(AMP["start"])
@flag_of(AMP["iterations"])
@seed_option()
@output_options()
def amp(cases: list[Case], seed: int, **flags: Any) -> CommandResult:
    """Message passing or posterior sampling on finite data, compared with the theory of the best possible learner.

    Example: onehead sparse amp --alpha 1 --strength 3 --dim 300 --trials 10
    """
    chosen = SparseAmp(**given(flags))

    def run(case: Case, advance: Callable[[], None]) -> Result:
        return sparse.amp(case.task, case.protocol.alpha, seed=seed, progress=advance, **dict(chosen))

    def draw(runs: list[Any], x: list[float], axis: str) -> Any:
        return plot.best_error(
            *abscissa(solve_cases(curve_cases(cases), _bayes_optimum, "best possible")), runs=(x, runs)
        )

    solved = solve_cases(cases, run, f"{chosen.method} at d = {chosen.dim}", steps=chosen.trials)
    columns: dict[str, str] = {}
    for name, meaning in sparse.AmpResult.MEANINGS.items():
        columns[name] = meaning
        if not name.endswith("_theory"):
            columns[f"{name}_err"] = "standard error of the mean"
    return cases_result(solved, {**columns, **STATUS}, title="Search for the signal", draw=draw)


@command.command()
@sparse_options
@output_options()
def capacity(cases: list[Case]) -> CommandResult:
    """Largest number of samples over dimension that each model can separate (a conjecture)."""
    solved = solve_cases(cases, lambda case, _: sparse.capacity(case.task, case.protocol), "capacity")
    columns = {
        **sparse.Capacity.MEANINGS,
        "attention": "samples for the readout over dimension",  # shorter than in the library
        "pooled": "all samples over dimension",
        "vectorised": "all samples over dimension; length times pooled",
        "quadrature_error": "of attention",
        "kind": "kind of truth",
    }
    return cases_result(solved, columns, title="Capacity", draw=plot.capacity)


@command.command()
@sparse_options
@flag_of(parameters_of(SparseOracle)["activation"])
@click.option(
    "--growth",
    type=Choice("fixed", "log", "sqrt"),
    default="fixed",
    show_default=True,
    help="How the strength grows with L: not at all, as sqrt(log L), or as sqrt(L).",
)
@seed_option("Seed of the Monte Carlo samples.")
@output_options()
def oracle(cases: list[Case], activation: str | None, growth: str, seed: int) -> CommandResult:
    """Lowest error of each model if it knows the direction of the signal."""
    gate = activation or SparseOracle().activation
    grown = [case._replace(task=sparse.grow(case.task, [case.task.length], growth)[0]) for case in cases]
    solved = solve_cases(grown, lambda case, _: sparse.oracle(case.task, activation=gate, seed=seed), "oracle")
    columns = {**sparse.Oracle.MEANINGS, "elementwise": f"element-wise attention, {gate}", **STATUS}
    return cases_result(solved, columns, title="Oracle", draw=plot.oracle)


@command.command()
@train_options
@flag_of(TRAIN["model"])
@flag_of(ALPHA, ranged=True)
@flag_of(TRAIN["dim"])
@flag_of(TRAIN["trials"])
@flag_of(TRAIN["mode"])
@flag_of(TRAIN["steps"])
@flag_of(TRAIN["test_length"])
@seed_option()
@output_options()
def train(cases: list[Case], seed: int, **flags: Any) -> CommandResult:
    """Train the protocol on real samples: means over trials and their spread, compared with the prediction."""
    chosen = SparseTrain(**given(flags))

    def run(case: Case, advance: Callable[[], None]) -> Result:
        return sparse.train(case.task, case.protocol, progress=advance, seed=seed, **dict(chosen))

    def predicted(case: Case, _: Callable[[], None]) -> Result:
        if chosen.steps is not None:
            return sparse.descend(case.task, case.protocol, steps=chosen.steps).after(chosen.steps)
        if chosen.mode == "joint":
            return sparse.joint(case.task, case.protocol).trained
        return sparse.predict(case.task, case.protocol, model=chosen.model, test_length=chosen.test_length)

    def draw(runs: list[Any], x: list[float], axis: str) -> Any:
        results, dense, _ = (
            abscissa(solve_cases(curve_cases(cases), predicted, "predicting")) if theory else ([], [], "")
        )
        return plot.error_curve({chosen.model: (dense, results)}, axis, runs={chosen.model: (x, runs)})

    solved = solve_cases(cases, run, f"training at d = {chosen.dim}", steps=chosen.trials)
    has_theory = chosen.mode != "joint" or chosen.test_length is None
    # the joint minimum covers less than training does: no ridge of zero, no hinge
    failures = OneheadError if chosen.mode == "joint" else SolveError
    theory = prediction_or_note(lambda: solve_cases(cases, predicted, "predicting"), failures) if has_theory else None
    theory = theory or []
    _add_predictions(solved, theory)
    columns: dict[str, str] = {}
    for name, meaning in sparse.TrainingResult.MEANINGS.items():
        columns[name] = meaning
        if name != "sharpness":
            columns[f"{name}_std"] = "standard deviation between trials"
        if name == "test_error":
            columns[f"{name}_err"] = "standard error of the mean"
        if f"{name}_theory" in solved[0].row:
            columns |= {f"{name}_theory": "predicted", f"{name}_z": "difference divided by the standard error"}
    if theory:
        columns["verdict"] = "agreement of the test error with the prediction"
    if len(cases) > 1:
        columns = {name: meaning for name, meaning in columns.items() if name in TRAIN_COLUMNS}
    return cases_result(solved, {**columns, **STATUS}, title="Measurement", draw=draw)


def _add_predictions(runs: list[SolvedCase], theory: list[SolvedCase]) -> None:
    """Add the predictions and the z-scores of the runs to their rows."""
    for (_, run, row), (_, prediction, _) in zip(runs, theory, strict=bool(theory)):
        if run is None or prediction is None:
            continue
        for item in run.against(prediction):
            row |= {f"{item.quantity}_theory": item.predicted, f"{item.quantity}_z": plain(item.z)}
            if item.quantity == "test_error":
                row["verdict"] = item.verdict


@command.command()
@sparse_options
@flag_of(TRAIN["model"])
@click.option("--alphas", type=type_of(ALPHA, ranged=True), help="All samples over dimension [alpha0 + alpha1].")
@dims_option("250,500", smallest=3)
@flag_of(TRAIN["trials"], help="Number of independent runs per dimension.")
@flag_of(TRAIN["mode"])
@flag_of(TRAIN["test_length"])
@seed_option()
@bayes_option
@output_options()
def compare(
    case: Case, alphas: tuple[float, ...] | None, dims: tuple[int, ...], seed: int, bayes: bool, **flags: Any
) -> CommandResult:
    """Theory and training at several dimensions, with z-scores and the limit of infinite dimension.

    Example: onehead sparse compare --alphas 1,4 --dims 250,500 --trials 8
    """
    chosen = dict(SparseTrain(**given(flags)))
    chosen.pop("dim")
    chosen.pop("steps")  # has no flag here
    trials = chosen.pop("trials")
    with progress("runs", len(alphas or (0,)) * len(dims) * trials) as step:
        table = sparse.compare(
            case.task, case.protocol, alphas, dims, trials, seed=seed, bayes=bayes, progress=step, **chosen
        )
    return comparison_result(table, "trials", bayes=bayes)


@command.command("map")
@sparse_options
@axis_options(PARAMETERS, "eta-b=0:9:10")
@flag_of(ACCURACY, default="an error of 0.001")
@bayes_option
@output_options()
def map_(case: Case, x: Axis, y: Axis, of: str, accuracy: float | None, bayes: bool) -> CommandResult:
    """Predictions over a grid of any two parameters, as a table or a heat map.

    The heat map is hatched where the query is anti-aligned with the signal, and where pooling is better.

    Example: onehead sparse map --x eta-b=0:9:10 --y beta=2:12:6 --positive-rate 0.2 --plot map.png
    """
    with progress("cells", len(x[1]) * len(y[1])) as advance:
        found = sparse.map(case.task, case.protocol, x=x, y=y, of=of, bayes=bayes, accuracy=accuracy, progress=advance)
    errors = ("cos_query", "test_error", "pooled_test_error", *([BAYES_TEST_ERROR] if bayes else []))
    return map_result(found, (*errors, "anti_aligned", "worse_than_pooled"), lines=found.lines, title="Map")


@command.command()
@sparse_options
@click.option("--alpha", type=type_of(ALPHA), help="All samples over dimension [alpha0 + alpha1].")
@click.option(
    "--protocol",
    "procedure",
    type=Choice("split", "reuse", "descend"),
    default="split",
    show_default=True,
    help="Two stages on a part of the samples each, on all samples, or joint descent on all samples.",
)
@flag_of(TOTAL["dim"])
@flag_of(ACCURACY, default="an error of 0.0002")
@bayes_option
@output_options()
def tune(
    case: Case, alpha: float | None, procedure: str, dim: int | None, accuracy: float | None, bayes: bool
) -> CommandResult:
    """Best division of the samples, bias rate, temperature and ridge, from the theory.

    With --protocol reuse: temperature and ridge. With --protocol descend: rates, ridges and the step at which to stop.
    """
    if procedure != "split":
        for flag, value in (("--dim", dim), ("--accuracy", accuracy)):
            if value is not None:
                raise InvalidArgument(flag, value, "left out unless --protocol is split")
        return _tune_joint(case, alpha, procedure, bayes)
    from onehead.sparse.verbs.tune import GRID_POINTS, MAX_REFINEMENTS

    with progress("search", GRID_POINTS + MAX_REFINEMENTS) as step:
        found = sparse.tune(
            case.task, case.protocol, alpha=alpha, dim=dim, bayes=bayes, accuracy=accuracy, progress=step
        )
    scanned = ("split", "sharpness", "ridge", "test_error")
    given_error = "with the flags as given, at the same number of samples"
    return CommandResult.of(
        found,
        {"test_error": "predicted", "given_test_error": given_error, **({} if bayes else dict.fromkeys(GAP_MEANINGS))},
        title="Tuned",
        rows=[dict(zip(scanned, values, strict=True)) for values in found.scan],
        draw=lambda: plot.tuned(found),
    )


def _tune_joint(case: Case, alpha: float | None, procedure: Any, bayes: bool) -> CommandResult:
    """Tune reused data or joint descent."""
    from onehead.sparse.verbs.tune_joint import SEARCH_POINTS

    with progress("search", SEARCH_POINTS) as step:
        found = sparse.tune_joint(case.task, case.protocol, procedure, alpha=alpha, bayes=bayes, progress=step)
    left_out = dict.fromkeys([*([] if bayes else GAP_MEANINGS), *(["best_step"] if procedure == "reuse" else [])])
    return CommandResult.of(found, left_out, title="Tuned", rows=[found.to_dict()])
