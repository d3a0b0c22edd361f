"""Measurement of every head of a checkpoint, one layer in memory at a time.

`plan` decides from the headers what to read, `run` reads and measures it, `survey` does both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.results import Certificate
from onehead.weights.activations import TokenStatistics, force_fields, read_activations, unasked_part
from onehead.weights.checkpoint.layers import Counts, Layer, find_layers
from onehead.weights.checkpoint.loading import Source, open_source
from onehead.weights.checkpoint.reader import Checkpoint
from onehead.weights.head_spectrum import MAX_WEIGHT
from onehead.weights.report import HeadReport, head_report, unread_head
from onehead.weights.summary import Survey
from onehead.weights.value_overlap import value_overlaps

Progress = Callable[[HeadReport], None]

MAX_HEADS = 50_000  # of one survey: three times those of the largest models
FIT_CAVEAT = (
    "the laws of trained heads hold for Gaussian tokens and the global minimum; real tokens are not Gaussian, "
    "so a fit describes a shape and proves no mechanism"
)


@dataclass(frozen=True)
class Plan:
    """What a survey will read: a checkpoint, some of its layers, and the numbers of the wanted heads, None for all.

    ``tokens`` are the statistics of the tokens by layer, if they are known.
    """

    checkpoint: Checkpoint
    layers: tuple[Layer, ...]
    heads: frozenset[int] | None
    tokens: Mapping[int, TokenStatistics] = field(default_factory=dict)

    def heads_of(self, layer: Layer) -> list[int | None]:
        """Return the wanted heads of one layer.

        A layer with an unknown number of heads has one row, whose head is None.
        """
        if layer.heads == 0:
            return [None]
        return [head for head in range(layer.heads) if self.heads is None or head in self.heads]

    @property
    def total(self) -> int:
        """Number of rows of the survey."""
        return sum(len(self.heads_of(layer)) for layer in self.layers)


def plan(
    path: Source,
    *,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    layout: str | Sequence[str] | None = None,
    head_count: int | None = None,
    kv_head_count: int | None = None,
    head_dim: int | None = None,
    activations: Source | None = None,
) -> Plan:
    """Find the heads that `survey` would measure; only the headers of the files are read.

    Parameters
    ----------
    path : str, Path or mapping
        The checkpoint, as for `survey`.
    layers, heads : iterable of int, optional
        Layers and query heads, counted from 0; all by default.
    layout : str or sequence of str, optional
        How the weights are stored, as for `survey`.
    head_count, kv_head_count, head_dim : int, optional
        Query heads and key heads per layer, and head dimension, if ``config.json`` does not give them.
    activations : str, Path or mapping, optional
        Mean and second moment of the tokens per layer, see `onehead.weights.activations`.

    Returns
    -------
    Plan
        To be carried out by `run`; ``plan.total`` is the number of heads.

    Raises
    ------
    InvalidArgument
        If a layer, head or layout does not exist, if a count is missing or contradicts the file, or if there are too
        many heads.
    BadFile
        If the file cannot be read.

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
    wanted_layers = _checked_numbers("layers", layers, sorted({layer.layer for layer in found}))
    wanted_heads = _checked_numbers("heads", heads, range(max(layer.heads for layer in found)))
    selected = tuple(layer for layer in found if wanted_layers is None or layer.layer in wanted_layers)
    tokens = read_activations(activations) if activations is not None else {}
    for layer in selected:
        if not layer.reason and layer.layer in tokens and tokens[layer.layer].mean.size != layer.hidden:
            size = f"{tokens[layer.layer].mean.size} dimensions in layer {layer.layer}"
            raise InvalidArgument("activations", size, f"tokens of {layer.hidden} dimensions")
    work = Plan(checkpoint, selected, wanted_heads, tokens)
    if work.total > MAX_HEADS:
        raise InvalidArgument("layers", f"{work.total} heads", f"a selection of at most {MAX_HEADS} heads")
    return work


