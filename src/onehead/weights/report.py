"""Report on one head: spectra, bulk edge, outliers, tail, fits of the laws, and verdict."""

from dataclasses import astuple, dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.results import Certificate, Result, wrap_sentences
from onehead.weights.edge import bulk_edge, power_tail
from onehead.weights.head_spectrum import Spectra, check_pair, effective_ranks, numerical_rank, spectra, symmetric_share
from onehead.weights.law import compare_laws, fit_laws, outliers_belong_to_law
from onehead.weights.null_model import bulk_deviation, random_effective_rank, share_deviation
from onehead.weights.shared_keys import belongs_to_key, without_key_directions
from onehead.weights.spacing_likelihood import LawFit
from onehead.weights.verdict import Evidence, false_alarm, judge_head

Array = NDArray[np.float64]

MINIMUM_BULK_VALUES = 4  # values whose spread can be measured
MINIMUM_VALUES_TO_FIT = 16  # values below which four parameters cannot be told from noise
TAIL_FIELDS = ("tail_exponent", "tail_exponent_err", "tail_window", "tail_count", "tail_ks")  # in the order of `Tail`
VERDICT_MEANINGS = {
    "low rank": "Its map uses fewer directions than its shape allows.",
    "features": "Some directions stand out far above the bulk.",
    "deformed": "No direction stands out, but the bulk is not that of random weights.",
    "noise": "It cannot be told from random weights.",
}
UNASKED_PART = 0.5  # part of a direction from which on it is more mean than spread of the tokens
TIED_SHARE = 0.9  # symmetric share above which a head is treated as tied


