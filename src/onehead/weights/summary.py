"""Survey of a checkpoint: the reports on all heads, counted, ranked and summarised in a sentence."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onehead.results import Certificate, Items, Result, wrap_sentences
from onehead.weights.report import HeadReport
from onehead.weights.symmetric_share import NEUTRAL_SHARE_RANGE
from onehead.weights.value_overlap import DECOUPLED_OVERLAP
from onehead.weights.verdict import VERDICTS

EXPLAINED_HEADS = 5  # heads described by `Survey.explain`
NAMED_SHARED_KEYS = 4  # shared keys named by `Survey.summary`


@dataclass(frozen=True, kw_only=True, repr=False)
class Survey(Items[HeadReport], Result):
    """Reports on all heads of a checkpoint, in the order module, head; the result of `survey`.

    Attributes
    ----------
    path : str
        The checkpoint.
    layouts : tuple of str
        Names of the layouts in which its weights are stored.
    heads : tuple of HeadReport
        One report per head; a survey is also a sequence of them.
    """

    _ITEMS: ClassVar[str] = "heads"
    _HIDDEN: ClassVar[tuple[str, ...]] = ("heads",)
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("layer", "head", "verdict", "evidence", "rank", "symmetric_share")

    path: str
    layouts: tuple[str, ...]
    heads: tuple[HeadReport, ...]
    certificate: Certificate

    @property
    def judged(self) -> tuple[HeadReport, ...]:
        """Heads that have a verdict."""
        return tuple(head for head in self.heads if head.verdict is not None)

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of heads with each verdict, in the order of `VERDICTS`."""
        found = [head.verdict for head in self.judged]
        return {verdict: found.count(verdict) for verdict in VERDICTS if verdict in found}

    @property
    def laws(self) -> dict[str, int]:
        """Number of heads that each law describes best."""
        laws = [head.best_law for head in self.heads if head.best_law is not None]
        return {law: laws.count(law) for law in dict.fromkeys(sorted(laws))}

    @property
    def ranked(self) -> tuple[HeadReport, ...]:
        """Heads in the order of their verdicts, the clearest of each first; heads without a verdict come last."""
        return tuple(sorted(self.heads, key=_sort_key))

    @property
    def shared(self) -> dict[tuple[str, int], tuple[HeadReport, ...]]:
        """Heads with an outlier that belongs to a shared key, grouped by module and number of the key."""
        found: dict[tuple[str, int], list[HeadReport]] = {}
        for head in self.heads:
            if head.kv_head is not None and any(outlier["shared"] for outlier in head.outliers):
                found.setdefault((head.module, head.kv_head), []).append(head)
        return {key: tuple(heads) for key, heads in found.items()}

    @property
    def summary(self) -> str:
        """One sentence about the checkpoint, and one more for every shared key with a direction of its own."""
        if not self.judged:
            return f"None of the {len(self)} heads could be judged."
        counts = self.verdicts
        quiet, total = counts.pop("noise", 0), len(self.judged)
        first = f"{quiet} of {total} heads cannot be told from random weights"
        if not quiet:
            first = f"all {total} heads can be told from random weights".capitalize()
        parts = [first, *(f"{count} {VERDICT_PHRASES[verdict][count > 1]}" for verdict, count in counts.items())]
        if strongest := max((head for head in self.judged if head.own_outliers), key=_strength, default=None):
            several = len(strongest.own_outliers)
            directions = f"{several} directions up to" if several > 1 else "1 direction at"
            parts.append(f"{_name(strongest)} has {directions} {strongest.strength:.3g} times the bulk edge")
        keys = [
            f"The shared key {number} of layer {heads[0].layer} has a direction of its own, which shows in "
            f"{len(heads)} of its query heads."
            for (_, number), heads in list(self.shared.items())[:NAMED_SHARED_KEYS]
        ]
        more = len(self.shared) - len(keys)
        keys += [f"The same holds for {more} more shared keys."] if more > 0 else []
        return " ".join(["; ".join(parts) + ".", *keys])

    @property
    def advice(self) -> tuple[str, ...]:
        """Sentences about the whole model, each with its evidence: directions used, random heads, values, the mean."""
        texts = []
        judged = self.judged
        low = [head for head in judged if head.verdict == "low rank"]
        if low:
            used = max(round((head.rank or 0.0) * head.hidden) for head in low)
            texts.append(
                f"{len(low)} of {len(judged)} heads use fewer directions than their shape allows, at most {used} of "
                f"{max(head.head_dim for head in low)}: heads of dimension {used} would hold their maps."
            )
        needed = [head.directions_90 for head in judged if head.directions_90 is not None]
        if needed:
            texts.append(
                f"Half of the heads carry 90 % of the squared norm of their maps in at most {np.median(needed):g} "
                "directions."
            )
        return (*texts, *self._decoupling(), *self._unasked(), *self._decay())

    def _decoupling(self) -> list[str]:
        """Return a sentence that says whether the heads of a layer share their values."""
        largest: dict[str, float] = {}
        for head in self.heads:
            others = [abs(rho) for k, rho in enumerate(head.value_overlaps) if k != head.head]
            if others:
                largest[head.module] = max(largest.get(head.module, 0.0), *others)
        if not largest:
            return []
        coupled = [module for module, rho in largest.items() if rho > DECOUPLED_OVERLAP]
        first = (
            f"Values of heads overlap by at most |ρ| = {max(largest.values()):.2f}: these heads decouple, each as a "
            f"single head with weight decay λ/G_hh (right to 1 % up to |ρ| = {DECOUPLED_OVERLAP})."
            if not coupled
            else f"In {len(coupled)} of {len(largest)} layers values of two heads overlap by more than |ρ| = "
            f"{DECOUPLED_OVERLAP}, at most {max(largest.values()):.2f}: these heads do not decouple."
        )
        return [f"{first} G_hh compares heads within a layer only; between layers the curvature of the loss differs."]

    def _unasked(self) -> list[str]:
        """Return a sentence about the part of the logits that all queries share."""
        shares = [head.unasked_share for head in self.heads if head.unasked_share is not None]
        if not shares:
            return []
        first = [head.unasked_first for head in self.heads if head.unasked_first is not None]
        return [
            f"A median of {np.median(shares):.0%} of the logit variance is a preference for keys that all queries "
            f"share; the first direction carries a median of {np.median(first):.0%} of this field."
        ]

    def _decay(self) -> list[str]:
        """Return a sentence about the weight decay that would cut the rank of the heads."""
        scales = [head.decay_scale for head in self.heads if head.decay_scale is not None]
        if not scales:
            return []
        return [
            "By the force of the loss on the logits, a penalty λ on query and key (of a loss per token) would leave "
            f"about half of the directions of the median head at λ = {np.median(scales):.2g}, and of single heads from "
            f"{min(scales):.2g} to {max(scales):.2g}; in small transformers this was right to a factor of two."
        ]

    def explain(self) -> str:
        """Return the summary, the heads farthest from random weights, symmetric shares and the rate of false alarms."""
        foremost = [
            f"{_name(head).capitalize()}: {head.verdict}. {head.evidence}."
            for head in self.ranked[:EXPLAINED_HEADS]
            if head.verdict
        ]
        rates = [head.false_alarm for head in self.judged if head.false_alarm is not None]
        alarm = (
            [f"Random heads of these shapes get a verdict other than noise in at most {max(rates):.1%} of cases."]
            if rates
            else []
        )
        return wrap_sentences([self.summary, *self.advice, *foremost, *self._shares(), *alarm, *self._closing()])

    def _shares(self) -> list[str]:
        """Return a sentence that compares the symmetric shares with random heads and with the theory (U5)."""
        own = [head for head in self.judged if head.attention == "self"]
        shares = [head.symmetric_share for head in own if head.symmetric_share is not None]
        other = len(self.judged) - len(own)
        crossed = [
            f"{other} heads of cross-attention are not compared with this theory: their queries and keys are different "
            "tokens, and a symmetric part of their maps has no meaning."
        ]
        if not shares:
            return crossed if other else []
        low, high = NEUTRAL_SHARE_RANGE
        return [
            f"Symmetric shares range from {min(shares):.2f} to {max(shares):.2f}, median {np.median(shares):.2f}. "
            "Random heads have 0.5, tied heads 1; the theory of self-attention (U5) predicts "
            f"{low} to {high} for a target that prefers neither part of the map, and "
            f"{sum(share > high for share in shares)} of {len(shares)} heads are above that.",
            *(crossed if other else []),
        ]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict of plain values per head, with the strength of its largest outlier."""
        return [head.to_dict() | {"strength": head.strength} for head in self.heads]

    def to_dict(self) -> dict[str, Any]:
        """Return the survey as a dict of plain values, with its summary and its rows."""
        return Result.to_dict(self) | {"summary": self.summary, "advice": list(self.advice), "heads": self.to_rows()}

    def __repr__(self) -> str:
        measured = sum(head.status == "ok" for head in self.heads)
        return f"Survey({self.path!r}, layout={'+'.join(self.layouts)}, heads={len(self)}, ok={measured})"


VERDICT_PHRASES = {  # for one head, and for several
    "low rank": ("is of low rank", "are of low rank"),
    "features": ("has features", "have features"),
    "deformed": ("has a bulk deformed by learning", "have a bulk deformed by learning"),
}


def _name(head: HeadReport) -> str:
    return f"layer {head.layer} head {head.head}"


def _strength(head: HeadReport) -> float:
    return head.strength


def _sort_key(head: HeadReport) -> tuple[int, float, float]:
    place = VERDICTS.index(head.verdict) if head.verdict in VERDICTS else len(VERDICTS)
    size = head.used if head.verdict == "low rank" and head.used is not None else -head.strength
    return place, size, -max(head.bulk_deviation or 0.0, abs(head.share_deviation or 0.0))
