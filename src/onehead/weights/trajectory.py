"""Comparison of two or more checkpoints of one model, head by head: what changed, and when each head emerged."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.results import Certificate, Items, Result, wrap_sentences
from onehead.weights.checkpoint.loading import Source
from onehead.weights.head_spectrum import MAX_WEIGHT
from onehead.weights.head_survey import Plan, plan, run
from onehead.weights.report import HeadReport
from onehead.weights.summary import Survey

Array = NDArray[np.float64]
HeadKey = tuple[str, int | None]  # module and head

NAMED_HEADS = 4  # heads that `Trajectory.explain` names per step


class Change(NamedTuple):
    """One head over all steps: its reports, and the distance ``moved`` of its map from the first one, ‖A - A₀‖/‖A₀‖."""

    heads: tuple[HeadReport, ...]
    moved: tuple[float | None, ...]
    steps: tuple[int, ...]

    @property
    def emerged(self) -> int | None:
        """Step at which the head left noise for good; None if it is noise at the last step, or was not at the first."""
        verdicts = [head.verdict for head in self.heads]
        if verdicts[0] != "noise" or verdicts[-1] in ("noise", None):
            return None
        last = max(i for i, verdict in enumerate(verdicts) if verdict in ("noise", None))
        return self.steps[last + 1]

    def row(self) -> dict[str, Any]:
        """Return first and last step as one row of a table."""
        first, last = self.heads[0], self.heads[-1]
        verdicts = [head.verdict or head.status for head in (first, last)]
        counts = [f"{round((head.rank or 0.0) * head.hidden)}" for head in (first, last)]
        outliers = [f"{len(head.own_outliers)}" for head in (first, last)]
        return {
            "module": first.module,
            "layer": first.layer,
            "head": first.head,
            "verdict": verdicts[0] if verdicts[0] == verdicts[1] else " → ".join(verdicts),
            "emerged": self.emerged,
            "outliers": " → ".join(outliers),
            "rank": " → ".join(counts),
            "moved": None if self.moved[-1] is None else f"{self.moved[-1]:.3g}",
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class Trajectory(Items[Change], Result):
    """Checkpoints of one model in order, each compared with the first; the result of `compare`.

    Attributes
    ----------
    files : tuple of str
        The checkpoints.
    steps : tuple of int
        Training step of each, taken from the names of the files, or 0, 1, 2, ...
    surveys : tuple of Survey
        One survey per checkpoint.
    changes : tuple of Change
        One entry per head; a trajectory is also a sequence of them.
    """

    _ITEMS: ClassVar[str] = "changes"
    _HIDDEN: ClassVar[tuple[str, ...]] = ("surveys", "changes")
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("step", "layer", "head", "verdict", "rank", "moved")

    files: tuple[str, ...]
    steps: tuple[int, ...]
    surveys: tuple[Survey, ...]
    changes: tuple[Change, ...]
    certificate: Certificate

    @property
    def emerged(self) -> dict[int, tuple[HeadReport, ...]]:
        """Reports on the heads that left noise for good, by the step at which they did."""
        found: dict[int, list[HeadReport]] = {}
        for change in self.changes:
            if (step := change.emerged) is not None:
                found.setdefault(step, []).append(change.heads[self.steps.index(step)])
        return {step: tuple(found[step]) for step in sorted(found)}

    @property
    def summary(self) -> str:
        """One sentence about the changes from the first to the last checkpoint."""
        count = sum(len(heads) for heads in self.emerged.values())
        parts = [f"From step {self.steps[0]} to step {self.steps[-1]}, {count} of {len(self)} heads emerged from noise"]
        if count:
            step, heads = next(iter(self.emerged.items()))
            parts.append(f"the first at step {step} (layer {heads[0].layer} head {heads[0].head})")
        outliers = [sum(len(head.own_outliers) for head in survey) for survey in (self.surveys[0], self.surveys[-1])]
        parts.append(f"outliers went from {outliers[0]} to {outliers[1]}")
        ranks = [_median([head.used for head in survey]) for survey in (self.surveys[0], self.surveys[-1])]
        parts.append(f"the median head uses {ranks[1]:.0%} of its directions, {ranks[0]:.0%} at first")
        known = [change for change in self.changes if change.moved[-1] is not None]
        if known:
            most = max(known, key=lambda change: change.moved[-1] or 0.0)
            head = most.heads[-1]
            parts.append(
                f"layer {head.layer} head {head.head} moved most, by {most.moved[-1]:.3g} times its initial norm"
            )
        return "; ".join(parts) + "."

    def explain(self) -> str:
        """Return the summary, the heads that emerged at each step, and the summary of the last checkpoint."""
        emerged = []
        for step, heads in self.emerged.items():
            names = ", ".join(f"layer {head.layer} head {head.head} ({head.verdict})" for head in heads[:NAMED_HEADS])
            more = f" and {len(heads) - NAMED_HEADS} more" if len(heads) > NAMED_HEADS else ""
            emerged.append(f"Emerged at step {step}: {names}{more}.")
        return wrap_sentences([self.summary, *emerged, f"At the end: {self.surveys[-1].summary}", *self._closing()])

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per step and head: its report, file and step, and differences from the first step."""
        rows = []
        for i, (file, step) in enumerate(zip(self.files, self.steps, strict=True)):
            for change in self.changes:
                first, head = change.heads[0], change.heads[i]
                rows.append(
                    {"file": file, "step": step}
                    | head.to_dict()
                    | {
                        "moved": change.moved[i],
                        "emerged": change.emerged,
                        "rank_change": _difference(head.rank, first.rank),
                        "outliers_change": len(head.own_outliers) - len(first.own_outliers),
                        "symmetric_share_change": _difference(head.symmetric_share, first.symmetric_share),
                    }
                )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return the trajectory as a dict of plain values, with its summary and its rows."""
        return Result.to_dict(self) | {"summary": self.summary, "heads": self.to_rows()}

    def __repr__(self) -> str:
        return f"Trajectory(steps={self.steps[0]}..{self.steps[-1]}, checkpoints={len(self.steps)}, heads={len(self)})"


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else float("nan")


def _difference(new: float | None, old: float | None) -> float | None:
    return None if new is None or old is None else new - old


def order_by_step(files: Sequence[str | Path]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return files in the order of the last numbers in their names, and these numbers as steps.

    If a name has no number, or two have the same, the files stay in the given order and the steps are 0, 1, 2, ...

    Examples
    --------
    >>> order_by_step(["step-100", "step-20/model.safetensors"])
    (('step-20/model.safetensors', 'step-100'), (20, 100))
    >>> order_by_step(["after", "before"])
    (('after', 'before'), (0, 1))
    """
    names = [str(file) for file in files]
    numbers = [_step(Path(name)) for name in names]
    if None in numbers or len(set(numbers)) < len(numbers):
        return tuple(names), tuple(range(len(names)))
    pairs = sorted((number, name) for number, name in zip(numbers, names, strict=True) if number is not None)
    return tuple(name for _, name in pairs), tuple(number for number, _ in pairs)