def _checked_numbers(name: str, wanted: Iterable[int] | None, known: Sequence[int]) -> frozenset[int] | None:
    """Return the wanted numbers, or raise InvalidArgument if one of them does not exist; None stands for all."""
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
    layout: str | Sequence[str] | None = None,
    fit: bool = True,
    progress: Progress | None = None,
    *,
    head_count: int | None = None,
    kv_head_count: int | None = None,
    head_dim: int | None = None,
    activations: Source | None = None,
    vectors: bool = False,
) -> Survey:
    """Measure every head of a checkpoint, judge whether it differs from random weights, and fit the laws of heads.

    Parameters
    ----------
    path : str, Path or mapping
        A safetensors file, the index file of a sharded checkpoint, a folder with one of them, a GGUF file, or a mapping
        of names to arrays such as ``model.state_dict()``.
    layers, heads : iterable of int, optional
        Layers and query heads, counted from 0; all by default.
    layout : str or sequence of str, optional
        How the weights are stored, if the names of the tensors are not recognised: a name from
        `onehead.weights.LAYOUTS`, or tensor names spelled out as described in the guide to checkpoints.
    fit : bool
        Whether to fit the laws.
    progress : callable, optional
        Called with every finished report.
    head_count, kv_head_count, head_dim : int, optional
        Query heads and key heads per layer, and head dimension, if ``config.json`` next to the file does not give them.
    activations : str, Path or mapping, optional
        Mean and second moment of the tokens per layer, see `onehead.weights.activations`.
    vectors : bool
        Whether outliers contain their directions.

    Returns
    -------
    Survey
        One report per head; the report on a head that cannot be read gives the reason.

    Raises
    ------
    InvalidArgument
        If a layer, head or layout does not exist, or if a count is missing or contradicts the file.
    BadFile
        If the file cannot be read.

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
    work = plan(path, layers=layers, heads=heads, layout=layout, activations=activations, **counts)
    return run(work, fit=fit, vectors=vectors, progress=progress)


def run(work: Plan, *, fit: bool = True, vectors: bool = False, progress: Progress | None = None) -> Survey:
    """Measure the heads of a `plan`, with one layer in memory at a time.

    Parameters
    ----------
    work : Plan
        Result of `plan`.
    fit : bool
        Whether to fit the laws.
    vectors : bool
        Whether outliers contain their directions.
    progress : callable, optional
        Called with every finished report.

    Returns
    -------
    Survey

    Raises
    ------
    BadFile
        If the file ends before the data that its header describes.

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
        for report in _layer_reports(work, layer, {"fit": fit, "vectors": vectors}):
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
            warnings=(FIT_CAVEAT,) if fit else (),
        ),
    )


def _layer_reports(work: Plan, layer: Layer, settings: dict[str, bool]) -> Iterator[HeadReport]:
    """Yield the reports on the wanted heads of one layer, whose tensors are released at the end."""
    wanted = work.heads_of(layer)
    tensors = layer.load(work.checkpoint) if wanted else ()  # empty for a layer that cannot be read
    tokens = work.tokens.get(layer.layer) if not layer.reason else None
    value_fields = _value_fields(work, layer, tokens) if wanted and not layer.reason else {}
    for head in wanted:
        location: dict[str, Any] = {
            "layer": layer.layer,
            "module": layer.module,
            "layout": layer.layout.name,
            "attention": layer.attention,
            "head": head,
        }
        if layer.reason or head is None:
            yield unread_head("unsupported", layer.reason, **location)
            continue
        location |= {"kv_head": layer.key_head(head), "notes": layer.notes}
        options: dict[str, Any] = settings | {
            "shared_key": layer.kv_heads < layer.heads,
            "adapter_rank": layer.adapter_rank,
        }
        query, key = layer.factors(tensors, head)
        if (np.abs(query) <= MAX_WEIGHT).all() and (np.abs(key) <= MAX_WEIGHT).all():
            extra = value_fields.get(head, {})
            if tokens is not None:
                extra = extra | unasked_part(query, key, tokens) | force_fields(tokens, head, *query.shape[::-1])
            yield head_report(query, key, **options, **location, **extra)
        else:
            yield unread_head("failed", f"query or key weights are not finite, or above {MAX_WEIGHT:g}", **location)


def _value_fields(work: Plan, layer: Layer, tokens: TokenStatistics | None) -> dict[int | None, dict[str, Any]]:
    """Return gain and overlaps of the values of every head of a layer; empty if they are not in the checkpoint."""
    tensors = layer.value_tensors(work.checkpoint)
    if tensors is None:
        return {}
    factors = [layer.value_factors(tensors, head) for head in range(layer.heads)]
    if not all((np.abs(matrix) <= MAX_WEIGHT).all() for pair in factors for matrix in pair):
        return {}
    values, outputs = zip(*factors, strict=True)
    gains, overlaps = value_overlaps(values, outputs, None if tokens is None else tokens.covariance)
    return {
        head: {"value_gain": float(gains[head]), "value_overlaps": tuple(map(float, overlaps[head]))}
        for head in range(layer.heads)
    }
