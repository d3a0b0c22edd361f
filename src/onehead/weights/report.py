"""What is known of one head: its spectra, edge, outliers, tail, the laws laid beside it, and one word for all of it."""

from dataclasses import astuple, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.results import Certificate, Result, in_lines
from onehead.weights.chain import LawFit
from onehead.weights.edge import bulk_edge, power_tail
from onehead.weights.heads import Spectra, check_pair, effective_ranks, numerical_rank, spectra, symmetric_share
from onehead.weights.initial import bulk_deviation, share_deviation, usual_rank
from onehead.weights.law import fit_laws, judge
from onehead.weights.shared import belongs_to_key
from onehead.weights.verdict import Evidence, false_alarm, judge_head

__all__ = ["HeadReport", "head_report", "unread"]

Array = NDArray[np.float64]

FEWEST_TO_FIT = 16  # values below which four parameters cannot be told from noise
TAIL = ("tail_exponent", "tail_exponent_err", "tail_window", "tail_count", "tail_ks")  # names of what a tail holds
MEANT = {
    "low rank": "Its map uses fewer directions than its shape allows.",
    "features": "Some directions stand out far above the bulk.",
    "deformed": "No direction stands out, but the bulk is not that of random weights.",
    "noise": "It cannot be told from its initialisation.",
}
TIED = 0.9  # symmetric share above which a head is called tied


@dataclass(frozen=True, kw_only=True, repr=False)
class HeadReport(Result):
    """One head. ``status`` is ok, empty (all weights zero), unsupported or failed; ``reason`` says why it is not ok.

    ``rank`` is the share of the d = hidden singular values of A = W_Q'W_K that are not zero (`onehead.weights.heads.numerical_rank`
    decides), ``zero_mass`` = 1 - rank as in `onehead.aim.verbs.spectrum`, and ``forced_zero_mass`` = 1 - head_dim/hidden the part
    of it that the shape alone forces; ``used`` is the share of the head_dim possible values that are not zero.
    ``bulk_edge`` and ``edge_width`` are fitted to the largest values; ``outliers`` lie beyond, each with the cosine ``overlap``
    of its query and key direction (one for a tied head), its ``strength`` in units of the edge, and whether it belongs to a key that
    is ``shared``. ``negative_share`` is the part of the symmetric part's squared norm in negative eigenvalues, zero for a tied head.

    ``verdict`` is low rank, features, deformed or noise (`onehead.weights.verdict`), ``evidence`` says why, ``false_alarm`` is how
    many random heads of this shape get another word than noise. ``bulk_symmetric_share`` leaves out the outliers;
    ``bulk_deviation`` and ``share_deviation`` are the distances of the bulk and of this share from those of random heads, in standard
    deviations. ``comparison`` says which law fits best.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("overlaps",)
    _SHOWN: ClassVar[tuple[str, ...]] = ("layer", "head", "verdict", "evidence", "reason")
    MEANINGS: ClassVar[dict[str, str]] = {
        "rank": "share of the hidden singular values that are not zero",
        "used": "share of those that the shape allows",
        "effective_rank_nuclear": "(Σσ)²/Σσ², how many directions carry the map",
        "bulk_edge": "where the bulk of the singular values ends",
        "bulk_deviation": "distance of the bulk from random heads of this shape, in standard deviations",
        "symmetric_share": "part of the squared norm in (A + A')/2: 1 for a tied head, 1/2 for random ones",
        "share_deviation": "distance of the bulk's symmetric share from random heads, in standard deviations",
        "false_alarm": "share of random heads of this shape that get another word than noise",
    }

    layer: int
    head: int | None
    reason: str = ""
    module: str = ""
    layout: str = ""
    kv_head: int | None = None
    hidden: int = 0
    head_dim: int = 0
    rank: float | None = None
    zero_mass: float | None = None
    forced_zero_mass: float | None = None
    used: float | None = None
    bulk_edge: float | None = None
    edge_width: float | None = None
    outliers: tuple[dict[str, Any], ...] = ()
    symmetric_share: float | None = None
    antisymmetric_share: float | None = None
    negative_share: float | None = None
    norm: float | None = None
    effective_rank_nuclear: float | None = None
    effective_rank_stable: float | None = None
    effective_rank_entropy: float | None = None
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
        """The fit of one law by its name."""
        return next((fit for fit in self.fits if fit.law == law), None)

    @property
    def own_outliers(self) -> tuple[dict[str, Any], ...]:
        """Outliers that are not those of a key shared with other queries."""
        return tuple(outlier for outlier in self.outliers if not outlier["shared"])

    @property
    def strength(self) -> float:
        """How far the largest outlier of its own stands above the bulk, in units of the edge; one where there is none."""
        return max((float(outlier["strength"]) for outlier in self.own_outliers), default=1.0)

    def explain(self) -> str:
        """Say what is known of the head, its verdict first."""
        if self.verdict is None:
            return in_lines(
                [f"Layer {self.layer}, head {self.head}: {self.reason or self.evidence}.", *self._closing()]
            )
        first = (
            f"Layer {self.layer}, head {self.head}: {self.verdict}. {MEANT[self.verdict]} Evidence: {self.evidence}."
        )
        laws = [f"Of the laws, {self.comparison}."] if self.comparison else []
        numbers = self._numbers()
        known = [f"{name} = {self._said(name)}: {text}." for name, text in self.MEANINGS.items() if name in numbers]
        return in_lines([first, *laws, *known, *(f"Note: {text}." for text in self.notes), *self._closing()])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ``status`` and ``reason`` beside the place of the head."""
        row = super().to_dict()
        row["fits"] = [fit.to_dict() for fit in self.fits]
        first = {key: row.pop(key) for key in ("layer", "head", "status", "reason")}
        return first | row