def _step(path: Path) -> int | None:
    """Return the last number in the name of a checkpoint, or in that of its folder if the file has a generic name."""
    name = path.parent.name if path.name.startswith(("model.", "adapter_model.")) else path.name
    found = re.findall(r"\d{1,15}", name.removesuffix(".safetensors").removesuffix(".gguf"))
    return int(found[-1]) if found else None


def compare(
    files: Sequence[Source],
    *,
    fit: bool = False,
    progress: Callable[[HeadReport], None] | None = None,
    **options: Any,
) -> Trajectory:
    """Measure every head of two or more checkpoints of one model, and compare each checkpoint with the first.

    Parameters
    ----------
    files : sequence of str, Path or mapping
        The checkpoints. Files are put in the order of the numbers in their names if all have different numbers;
        otherwise, and for mappings, the given order is kept.
    fit : bool
        Whether to fit the laws to every head of every checkpoint.
    progress : callable, optional
        Called with every finished report.
    **options
        Layers, heads, layout and counts, as for `survey`.

    Returns
    -------
    Trajectory

    Raises
    ------
    InvalidArgument
        If there are fewer than two checkpoints, or if they have different heads.
    BadFile
        If a file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from safetensors.numpy import save_file
    >>> rng, name = np.random.default_rng(0), "encoder.layer.0.attention.self.{}.weight"
    >>> old = {name.format(side): rng.standard_normal((64, 64), dtype=np.float32) for side in ("query", "key")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for step, size in ((0, 1.0), (10, 2.0)):
    ...         save_file({key: size * W for key, W in old.items()}, f"{folder}/step-{step}.safetensors")
    ...     found = compare([f"{folder}/step-0.safetensors", f"{folder}/step-10.safetensors"], head_count=2)
    >>> [round(change.moved[-1], 6) for change in found]  # four times the map is three times its norm away
    [3.0, 3.0]
    """
    named = [file for file in files if isinstance(file, (str, Path))]
    sources, steps = order_by_step(named) if len(named) == len(files) else (tuple(files), tuple(range(len(files))))
    return compare_plans([plan(source, **options) for source in sources], steps, fit=fit, progress=progress)


