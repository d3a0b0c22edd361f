"""``onehead sparse``: sparse-token classification."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from onehead.cli.frame import Answer, answered
from onehead.cli.groups import Guide
from onehead.cli.output import progress
from onehead.cli.sparse_flags import Axis, Case, Solved, abscissa, answer_of, solve, sparse_options
from onehead.cli.values import Number, Range, Whole, Word
from onehead.errors import InvalidArgument
from onehead.sparse.task import MODELS

if TYPE_CHECKING:
    from onehead.results import Result

__all__ = ["command"]

alpha_option = click.option(
    "--alpha", type=Range(gt=0.0), help="All samples over dimension, split as alpha0 to alpha1."
)
length_option = click.option(
    "--test-length", type=Whole(1, 20_000), help="Length of the test sequences, if it differs."
)


def seed_option(what: str) -> Callable[[Any], Any]:
    """Add ``--seed``."""
    return click.option("--seed", type=Whole(0), default=0, show_default=True, help=what)


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
    from onehead import plot, sparse

    solved = solve(cases, lambda case, _: sparse.align(case.task, case.protocol), "aligning")
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
    return answer_of(solved, columns, title="Two gradient steps", draw=plot.alignment)


@command.command()
@sparse_options
@click.option(
    "--model",
    type=Word(*MODELS, "all"),
    default="attention",
    show_default=True,
    help="Which model, or all three.",
)
@alpha_option
@length_option
@click.option("--dim", type=Whole(3), help="Finite dimension: average over sampled queries (attention).")
@click.option("--trials", type=Whole(2), default=40, show_default=True, help="Sampled queries, with --dim.")
@seed_option("Of the sampled queries.")
@answered()
def predict(cases: list[Case], model: str, test_length: int | None, dim: int | None, trials: int, seed: int) -> Answer:
    """Test error, training loss and training error of a model, without training it."""
    from onehead import plot, sparse

    if dim is not None and (model != "attention" or test_length is not None):
        raise InvalidArgument("--dim", dim, "used with --model attention and without --test-length")
    parts: dict[str, list[Solved]] = {}
    for name in MODELS if model == "all" else [model]:

        def answer(case: Case, _: Callable[[], None], name: str = name) -> "Result":
            if dim is not None:
                return sparse.finite_size(case.task, case.protocol, dim=dim, trials=trials, seed=seed)
            return sparse.predict(case.task, case.protocol, model=name, test_length=test_length)

        parts[name] = solve(cases, answer, f"predicting {name}")

    def draw(results: list[Any], x: list[float], axis: str) -> Any:
        found = {name: abscissa(part) for name, part in parts.items()}
        return plot.error_curve({name: (x, results) for name, (results, x, _) in found.items()}, axis)

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
    return answer_of([one for part in parts.values() for one in part], columns, title="Prediction", draw=draw)


@command.command()
@sparse_options
@answered()
def capacity(cases: list[Case]) -> Answer:
    """Largest number of samples over dimension that each model separates (a conjecture)."""
    from onehead import plot, sparse

    solved = solve(cases, lambda case, _: sparse.capacity(case.task, case.protocol), "capacity")
    columns = {
        "attention": "samples for the readout over dimension",
        "pooled": "all samples over dimension",
        "vectorised": "all samples over dimension; length times pooled",
        "cos_query": "cosine of the query with the signal",
        "sharpness": "beta times the length of the query",
        "quadrature_error": "of attention",
        "kind": "of truth",
    }
    return answer_of(solved, columns, title="Capacity", draw=plot.capacity)


@command.command()
@sparse_options
@click.option(
    "--activation",
    type=Word("sigmoid", "step", "relu", "power"),
    default="sigmoid",
    show_default=True,
    help="Gate of element-wise attention.",
)
@click.option(
    "--growth",
    type=Word("fixed", "log", "sqrt"),
    default="fixed",
    show_default=True,
    help="Strength as given, times sqrt(log L), or times sqrt(L).",
)
@seed_option("Of the Monte Carlo samples.")
@answered()
def oracle(cases: list[Case], activation: str, growth: str, seed: int) -> Answer:
    """Best achievable error of each model that knows the signal direction."""
    from onehead import plot, sparse

    grown = [case._replace(task=sparse.grow(case.task, [case.task.length], growth)[0]) for case in cases]
    solved = solve(grown, lambda case, _: sparse.oracle(case.task, activation=activation, seed=seed), "oracle")
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
    return answer_of(solved, columns, title="Oracle", draw=plot.oracle)


@command.command()
@sparse_options
@click.option("--model", type=Word(*MODELS), default="attention", show_default=True, help="Which model.")
@alpha_option
@click.option("--dim", type=Whole(3, 100_000), default=500, show_default=True, help="Dimension d of a token.")
@click.option("--trials", type=Whole(1, 100_000), default=8, show_default=True, help="Independent runs.")
@click.option(
    "--mode",
    type=Word("reduced", "tokens", "joint"),
    default="reduced",
    show_default=True,
    help="Exact in law; every token stored; query and readout trained together.",
)
@length_option
@seed_option("Of all random numbers.")
@answered()
def train(cases: list[Case], model: str, test_length: int | None, **flags: Any) -> Answer:
    """The protocol on real samples: means over trials and their spread; a picture lays them over the prediction."""
    from onehead import plot, sparse

    same: dict[str, Any] = {"model": model, "test_length": test_length}

    def answer(case: Case, advance: Callable[[], None]) -> "Result":
        return sparse.train(case.task, case.protocol, progress=advance, **same, **flags)

    def predicted(case: Case, _: Callable[[], None]) -> "Result":
        return sparse.predict(case.task, case.protocol, **same)

    def draw(runs: list[Any], where: list[float], axis: str) -> Any:
        results, x, _ = abscissa(solve(cases, predicted, "predicting"))
        return plot.error_curve({model: (x, results)}, axis, runs={model: (where, runs)})

    solved = solve(cases, answer, f"training at d = {flags['dim']}", steps=flags["trials"])
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
    return answer_of(solved, columns, title="Measurement", draw=draw)


@command.command("map")
@sparse_options
@click.option("--x", type=Axis(), required=True, help="FLAG=RANGE, for example eta-b=0:9:10")
@click.option("--y", type=Axis(), required=True, help="FLAG=RANGE, for example beta=2:12:6")
@answered()
def map_(case: Case, x: tuple[str, tuple[float, ...]], y: tuple[str, tuple[float, ...]]) -> Answer:
    """Alignment and errors over two of eta-w, eta-b, eta-q, beta, split, ridge, alpha0, alpha1."""
    from onehead import plot, sparse

    with progress("mapping", len(x[1]) * len(y[1])) as advance:
        found = sparse.landscape(case.task, case.protocol, x=x, y=y, progress=advance)
    errors = ("cos_query", "test_error", "pooled_test_error")
    return Answer(
        value=found.to_rows(),
        columns=(found.x_name, found.y_name, *errors, "anti_aligned", "worse_than_pooled", "status"),
        title="Sensitivity",
        draw=lambda: plot.landscape(found),
    )


@command.command()
@sparse_options
@click.option("--alpha", type=Number(gt=0.0), help="All samples over dimension [alpha0 + alpha1].")
@answered()
def tune(case: Case, alpha: float | None) -> Answer:
    """Best split, bias rate, temperature and ridge, from the theory."""
    from onehead import plot, sparse
    from onehead.sparse.verbs.tune import GRID

    with progress("grid search", GRID) as step:
        found = sparse.tune(case.task, case.protocol, alpha=alpha, progress=step)
    scanned = ("split", "sharpness", "ridge", "test_error")
    return Answer(
        value=found.to_dict(),
        columns={
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
        },
        title="Tuned",
        rows=[dict(zip(scanned, values, strict=True)) for values in found.scan],
        draw=lambda: plot.tuned(found),
    )
