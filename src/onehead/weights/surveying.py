"""survey(): every head of a checkpoint, one layer in memory at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.results import Certificate
from onehead.weights.heads import LARGEST
from onehead.weights.layouts import Counts, Layer, find_layers
from onehead.weights.reader import Checkpoint
from onehead.weights.report import HeadReport, head_report, unread
from onehead.weights.sources import Source, open_source
from onehead.weights.whole import Survey

__all__ = ["Plan", "plan", "run", "survey"]

Progress = Callable[[HeadReport], None]

MOST = 200_000  # heads of one survey: ten times those of the largest models
SCOPE = (
    "the laws of trained heads are about Gaussian tokens and the global minimum; real tokens are not Gaussian, "
    "so a fit describes a shape and proves no mechanism"
)


@dataclass(frozen=True)
class Plan:
    """A checkpoint, the layers to read and which of their heads."""

    checkpoint: Checkpoint
    layers: tuple[Layer, ...]
    heads: frozenset[int] | None

    def of(self, layer: Layer) -> list[int | None]:
        """The wanted heads of one layer; a layer of unknown size has one row without a head."""
        if layer.heads == 0:
            return [None]
        return [head for head in range(layer.heads) if self.heads is None or head in self.heads]

    @property
    def total(self) -> int:
        """How many rows there will be."""
        return sum(len(self.of(layer)) for layer in self.layers)


def plan(
    path: Source,
    *,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    layout: str | None = None,
    head_count: int | None = None,
    kv_head_count: int | None = None,
    head_dim: int | None = None,
) -> Plan:
    """Find out what is to be read, as `survey` does; only headers are opened.

    Examples
    --------
    >>> import tempfile
    >>> from safetensors.numpy import save_file
    >>> names = ("h.0.attn.c_attn.weight", "h.1.attn.c_attn.weight")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file(dict.fromkeys(names, np.ones((4, 12), dtype=np.float32)), f"{folder}/model.safetensors")
    ...     work = plan(folder, head_count=2)
    >>> work.total, work.layers[0].layout.name
    (4, 'gpt2')
    """
    checkpoint = open_source(path)
    found = find_layers(checkpoint, layout, Counts(head_count, kv_head_count, head_dim))
    wanted = _chosen("layers", layers, sorted({layer.layer for layer in found}))
    chosen = _chosen("heads", heads, range(max(layer.heads for layer in found)))
    kept = tuple(layer for layer in found if wanted is None or layer.layer in wanted)
    work = Plan(checkpoint, kept, chosen)
    if work.total > MOST:
        raise InvalidArgument("layers", f"{work.total} heads", f"a choice of at most {MOST} heads")
    return work


def _chosen(name: str, wanted: Iterable[int] | None, known: Sequence[int]) -> frozenset[int] | None:
    """The numbers asked for, each of which must exist."""
    if wanted is None:
        return None
    numbers = list(wanted)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number not in known:
            allowed = f"from {known[0]} to {known[-1]}" if len(known) else "left out"
            raise InvalidArgument(name, number, allowed)
    return frozenset(int(number) for number in numbers)


def survey(
    path: Source,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    layout: str | None = None,
    fit: bool = True,
    progress: Progress | None = None,
    *,
    head_count: int | None = None,
    kv_head_count: int | None = None,
    head_dim: int | None = None,
) -> Survey:
    """Measure every head of a checkpoint, say what can be told from its initialisation, and lay the laws of heads beside it.

    Parameters
    ----------
    path : str, Path or mapping
        A safetensors file, the index file of a sharded checkpoint, the folder that holds one of them, a GGUF file, or a mapping of
        names to arrays such as ``model.state_dict()``.
    layers, heads : iterable of int, optional
        Which layers and query heads, counted from 0; all by default.
    layout : str, optional
        Where the weights lie, if the names are not recognised; see `onehead.weights.LAYOUTS` and the guide.
    fit : bool
        Whether to fit the laws.
    progress : callable, optional
        Called with every finished report.
    head_count, kv_head_count, head_dim : int, optional
        What ``config.json`` beside the file does not say.

    Returns
    -------
    Survey
        A head that cannot be read has a row with the reason.

    Examples
    --------
    >>> import tempfile
    >>> from safetensors.numpy import save_file
    >>> rng = np.random.default_rng(0)
    >>> name = "encoder.layer.0.attention.self.{}.weight"
    >>> weights = {name.format(side): rng.standard_normal((64, 64), dtype=np.float32) for side in ("query", "key")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file(weights, f"{folder}/model.safetensors")
    ...     table = survey(folder, head_count=2, fit=False)
    >>> [(row.layer, row.head, row.rank) for row in table]
    [(0, 0, 0.5), (0, 1, 0.5)]
    """
    counts = {"head_count": head_count, "kv_head_count": kv_head_count, "head_dim": head_dim}
    work = plan(path, layers=layers, heads=heads, layout=layout, **counts)
    return run(work, fit=fit, progress=progress)


def run(work: Plan, *, fit: bool = True, progress: Progress | None = None) -> Survey:
    """Carry out a plan, one layer in memory at a time.

    Examples
    --------
    >>> import tempfile
    >>> from safetensors.numpy import save_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file({"h.0.attn.c_attn.weight": np.ones((4, 12), dtype=np.float32)}, f"{folder}/model.safetensors")
    ...     [row.rank for row in run(plan(folder, head_count=2), fit=False)]
    [0.25, 0.25]
    """
    reports: list[HeadReport] = []
    for layer in work.layers:
        for report in _layer_reports(work, layer, fit):
            reports.append(report)
            if progress is not None:
                progress(report)
    bad = sum(report.status != "ok" for report in reports)
    return Survey(
        path=str(work.checkpoint.path),
        layouts=tuple(dict.fromkeys(layer.layout.name for layer in work.layers)),
        heads=tuple(reports),
        certificate=Certificate(
            status="complete" if not bad else f"{bad} of {len(reports)} heads gave no numbers",
            kind="measurement",
            warnings=(SCOPE,) if fit else (),
        ),
    )


def _layer_reports(work: Plan, layer: Layer, fit: bool) -> Iterator[HeadReport]:
    """Reports of the wanted heads of one layer; its tensors are let go at the end."""
    wanted = work.of(layer)
    tensors = layer.load(work.checkpoint) if wanted else ()  # none where there is a reason
    for head in wanted:
        place: dict[str, Any] = {
            "layer": layer.layer,
            "module": layer.module,
            "layout": layer.layout.name,
            "head": head,
        }
        if layer.reason or head is None:
            yield unread("unsupported", layer.reason, **place)
            continue
        place |= {"kv_head": layer.group(head), "notes": layer.notes}
        how: dict[str, Any] = {"shared_key": layer.kv_heads < layer.heads, "adapter_rank": layer.adapter_rank}
        query, key = layer.cut(tensors, head)
        if (np.abs(query) <= LARGEST).all() and (np.abs(key) <= LARGEST).all():
            yield head_report(query, key, fit=fit, **how, **place)
        else:
            yield unread("failed", f"query or key weights are not finite, or above {LARGEST:g}", **place)
