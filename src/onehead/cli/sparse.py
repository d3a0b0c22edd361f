"""``onehead sparse``: sparse-token classification."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from onehead import plot, sparse
from onehead.best import BESIDE, GAP
from onehead.cli.axes import axis_options
from onehead.cli.compared import compared
from onehead.cli.frame import Answer, answered, failed_of, noted_of
from onehead.cli.groups import Guide
from onehead.cli.output import note, progress
from onehead.cli.sparse_flags import Case, Solved, abscissa, answer_of, between, seed_option, solve, sparse_options
from onehead.cli.values import Range, Word, flag_of, given, type_of
from onehead.errors import InvalidArgument, SolveError
from onehead.fields import words_of
from onehead.maps import Axis
from onehead.problem import Accuracy
from onehead.results import Result, plain
from onehead.sparse.task import MODELS
from onehead.sparse.words import KNOWN
from onehead.sweep.settings import Gate, Model, Posterior, Queries, Total, Trials

__all__ = ["command"]

MODEL, QUERIES, TRIALS, ALPHA = words_of(Model), words_of(Queries), words_of(Trials), words_of(Total)["alpha"]
POSTERIOR, ACCURACY = words_of(Posterior), words_of(Accuracy)["accuracy"]
MEASURED = (
    "test_error",
    "test_error_err",
    "test_error_theory",
    "test_error_z",
    "verdict",
    "train_loss",
    "cos_query",
)  # of many
bayes_option = click.option("--bayes", is_flag=True, help="The best possible learner of the same data beside it.")


@click.group(cls=Guide)
def command() -> None:
    """Sparse-token classification: attention against pooled and vectorised linear classifiers.

    A positive sequence carries a weak signal in a few random tokens. Numeric flags take ranges
    (start:stop:count, log:start:stop:count, or a comma list); the answer is then a list.
    """


@command.command()
@sparse_options
@answered()
def align(cases: list[Case]) -> Answer:
    """Where the two gradient steps point: cosine of query and readout with the signal."""
    solved = solve(cases, lambda case, _: sparse.align(case.task, case.protocol), "aligning")
    columns = {**sparse.Alignment.MEANINGS, "status": "in words"}
    return answer_of(solved, columns, title="Two gradient steps", draw=plot.alignment)


@command.command()
@sparse_options
@flag_of(MODEL["model"], type=Word(*MODELS, "all"), help="Which model, or all three.")
@flag_of(ALPHA, ranged=True)
@flag_of(MODEL["test_length"])
@flag_of(QUERIES["dim"], help="Finite dimension: average over sampled queries (attention).")
@flag_of(QUERIES["trials"], help="Sampled queries, with --dim.")
@seed_option("Of the sampled queries.")
@flag_of(ACCURACY, default="an error of 0.0002")
@bayes_option
@answered()
def predict(
    cases: list[Case],
    model: str | None,
    test_length: int | None,
    seed: int,
    accuracy: float | None,
    bayes: bool,
    **queries: int | None,
) -> Answer:
    """Test error, training loss and training error of a model, without training it."""
    finite = Queries(**given(queries)) if queries["dim"] is not None else None
    if finite is not None and (model not in (None, "attention") or test_length is not None or accuracy is not None):
        allowed = "used with --model attention, without --test-length and without --accuracy"
        raise InvalidArgument("--dim", finite.dim, allowed)
    parts: dict[str, list[Solved]] = {}
    for name in MODELS if model == "all" else [model or Model().model]:

        def answer(case: Case, _: Callable[[], None], name: str = name) -> Result:
            if finite is not None:
                return sparse.finite_size(case.task, case.protocol, **dict(finite), seed=seed)
            return sparse.predict(case.task, case.protocol, model=name, test_length=test_length, accuracy=accuracy)

        parts[name] = solve(cases, answer, f"predicting {name}")
    best = solve(cases, _best, "best possible") if bayes else []
    for part in parts.values():
        for (*_, row), (_, found, _) in zip(part, best, strict=bool(best)):
            row[BESIDE] = None if found is None else found.test_error

    def draw(results: list[Any], x: list[float], axis: str) -> Any:
        found = {name: abscissa(part) for name, part in parts.items()}
        curves = {name: (x, results) for name, (results, x, _) in found.items()}
        return plot.error_curve(curves, axis, best=abscissa(best)[1::-1] if best else None)

    trust = {"residual": "of the equations", "quadrature_error": "of the test error", "status": "in words"}
    columns = {**sparse.Prediction.MEANINGS, **({BESIDE: GAP[BESIDE]} if bayes else {}), **trust}
    return answer_of([one for part in parts.values() for one in part], columns, title="Prediction", draw=draw)


def _best(case: Case, _: Callable[[], None]) -> "sparse.Best":
    return sparse.bayes(case.task, case.protocol.alpha)


@command.command()
@sparse_options
@flag_of(ALPHA, ranged=True, help="Labelled sequences over dimension in all.")
@click.option("--explain", is_flag=True, help="Say in words what the numbers mean.")
@answered()
def bayes(cases: list[Case], explain: bool) -> Answer:
    """The best possible learner from the same data: what anybody could find who knows all but the signal direction.

    Example: onehead sparse bayes --length 300 --strength 8 --alpha 0.035
    """
    solved = solve(cases, _best, "best possible")
    columns = {**sparse.Best.MEANINGS, "status": "in words"}
    found = answer_of(solved, columns, title="Best possible learner", draw=plot.best_error)
    text = "\n\n".join(result.explain() for _, result, _ in solved if result is not None) if explain else ""
    return replace(found, text=text)


@command.command()
@sparse_options
@flag_of(ALPHA, ranged=True, help="Labelled sequences over dimension in all.")
@flag_of(POSTERIOR["dim"])
@flag_of(POSTERIOR["trials"])
@flag_of(POSTERIOR["method"])
@flag_of(POSTERIOR["start"])
@flag_of(POSTERIOR["iterations"])
@seed_option("Of all random numbers.")
@answered()
def amp(cases: list[Case], seed: int, **flags: Any) -> Answer:
    """Message passing, or samples of the exact posterior, on finite data beside the theory of the best possible learner.

    Example: onehead sparse amp --alpha 1 --strength 3 --dim 300 --trials 10
    """
    chosen = Posterior(**given(flags))

    def answer(case: Case, advance: Callable[[], None]) -> Result:
        return sparse.amp(case.task, case.protocol.alpha, seed=seed, progress=advance, **dict(chosen))

    def draw(runs: list[Any], where: list[float], axis: str) -> Any:
        return plot.best_error(*abscissa(solve(between(cases), _best, "best possible")), runs=(where, runs))

    solved = solve(cases, answer, f"{chosen.method} at d = {chosen.dim}", steps=chosen.trials)
    columns: dict[str, str] = {}
    for name, meaning in sparse.AmpResult.MEANINGS.items():
        columns[name] = meaning
        if not name.endswith("_theory"):
            columns[f"{name}_err"] = "standard error of the mean"
    return answer_of(solved, {**columns, "status": "in words"}, title="Search for the signal", draw=draw)


@command.command()
@sparse_options
@answered()
def capacity(cases: list[Case]) -> Answer:
    """Largest number of samples over dimension that each model separates (a conjecture)."""
    solved = solve(cases, lambda case, _: sparse.capacity(case.task, case.protocol), "capacity")
    columns = {
        **sparse.Capacity.MEANINGS,
        "attention": "samples for the readout over dimension",  # shorter: the command says what they are
        "pooled": "all samples over dimension",
        "vectorised": "all samples over dimension; length times pooled",
        "quadrature_error": "of attention",
        "kind": "of truth",
    }
    return answer_of(solved, columns, title="Capacity", draw=plot.capacity)


@command.command()
@sparse_options
@flag_of(words_of(Gate)["activation"])
@click.option(
    "--growth",
    type=Word("fixed", "log", "sqrt"),
    default="fixed",
    show_default=True,
    help="Strength as given, times sqrt(log L), or times sqrt(L).",
)
@seed_option("Of the Monte Carlo samples.")
@answered()
def oracle(cases: list[Case], activation: str | None, growth: str, seed: int) -> Answer:
    """Best achievable error of each model that knows the signal direction."""
    gate = activation or Gate().activation
    grown = [case._replace(task=sparse.grow(case.task, [case.task.length], growth)[0]) for case in cases]
    solved = solve(grown, lambda case, _: sparse.oracle(case.task, activation=gate, seed=seed), "oracle")
    columns = {**sparse.Oracle.MEANINGS, "elementwise": f"element-wise attention, {gate}", "status": "how"}
    return answer_of(solved, columns, title="Oracle", draw=plot.oracle)


@command.command()
@sparse_options
@flag_of(TRIALS["model"])
@flag_of(ALPHA, ranged=True)
@flag_of(TRIALS["dim"])
@flag_of(TRIALS["trials"])
@flag_of(TRIALS["mode"])
@flag_of(TRIALS["test_length"])
@seed_option("Of all random numbers.")
@answered()
def train(cases: list[Case], seed: int, **flags: Any) -> Answer:
    """The protocol on real samples: means over trials and their spread, beside the prediction."""
    chosen = Trials(**given(flags))

    def answer(case: Case, advance: Callable[[], None]) -> Result:
        return sparse.train(case.task, case.protocol, progress=advance, seed=seed, **dict(chosen))

    def predicted(case: Case, _: Callable[[], None]) -> Result:
        return sparse.predict(case.task, case.protocol, model=chosen.model, test_length=chosen.test_length)

    def draw(runs: list[Any], where: list[float], axis: str) -> Any:
        results, x, _ = abscissa(solve(between(cases), predicted, "predicting")) if theory else ([], [], "")
        return plot.error_curve({chosen.model: (x, results)}, axis, runs={chosen.model: (where, runs)})

    solved = solve(cases, answer, f"training at d = {chosen.dim}", steps=chosen.trials)
    theory = _theory(cases, predicted) if chosen.mode != "joint" else []
    _lay_beside(solved, theory)
    columns: dict[str, str] = {}
    for name, meaning in sparse.TrainingResult.MEANINGS.items():
        columns[name] = meaning
        if name != "sharpness":
            columns[f"{name}_std"] = "spread between trials"
        if name == "test_error":
            columns[f"{name}_err"] = "standard error of the mean"
        if f"{name}_theory" in solved[0][2]:
            columns |= {f"{name}_theory": "predicted", f"{name}_z": "difference over the standard error"}
    if theory:
        columns["verdict"] = "on the test error"
    if len(cases) > 1:
        columns = {name: meaning for name, meaning in columns.items() if name in MEASURED}
    return answer_of(solved, {**columns, "status": "in words"}, title="Measurement", draw=draw)


def _theory(cases: list[Case], predicted: Callable[[Case, Callable[[], None]], Result]) -> list[Solved]:
    """Predictions to lay beside runs; where theory gives none, say so and go on."""
    try:
        return solve(cases, predicted, "predicting")
    except SolveError as failure:
        note(f"no prediction to compare with: {failure}")
        return []


def _lay_beside(runs: list[Solved], theory: list[Solved]) -> None:
    """Write the prediction, and how far the runs are from it, into the rows of runs."""
    for (_, run, row), (_, point, _) in zip(runs, theory, strict=bool(theory)):
        if run is None or point is None:
            continue
        for item in run.against(point):
            row |= {f"{item.quantity}_theory": item.predicted, f"{item.quantity}_z": plain(item.z)}
            if item.quantity == "test_error":
                row["verdict"] = item.verdict


@command.command()
@sparse_options
@flag_of(TRIALS["model"])
@click.option("--alphas", type=type_of(ALPHA, ranged=True), help="All samples over dimension [alpha0 + alpha1].")
@click.option("--dims", type=Range(whole=True, ge=3), default="250,500", show_default=True, help="Dimensions.")
@flag_of(TRIALS["trials"], help="Independent runs per dimension.")
@flag_of(TRIALS["mode"])
@flag_of(TRIALS["test_length"])
@seed_option("Of all random numbers.")
@bayes_option
@answered()
def compare(
    case: Case, alphas: tuple[float, ...] | None, dims: tuple[int, ...], seed: int, bayes: bool, **flags: Any
) -> Answer:
    """Theory beside training at several dimensions, with z-scores and the limit of infinite dimension.

    Example: onehead sparse compare --alphas 1,4 --dims 250,500 --trials 8
    """
    chosen = dict(Trials(**given(flags)))
    chosen.pop("dim")
    trials = chosen.pop("trials")
    with progress("runs", len(alphas or (0,)) * len(dims) * trials) as step:
        table = sparse.compare(
            case.task, case.protocol, alphas, dims, trials, seed=seed, bayes=bayes, progress=step, **chosen
        )
    return compared(table, "trials", bayes=bayes)


@command.command("map")
@sparse_options
@axis_options(KNOWN, "eta-b=0:9:10")
@flag_of(ACCURACY, default="an error of 0.001")
@bayes_option
@answered()
def map_(case: Case, x: Axis, y: Axis, of: str, accuracy: float | None, bayes: bool) -> Answer:
    """Any two words over a grid, as a table or a heat map; hatched where the query looks away, or pooling is better.

    Example: onehead sparse map --x eta-b=0:9:10 --y beta=2:12:6 --positive-rate 0.2 --plot map.png
    """
    with progress("cells", len(x[1]) * len(y[1])) as advance:
        found = sparse.map(case.task, case.protocol, x=x, y=y, of=of, bayes=bayes, accuracy=accuracy, progress=advance)
    beside = ("cos_query", "test_error", "pooled_test_error", *([BESIDE] if bayes else []))
    return Answer(
        value=found.to_rows(),
        columns=tuple(dict.fromkeys([x[0], y[0], of, *beside, "anti_aligned", "worse_than_pooled", "status"])),
        title="Map",
        draw=lambda: plot.heat_map(found, lines=found.lines()),
        warnings=noted_of(found, "cells"),
        failed=failed_of(found, "cells"),
    )


@command.command()
@sparse_options
@click.option("--alpha", type=type_of(ALPHA), help="All samples over dimension [alpha0 + alpha1].")
@flag_of(ACCURACY, default="an error of 0.0002")
@bayes_option
@answered()
def tune(case: Case, alpha: float | None, accuracy: float | None, bayes: bool) -> Answer:
    """Best split, bias rate, temperature and ridge, from the theory."""
    from onehead.sparse.verbs.tune import GRID, REFINEMENTS

    with progress("search", GRID + REFINEMENTS) as step:
        found = sparse.tune(case.task, case.protocol, alpha=alpha, bayes=bayes, accuracy=accuracy, progress=step)
    scanned = ("split", "sharpness", "ridge", "test_error")
    given_error = "of the flags as given, at the same number of samples"
    return Answer.of(
        found,
        {"test_error": "predicted", "given_test_error": given_error, **({} if bayes else dict.fromkeys(GAP))},
        title="Tuned",
        rows=[dict(zip(scanned, values, strict=True)) for values in found.scan],
        draw=lambda: plot.tuned(found),
    )