def unread(status: str, reason: str, **place: Any) -> HeadReport:
    """The row of a head that gave no numbers."""
    return HeadReport(reason=reason, certificate=Certificate(status=status, kind="measurement"), **place)


def head_report(
    query: ArrayLike,
    key: ArrayLike,
    *,
    fit: bool = True,
    bootstrap: int = 8,
    seed: int = 0,
    shared_key: bool = False,
    adapter_rank: int | None = None,
    **place: Any,
) -> HeadReport:
    """Measure one head from its query and key weights, and lay the laws beside it.

    Parameters
    ----------
    query, key : array of shape (head_dim, hidden)
        W_Q and W_K: a token x has the query W_Q x. A = W_Q'W_K, unscaled, biases and rotary factors left out.
    fit : bool
        Whether to fit the law of an untied head and its rivals.
    bootstrap : int
        Spectra drawn from the fitted law for the errors of its parameters.
    seed : int
        Of these draws.
    shared_key : bool
        Whether other queries use the same key, as in grouped-query attention.
    adapter_rank : int, optional
        The rank of both factors, where they are low-rank adapters.
    **place
        Fields of the report that say where the head is: layer, head, module.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Q, K = rng.standard_normal((2, 32, 384))
    >>> report = head_report(Q, K, fit=False)
    >>> round(report.rank, 4), round(report.symmetric_share, 1), len(report.outliers)
    (0.0833, 0.5, 0)
    """
    Q, K = check_pair(query, key)
    place = {"layer": 0, "head": 0, "head_dim": Q.shape[0], "hidden": Q.shape[1]} | place
    found = spectra(Q, K) if Q.any() and K.any() else None
    d = Q.shape[1]
    if found is None or not found.singular_values[0] > 0.0:
        return unread("empty", "query or key weights are all zero", rank=0.0, zero_mass=1.0, **place)
    values = found.singular_values
    count = numerical_rank(Q, K, values)
    edge, tail = bulk_edge(values[:count]), power_tail(values[:count])
    beyond = edge.outliers if edge is not None else 0
    squares = (found.symmetric_eigenvalues / values[0]) ** 2
    row: dict[str, Any] = {f"effective_rank_{name}": number for name, number in effective_ranks(values).items()}
    if edge is not None:
        row |= {"bulk_edge": edge.position, "edge_width": edge.width}
    if tail is not None:
        row |= dict(zip(TAIL, astuple(tail), strict=True))
    share = symmetric_share(Q, K, without=beyond) if beyond else found.symmetric_share
    if fit and count - beyond >= FEWEST_TO_FIT:
        tied, width = share > TIED, len(Q) - beyond
        fits = fit_laws(values[beyond:count], dim=d - beyond, width=width, tied=tied, bootstrap=bootstrap, seed=seed)
        row |= {"fits": fits} | judge(fits, count - beyond)
    outliers = _outliers(found, row.get("bulk_edge"), belongs_to_key(Q, K, beyond) if shared_key else (False,) * beyond)
    row |= _judged(Q.shape, values, count, outliers, share, adapter_rank)
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
        **place,
    )


def _outliers(found: Spectra, edge: float | None, shared: tuple[bool, ...]) -> tuple[dict[str, Any], ...]:
    """The largest values, as many as ``shared`` has words for."""
    return tuple(
        {
            "position": float(found.singular_values[i]),
            "overlap": float(found.overlaps[i]),
            "strength": float(found.singular_values[i]) / (edge or np.nan),
            "shared": of_key,
        }
        for i, of_key in enumerate(shared)
    )


def _judged(
    shape: tuple[int, ...],
    values: Array,
    count: int,
    outliers: tuple[dict[str, Any], ...],
    share: float,
    adapter: int | None,
) -> dict[str, Any]:
    """The verdict on values of which ``count`` are not zero and the largest are outliers, and on the symmetric share of the others."""
    p, d, beyond = shape[0], shape[1], len(outliers)
    possible = min(p, d, adapter or p)
    known = adapter is None and possible >= FEWEST_TO_FIT
    found = Evidence(
        nonzero=count,
        possible=possible,
        strengths=tuple(outlier["strength"] for outlier in outliers if not outlier["shared"]),
        shared=sum(outlier["shared"] for outlier in outliers),
        bulk=bulk_deviation(values[beyond:possible], p - beyond, d - beyond) if known else None,
        whole=bulk_deviation(values[:possible], p, d) if known else None,
        share=share_deviation(share, d),
        symmetric_share=share,
        usual_rank=usual_rank(p - beyond, d - beyond),
        effective_rank=effective_ranks(values[beyond:possible])["nuclear"],
    )
    word, evidence = judge_head(found)
    return {
        "verdict": word,
        "evidence": evidence,
        "false_alarm": false_alarm(p, d) if word is not None else None,
        "bulk_symmetric_share": share,
        "bulk_deviation": found.bulk if word != "low rank" else None,
        "share_deviation": found.share,
    }


def _warnings(shape: tuple[int, ...], share: float, count: int, fit: bool) -> tuple[str, ...]:
    texts = []
    if shape[0] > shape[1]:
        texts.append(
            f"the factors are {shape[0]} x {shape[1]}, with more rows (head_dim) than columns (hidden); if they are transposed, give "
            "query.T and key.T"
        )
    if fit and share < TIED:
        texts.append(
            f"this head is not tied (symmetric share {share:.2f}): its singular values are laid beside the law of an untied head, "
            "which holds for Gaussian tokens"
        )
    if fit and count < FEWEST_TO_FIT:
        texts.append(f"{count} non-zero singular values are too few to fit a law")
    return tuple(texts)