@dataclass(frozen=True, kw_only=True, repr=False)
class HeadReport(Result):
    """Report on one head, the result of `head_report` and one row of a `Survey`.

    Attributes
    ----------
    status, reason : str
        Status ok, empty (all weights zero), unsupported or failed, and why it is not ok.
    attention : str
        Kind of attention, self or cross (from one sequence to another), by the name of the module.
    rank, zero_mass : float
        Share of the d = hidden singular values of A = W_Q'W_K that are not zero, as decided by
        `onehead.weights.head_spectrum.numerical_rank`, and 1 - rank.
    forced_zero_mass, used : float
        The part 1 - head_dim/hidden of the zeros that the shape alone forces, and the share of the head_dim possible
        values that are not zero.
    bulk_edge, bulk_edge_err, edge_width : float
        Upper edge of the bulk with its standard error, and its Tracy-Widom scale, fitted to the largest values.
    outliers : tuple of dict
        Values beyond the edge, each with ``position``, ``strength`` (in units of the edge), the cosine ``overlap`` of
        its query and key direction (1 for a tied head), and whether it belongs to a key that is ``shared``.
    symmetric_share, antisymmetric_share, negative_share : float
        Parts of the squared norm of A in its symmetric and antisymmetric part, and the part of the squared norm of the
        symmetric part in negative eigenvalues (0 for a tied head).
    verdict, evidence : str
        Verdict low rank, features, deformed or noise (`onehead.weights.verdict`), and the numbers behind it.
    false_alarm : float
        Share of random heads of this shape that get a verdict other than noise.
    bulk_symmetric_share, bulk_deviation, share_deviation : float
        Symmetric share without the outliers, and the distances of the bulk and of this share from those of random
        heads, in standard deviations.
    directions_90, directions_99 : int
        How many singular directions carry 90 % and 99 % of the squared norm of A.
    value_gain, value_overlaps : float, tuple of float
        G_hh of the values and the overlaps ρ_hk with all heads of the layer (`onehead.weights.value_overlap`); None and
        empty if the checkpoint does not have values and outputs.
    unasked_share, unasked_parts, unasked_first, logit_variance, logit_directions_90, logit_force, decay_scale
        What depends on the statistics of the tokens (`onehead.weights.activations`), if they were given.
    fits, best_law, bic_margin, comparison
        Fits of the laws, the best of them, by how much its BIC is lower than the next, and a sentence that compares
        them.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("overlaps",)
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("layer", "head", "verdict", "evidence", "reason")
    MEANINGS: ClassVar[dict[str, str]] = {
        "rank": "share of the hidden singular values that are not zero",
        "used": "share of the singular values that the shape allows which are not zero",
        "effective_rank_nuclear": "(Σσ)²/Σσ², the number of directions that carry the map, outliers included",
        "bulk_edge": "upper edge of the bulk of the singular values",
        "bulk_deviation": "distance of the bulk from random heads of this shape, in standard deviations",
        "symmetric_share": "part of the squared norm in (A + A')/2: 1 for a tied head, 1/2 for random ones",
        "share_deviation": "distance of the bulk's symmetric share from random heads, in standard deviations",
        "false_alarm": "share of random heads of this shape that get a verdict other than noise",
    }

    layer: int
    head: int | None
    reason: str = ""
    module: str = ""
    layout: str = ""
    attention: str = "self"
    kv_head: int | None = None
    hidden: int = 0
    head_dim: int = 0
    rank: float | None = None
    zero_mass: float | None = None
    forced_zero_mass: float | None = None
    used: float | None = None
    bulk_edge: float | None = None
    bulk_edge_err: float | None = None
    edge_width: float | None = None
    outliers: tuple[dict[str, Any], ...] = ()
    symmetric_share: float | None = None
    antisymmetric_share: float | None = None
    negative_share: float | None = None
    norm: float | None = None
    effective_rank_nuclear: float | None = None
    effective_rank_stable: float | None = None
    effective_rank_entropy: float | None = None
    directions_90: int | None = None
    directions_99: int | None = None
    value_gain: float | None = None
    value_overlaps: tuple[float, ...] = ()
    unasked_share: float | None = None
    unasked_parts: tuple[float, ...] = ()
    unasked_first: float | None = None
    logit_variance: float | None = None
    logit_directions_90: int | None = None
    logit_force: float | None = None
    decay_scale: float | None = None
    tail_exponent: float | None = None
    tail_exponent_err: float | None = None
    tail_window: tuple[float, float] | None = None
    tail_count: int = 0
    tail_ks: float | None = None
    best_law: str | None = None
    bic_margin: float | None = None
    comparison: str = ""
    verdict: str | None = None
    evidence: str = ""
    false_alarm: float | None = None
    bulk_symmetric_share: float | None = None
    bulk_deviation: float | None = None
    share_deviation: float | None = None
    fits: tuple[LawFit, ...] = ()
    singular_values: Array = field(default_factory=lambda: np.empty(0))
    symmetric_eigenvalues: Array = field(default_factory=lambda: np.empty(0))
    overlaps: Array = field(default_factory=lambda: np.empty(0))
    notes: tuple[str, ...] = ()
    certificate: Certificate

    def fit(self, law: str) -> LawFit | None:
        """Return the fit of the law of this name, or None if it was not fitted."""
        return next((fit for fit in self.fits if fit.law == law), None)

    @property
    def own_outliers(self) -> tuple[dict[str, Any], ...]:
        """Outliers of the head itself, without those of a key that it shares with other queries."""
        return tuple(outlier for outlier in self.outliers if not outlier["shared"])

    @property
    def strength(self) -> float:
        """Largest of the head's own outliers in units of the bulk edge; 1 if it has none."""
        return max((float(outlier["strength"]) for outlier in self.own_outliers), default=1.0)

    @property
    def sufficient(self) -> str:
        """Sentence that says how many directions suffice; empty for a head that was not measured."""
        if self.directions_90 is None:
            return ""
        text = (
            f"{self.directions_90} of {min(self.head_dim, self.hidden)} directions carry 90 % of the squared norm of "
            f"the map, {self.directions_99} carry 99 %"
        )
        if self.logit_directions_90 is not None:
            text += f"; {self.logit_directions_90} carry 90 % of the logit variance of these tokens"
        return f"{text}."

    @property
    def advice(self) -> str:
        """What to do about the head, with the number it rests on; empty for a head without a verdict."""
        if self.unasked_first is not None and self.unasked_parts and self.unasked_parts[0] > UNASKED_PART:
            return (
                f"first direction: a preference for keys that all queries share ({self.unasked_parts[0]:.0%} mean), no "
                "feature"
            )
        return {
            "low rank": f"{round((self.rank or 0.0) * self.hidden)} directions hold the whole map",
            "features": f"look at {len(self.own_outliers)} directions (--vectors)",
            "deformed": f"{self.directions_90} directions carry 90 %",
            "noise": "compare with its first checkpoint before removing it",
        }.get(self.verdict or "", "")

    def explain(self) -> str:
        """Return a description of the head, its verdict first."""
        known_directions = [self.sufficient] if self.sufficient else []
        if self.verdict is None:
            return wrap_sentences(
                [
                    f"Layer {self.layer}, head {self.head}: {self.reason or self.evidence}.",
                    *known_directions,
                    *self._closing(),
                ]
            )
        first = (
            f"Layer {self.layer}, head {self.head}: {self.verdict}. {VERDICT_MEANINGS[self.verdict]} "
            f"Evidence: {self.evidence}."
        )
        laws = [f"Of the laws, {self.comparison}."] if self.comparison else []
        numbers = self._numbers()
        known = [
            f"{name} = {self._value_text(name)}: {text}." for name, text in self.MEANINGS.items() if name in numbers
        ]
        return wrap_sentences(
            [first, *known_directions, *laws, *known, *(f"Note: {text}." for text in self.notes), *self._closing()]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; layer, head, status and reason come first."""
        row = super().to_dict()
        row["fits"] = [fit.to_dict() for fit in self.fits]
        row |= {"advice": self.advice, "sufficient": self.sufficient}
        first = {key: row.pop(key) for key in ("layer", "head", "status", "reason")}
        return first | row


def unread_head(status: str, reason: str, **fields: Any) -> HeadReport:
    """Return the report on a head that could not be measured."""
    return HeadReport(reason=reason, certificate=Certificate(status=status, kind="measurement"), **fields)


def head_report(
    query: ArrayLike,
    key: ArrayLike,
    *,
    fit: bool = True,
    bootstrap: int = 8,
    seed: int = 0,
    shared_key: bool = False,
    adapter_rank: int | None = None,
    vectors: bool = False,
    **location: Any,
) -> HeadReport:
    """Measure one head from its query and key weights, judge it, and fit the laws of heads to it.

    Parameters
    ----------
    query, key : array of shape (head_dim, hidden)
        W_Q and W_K: a token x has the query W_Q x. A = W_Q'W_K, unscaled, biases and rotary factors left out.
    fit : bool
        Whether to fit the law of an untied head and its rivals.
    bootstrap : int
        Number of spectra sampled from the fitted law to estimate the errors of its parameters.
    seed : int
        Seed of these samples.
    shared_key : bool
        Whether other queries use the same key, as in grouped-query attention.
    adapter_rank : int, optional
        Rank of both factors, if they are low-rank adapters.
    vectors : bool
        Whether outliers contain their directions, ``query_vector`` and ``key_vector`` of length hidden.
    **location
        Fields of the report that locate the head: layer, head, module.

    Returns
    -------
    HeadReport

    Raises
    ------
    InvalidArgument
        If the weights are not two finite real matrices of the same shape.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Q, K = rng.standard_normal((2, 32, 384))
    >>> report = head_report(Q, K, fit=False)
    >>> round(report.rank, 4), round(report.symmetric_share, 1), len(report.outliers)
    (0.0833, 0.5, 0)
    """
    Q, K = check_pair(query, key)
    location = {"layer": 0, "head": 0, "head_dim": Q.shape[0], "hidden": Q.shape[1]} | location
    found = spectra(Q, K) if Q.any() and K.any() else None
    d = Q.shape[1]
    if found is None or not found.singular_values[0] > 0.0:
        return unread_head("empty", "query or key weights are all zero", rank=0.0, zero_mass=1.0, **location)
    values = found.singular_values
    count = numerical_rank(Q, K, values)
    edge, tail = bulk_edge(values[:count]), power_tail(values[:count])
    beyond = edge.outliers if edge is not None else 0
    squares = (found.symmetric_eigenvalues / values[0]) ** 2
    row: dict[str, Any] = {f"effective_rank_{name}": number for name, number in effective_ranks(values).items()}
    if edge is not None:
        row |= {"bulk_edge": edge.position, "bulk_edge_err": edge.error, "edge_width": edge.width}
    if tail is not None:
        row |= dict(zip(TAIL_FIELDS, astuple(tail), strict=True))
    share = symmetric_share(Q, K, without=beyond) if beyond else found.symmetric_share
    if fit and count - beyond >= MINIMUM_VALUES_TO_FIT:
        row |= _fitted(values[:count], beyond, Q.shape, share > TIED_SHARE, {"bootstrap": bootstrap, "seed": seed})
    outliers = _outliers(found, row.get("bulk_edge"), belongs_to_key(Q, K, beyond) if shared_key else (False,) * beyond)
    bulk = _Bulk(Q.shape, values, beyond, share)
    if shared_key and len((reduced := without_key_directions(Q, K))[0]) < len(Q):
        bulk = _measured_bulk(*reduced)
    if vectors:
        outliers = _with_vectors(outliers, Q, K)
    shares = np.cumsum(values**2) / np.sum(values**2)
    row |= {f"directions_{share}": int(np.searchsorted(shares, share / 100.0) + 1) for share in (90, 99)}
    row |= _verdict_fields(bulk, count, min(*Q.shape, adapter_rank or d), outliers, adapter_rank is None)
    return HeadReport(
        rank=count / d,
        zero_mass=1.0 - count / d,
        forced_zero_mass=max(0.0, 1.0 - len(Q) / d),
        used=count / min(len(Q), d),
        outliers=outliers,
        antisymmetric_share=1.0 - found.symmetric_share,
        negative_share=float(squares[found.symmetric_eigenvalues < 0.0].sum() / max(squares.sum(), 1e-300)),
        norm=float(np.linalg.norm(values)),
        certificate=Certificate(status="ok", kind="measurement", warnings=_warnings(Q.shape, share, count, fit)),
        **vars(found),
        **row,
        **location,
    )


def _fitted(values: Array, beyond: int, shape: tuple[int, ...], tied: bool, options: dict[str, int]) -> dict[str, Any]:
    """Return the fits of the laws: to all values if the outliers belong to the law of a trained head, else the bulk."""
    p, d = shape
    of_law = outliers_belong_to_law(values, beyond, dim=d, width=p, tied=tied)
    cut = 0 if of_law else beyond
    fits = fit_laws(values[cut:], dim=d - cut, width=p - cut, tied=tied, **options)
    found = {"fits": fits} | compare_laws(fits, values.size - cut)
    if of_law:
        found["comparison"] += f"; the {beyond} values beyond the bulk edge are part of the law of a trained head"
    return found


def _outliers(found: Spectra, edge: float | None, shared: tuple[bool, ...]) -> tuple[dict[str, Any], ...]:
    """Return the largest values as outliers; ``shared`` says for each of them whether it belongs to a shared key."""
    return tuple(
        {
            "position": float(found.singular_values[i]),
            "overlap": float(found.overlaps[i]),
            "strength": float(found.singular_values[i]) / (edge or np.nan),
            "shared": of_key,
        }
        for i, of_key in enumerate(shared)
    )


def _with_vectors(outliers: tuple[dict[str, Any], ...], query: Array, key: Array) -> tuple[dict[str, Any], ...]:
    """Return the outliers with the unit vectors of their query and key sides."""
    (left, R), (right, T) = (np.linalg.qr(matrix.T) for matrix in (query, key))
    U, _, Vt = np.linalg.svd(R @ T.T)
    return tuple(
        outlier | {"query_vector": (left @ U[:, i]).tolist(), "key_vector": (right @ Vt[i]).tolist()}
        for i, outlier in enumerate(outliers)
    )


class _Bulk(NamedTuple):
    """Singular ``values`` of a head of this ``shape``, of which the first ``beyond`` are outliers.

    ``share`` is the symmetric share without the outliers.
    """

    shape: tuple[int, ...]
    values: Array
    beyond: int
    share: float


def _measured_bulk(query: Array, key: Array) -> _Bulk:
    """Return the bulk of a head whose key has lost the directions that belong to the key alone."""
    found = spectra(query, key)
    edge = bulk_edge(found.singular_values[: numerical_rank(query, key, found.singular_values)])
    beyond = edge.outliers if edge is not None else 0
    share = symmetric_share(query, key, without=beyond) if beyond else found.symmetric_share
    return _Bulk(query.shape, found.singular_values, beyond, share)


def _verdict_fields(
    bulk: _Bulk, count: int, possible: int, outliers: tuple[dict[str, Any], ...], random_possible: bool
) -> dict[str, Any]:
    """Return the verdict and its evidence as fields of a report.

    ``count`` of the ``possible`` singular values are not zero, and the largest are the ``outliers``. ``bulk`` is what
    is compared with random heads; the comparison is left out for heads that cannot be random, such as adapters.
    """
    (p, d), beyond = bulk.shape, bulk.beyond
    values = bulk.values[: min(possible, p)]
    covered = random_possible and len(values) - beyond >= MINIMUM_BULK_VALUES and possible >= MINIMUM_VALUES_TO_FIT
    found = Evidence(
        nonzero=count,
        possible=possible,
        outlier_strengths=tuple(outlier["strength"] for outlier in outliers if not outlier["shared"]),
        shared_outliers=sum(outlier["shared"] for outlier in outliers),
        bulk_deviation=bulk_deviation(values[beyond:], p - beyond, d - beyond) if covered else None,
        full_deviation=bulk_deviation(values, p, d) if covered else None,
        share_deviation=share_deviation(bulk.share, d),
        symmetric_share=bulk.share,
        random_rank=random_effective_rank(p - beyond, d - beyond),
        effective_rank=effective_ranks(values[beyond:])["nuclear"],
    )
    verdict, evidence = judge_head(found)
    return {
        "verdict": verdict,
        "evidence": evidence,
        "false_alarm": false_alarm(p, d) if verdict is not None else None,
        "bulk_symmetric_share": bulk.share,
        "bulk_deviation": found.bulk_deviation if verdict != "low rank" else None,
        "share_deviation": found.share_deviation,
    }


def _warnings(shape: tuple[int, ...], share: float, count: int, fit: bool) -> tuple[str, ...]:
    texts = []
    if shape[0] > shape[1]:
        texts.append(
            f"the factors are {shape[0]} x {shape[1]}, with more rows (head_dim) than columns (hidden); if they are "
            "transposed, give query.T and key.T"
        )
    if fit and share < TIED_SHARE:
        texts.append(
            f"this head is not tied (symmetric share {share:.2f}): its singular values are compared with the law of an "
            "untied head, which holds for Gaussian tokens"
        )
    if fit and count < MINIMUM_VALUES_TO_FIT:
        texts.append(f"{count} non-zero singular values are too few to fit a law")
    return tuple(texts)
