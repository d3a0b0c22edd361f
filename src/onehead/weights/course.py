"""Two checkpoints, or the steps of one training, head by head: what changed, and which heads emerged when."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.results import Certificate, Result, Rows, in_lines
from onehead.weights.heads import LARGEST
from onehead.weights.report import HeadReport
from onehead.weights.sources import Source
from onehead.weights.surveying import Plan, plan, run
from onehead.weights.whole import Survey

__all__ = ["Change", "Course", "compare", "follow", "in_order"]

Array = NDArray[np.float64]
Place = tuple[str, int | None]  # module and head


class Change(NamedTuple):
    """One head over all steps: its reports, and how far its map has moved from the first, in units of the first's norm."""

    heads: tuple[HeadReport, ...]
    moved: tuple[float | None, ...]
    steps: tuple[int, ...]

    @property
    def emerged(self) -> int | None:
        """The first step from which the head was never again noise; none if it is noise, or was not at the first step."""
        words = [head.verdict for head in self.heads]
        if words[0] != "noise" or words[-1] in ("noise", None):
            return None
        last = max(i for i, word in enumerate(words) if word in ("noise", None))
        return self.steps[last + 1]

    def row(self) -> dict[str, Any]:
        """First and last step side by side, for a table."""
        first, last = self.heads[0], self.heads[-1]
        words = [head.verdict or head.status for head in (first, last)]
        counts = [f"{round((head.rank or 0.0) * head.hidden)}" for head in (first, last)]
        outliers = [f"{len(head.own_outliers)}" for head in (first, last)]
        return {
            "module": first.module,
            "layer": first.layer,
            "head": first.head,
            "verdict": words[0] if words[0] == words[1] else " → ".join(words),
            "emerged": self.emerged,
            "outliers": " → ".join(outliers),
            "rank": " → ".join(counts),
            "moved": None if self.moved[-1] is None else f"{self.moved[-1]:.3g}",
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class Course(Rows, Result):
    """Checkpoints in order, the first being what the others are compared with; ``steps`` are their numbers."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("surveys", "changes")
    _SHOWN: ClassVar[tuple[str, ...]] = ("step", "layer", "head", "verdict", "rank", "moved")

    files: tuple[str, ...]
    steps: tuple[int, ...]
    surveys: tuple[Survey, ...]
    changes: tuple[Change, ...]
    certificate: Certificate

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def emerged(self) -> dict[int, tuple[HeadReport, ...]]:
        """Heads that left noise for good, by the step at which they did, as they were then."""
        found: dict[int, list[HeadReport]] = {}
        for change in self.changes:
            if (step := change.emerged) is not None:
                found.setdefault(step, []).append(change.heads[self.steps.index(step)])
        return {step: tuple(found[step]) for step in sorted(found)}

    @property
    def summary(self) -> str:
        """What changed from the first to the last, in one sentence."""
        count = sum(len(heads) for heads in self.emerged.values())
        parts = [f"From step {self.steps[0]} to step {self.steps[-1]}, {count} of {len(self)} heads emerged from noise"]
        if count:
            step, heads = next(iter(self.emerged.items()))
            parts.append(f"the first at step {step} (layer {heads[0].layer} head {heads[0].head})")
        outliers = [sum(len(head.own_outliers) for head in survey) for survey in (self.surveys[0], self.surveys[-1])]
        parts.append(f"outliers went from {outliers[0]} to {outliers[1]}")
        ranks = [_median([head.used for head in survey]) for survey in (self.surveys[0], self.surveys[-1])]
        parts.append(f"the median head uses {ranks[1]:.0%} of its directions after {ranks[0]:.0%}")
        known = [change for change in self.changes if change.moved[-1] is not None]
        if known:
            most = max(known, key=lambda change: change.moved[-1] or 0.0)
            head = most.heads[-1]
            parts.append(
                f"layer {head.layer} head {head.head} moved most, by {most.moved[-1]:.3g} times its first norm"
            )
        return "; ".join(parts) + "."

    def explain(self) -> str:
        """What changed, and the last checkpoint in words."""
        told = [
            f"At step {step}: {', '.join(f'layer {head.layer} head {head.head} ({head.verdict})' for head in heads[:4])}"
            f"{f' and {len(heads) - 4} more' if len(heads) > 4 else ''}."
            for step, heads in self.emerged.items()
        ]
        return in_lines([self.summary, *told, f"At the end: {self.surveys[-1].summary}", *self._closing()])

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per step and head: that of the head, file and step, and differences from the first step."""
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
        """The course with its rows."""
        return Result.to_dict(self) | {"summary": self.summary, "heads": self.to_rows()}

    def __repr__(self) -> str:
        return f"Course(steps={self.steps[0]}..{self.steps[-1]}, checkpoints={len(self.steps)}, heads={len(self)})"


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else float("nan")


def _difference(new: float | None, old: float | None) -> float | None:
    return None if new is None or old is None else new - old


def in_order(files: Sequence[str | Path]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Files by the last number in their names, which is then the step; as they stand, and counted, where one has none.

    Examples
    --------
    >>> in_order(["step-100", "step-20/model.safetensors"])
    (('step-20/model.safetensors', 'step-100'), (20, 100))
    >>> in_order(["after", "before"])
    (('after', 'before'), (0, 1))
    """
    names = [str(file) for file in files]
    numbers = [_step(Path(name)) for name in names]
    if None in numbers or len(set(numbers)) < len(numbers):
        return tuple(names), tuple(range(len(names)))
    pairs = sorted((number, name) for number, name in zip(numbers, names, strict=True) if number is not None)
    return tuple(name for _, name in pairs), tuple(number for number, _ in pairs)


def _step(path: Path) -> int | None:
    """The last number in the name of a checkpoint, that of its folder if the file has a name that all have."""
    name = path.parent.name if path.name.startswith(("model.", "adapter_model.")) else path.name
    found = re.findall(r"\d{1,15}", name.removesuffix(".safetensors").removesuffix(".gguf"))
    return int(found[-1]) if found else None


def compare(
    files: Sequence[Source],
    *,
    fit: bool = False,
    progress: Callable[[HeadReport], None] | None = None,
    **wanted: Any,
) -> Course:
    """Measure every head of two or more checkpoints of one model, and what changed from the first.

    Parameters
    ----------
    files : sequence of str, Path or mapping
        In the order of the numbers in their names if all have different ones, else as given, as mappings always are.
    fit : bool
        Whether to fit the laws to every head of every checkpoint.
    progress : callable, optional
        Called with every finished report.
    **wanted
        Which layers and heads, layout and counts, as for `survey`.

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
    sources, steps = in_order(named) if len(named) == len(files) else (tuple(files), tuple(range(len(files))))
    return follow([plan(source, **wanted) for source in sources], steps, fit=fit, progress=progress)


def follow(
    plans: Sequence[Plan],
    steps: tuple[int, ...],
    *,
    fit: bool = False,
    progress: Callable[[HeadReport], None] | None = None,
) -> Course:
    """Carry out the plans of `compare`."""
    if len(plans) < 2:
        raise InvalidArgument("files", len(plans), "at least two checkpoints")
    surveys = tuple(run(work, fit=fit, progress=progress) for work in plans)
    orders = [[(head.module, head.head) for head in survey] for survey in surveys]
    for work, order in zip(plans, orders, strict=True):
        if order != orders[0]:
            odd = next((place for place in order if place not in orders[0]), next(iter(set(orders[0]) - set(order))))
            raise InvalidArgument(
                "FILE", work.checkpoint.path.name, f"a checkpoint of the same heads as the first; {odd[0]!r} differs"
            )
    moved = [_distances(plans[0], work) for work in plans]
    changes = tuple(
        Change(tuple(survey[i] for survey in surveys), tuple(table.get(place) for table in moved), steps)
        for i, place in enumerate(orders[0])
    )
    bad = sum(head.status != "ok" for survey in surveys for head in survey)
    status = "complete" if not bad else f"{bad} heads gave no numbers"
    return Course(
        files=tuple(survey.path for survey in surveys),
        steps=steps,
        surveys=surveys,
        changes=changes,
        certificate=Certificate(status=status, kind="measurement"),
    )


def _distances(first: Plan, other: Plan) -> dict[Place, float]:
    """|A - A₀|/|A₀| of every head that both checkpoints have, one layer of each in memory."""
    found: dict[Place, float] = {}
    for old, new in zip(first.layers, other.layers, strict=True):
        if old.reason or new.reason or (old.head_dim, old.hidden) != (new.head_dim, new.hidden):
            continue
        before, after = old.load(first.checkpoint), new.load(other.checkpoint)
        for head in first.of(old):
            if head is not None:
                value = _distance(old.cut(before, head), new.cut(after, head))
                if value is not None:
                    found[old.module, head] = value
    return found


def _distance(old: tuple[Array, Array], new: tuple[Array, Array]) -> float | None:
    """From p x p products: Tr A'B = Σ (Q Q_B') (K K_B') entry by entry."""
    if not all((np.abs(matrix) <= LARGEST).all() for matrix in (*old, *new)):
        return None
    size = [float(np.abs(np.concatenate([old[i], new[i]])).max()) or 1.0 for i in (0, 1)]
    (Q, K), (R, T) = ((pair[0] / size[0], pair[1] / size[1]) for pair in (old, new))

    def inner(a: Array, b: Array, c: Array, e: Array) -> float:
        return float(np.sum((a @ c.T) * (b @ e.T)))

    norm = inner(Q, K, Q, K)
    if not norm > 0.0:
        return None
    return float(np.sqrt(max(inner(R, T, R, T) - 2.0 * inner(Q, K, R, T) + norm, 0.0) / norm))