def compare_plans(
    plans: Sequence[Plan],
    steps: tuple[int, ...],
    *,
    fit: bool = False,
    progress: Callable[[HeadReport], None] | None = None,
) -> Trajectory:
    """Measure the heads of several plans, one per step, and compare each with the first.

    The second half of `compare`.
    """
    if len(plans) < 2:
        raise InvalidArgument("files", len(plans), "at least two checkpoints")
    surveys = tuple(run(work, fit=fit, progress=progress) for work in plans)
    orders = [[(head.module, head.head) for head in survey] for survey in surveys]
    for work, order in zip(plans, orders, strict=True):
        if order != orders[0]:
            odd = next((key for key in order if key not in orders[0]), next(iter(set(orders[0]) - set(order))))
            raise InvalidArgument(
                "FILE", work.checkpoint.path.name, f"a checkpoint with the same heads as the first; {odd[0]!r} differs"
            )
    moved = [_distances(plans[0], work) for work in plans]
    changes = tuple(
        Change(tuple(survey[i] for survey in surveys), tuple(distances.get(key) for distances in moved), steps)
        for i, key in enumerate(orders[0])
    )
    bad = sum(head.status != "ok" for survey in surveys for head in survey)
    status = "complete" if not bad else f"{bad} heads gave no numbers"
    return Trajectory(
        files=tuple(survey.path for survey in surveys),
        steps=steps,
        surveys=surveys,
        changes=changes,
        certificate=Certificate(status=status, kind="measurement"),
    )


def _distances(first: Plan, other: Plan) -> dict[HeadKey, float]:
    """Return ‖A - A₀‖/‖A₀‖ for every head that both checkpoints have, with one layer of each in memory."""
    found: dict[HeadKey, float] = {}
    for old, new in zip(first.layers, other.layers, strict=True):
        if old.reason or new.reason or (old.head_dim, old.hidden) != (new.head_dim, new.hidden):
            continue
        before, after = old.load(first.checkpoint), new.load(other.checkpoint)
        for head in first.heads_of(old):
            if head is not None:
                value = _distance(old.factors(before, head), new.factors(after, head))
                if value is not None:
                    found[old.module, head] = value
    return found


def _distance(old: tuple[Array, Array], new: tuple[Array, Array]) -> float | None:
    """Return ‖B - A‖/‖A‖ for two maps given by their factors, or None if a weight is not finite or A is zero.

    Only p x p products are needed: Tr A'B is the sum of the entries of (Q_A Q_B') ∘ (K_A K_B').
    """
    if not all((np.abs(matrix) <= MAX_WEIGHT).all() for matrix in (*old, *new)):
        return None
    size = [float(np.abs(np.concatenate([old[i], new[i]])).max()) or 1.0 for i in (0, 1)]
    A, B = ((pair[0] / size[0], pair[1] / size[1]) for pair in (old, new))

    def inner(first: tuple[Array, Array], second: tuple[Array, Array]) -> float:
        return float(np.sum((first[0] @ second[0].T) * (first[1] @ second[1].T)))

    norm = inner(A, A)
    if not norm > 0.0:
        return None
    return float(np.sqrt(max(inner(B, B) - 2.0 * inner(A, B) + norm, 0.0) / norm))
