"""All heads of a checkpoint: their words counted, sorted, and said in one sentence."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onehead.results import Certificate, Result, Rows, in_lines
from onehead.weights.report import HeadReport
from onehead.weights.sectors import WITHOUT_PREFERENCE
from onehead.weights.verdict import WORDS

__all__ = ["Survey"]

TOLD = 5  # heads that an explanation names
FEW = 4  # numbers of heads in one sentence


@dataclass(frozen=True, kw_only=True, repr=False)
class Survey(Rows, Result):
    """One report per head, in the order module, head."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("heads",)
    _SHOWN: ClassVar[tuple[str, ...]] = ("layer", "head", "verdict", "evidence", "rank", "symmetric_share")

    path: str
    layouts: tuple[str, ...]
    heads: tuple[HeadReport, ...]
    certificate: Certificate

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[HeadReport]:
        return iter(self.heads)

    def __getitem__(self, index: int) -> HeadReport:
        return self.heads[index]

    @property
    def judged(self) -> tuple[HeadReport, ...]:
        """Heads that have a word."""
        return tuple(head for head in self.heads if head.verdict is not None)

    @property
    def verdicts(self) -> dict[str, int]:
        """How many heads have each word, the strongest word first."""
        words = [head.verdict for head in self.judged]
        return {word: words.count(word) for word in WORDS if word in words}

    @property
    def laws(self) -> dict[str, int]:
        """How many heads each law describes best."""
        laws = [head.best_law for head in self.heads if head.best_law is not None]
        return {law: laws.count(law) for law in dict.fromkeys(sorted(laws))}

    @property
    def ranked(self) -> tuple[HeadReport, ...]:
        """Heads by their words, the strongest first and within a word the clearest; those without a word at the end."""
        return tuple(sorted(self.heads, key=_order))

    @property
    def shared(self) -> dict[tuple[str, int], tuple[HeadReport, ...]]:
        """Keys, by module and number, with a direction that stands out in every query that shares them, and these heads."""
        found: dict[tuple[str, int], list[HeadReport]] = {}
        for head in self.heads:
            if head.kv_head is not None and any(outlier["shared"] for outlier in head.outliers):
                found.setdefault((head.module, head.kv_head), []).append(head)
        return {place: tuple(heads) for place, heads in found.items()}

    @property
    def summary(self) -> str:
        """The checkpoint in one sentence, and one more for every key whose directions its queries share."""
        if not self.judged:
            return f"None of the {len(self)} heads could be judged."
        counts = self.verdicts
        quiet, total = counts.pop("noise", 0), len(self.judged)
        first = f"{quiet} of {total} heads cannot be told from their initialisation"
        if not quiet:
            first = f"all {total} heads can be told from their initialisation".capitalize()
        parts = [first, *(f"{count} {MEANT[word][count > 1]}" for word, count in counts.items())]
        if strongest := max((head for head in self.judged if head.own_outliers), key=_strength, default=None):
            several = len(strongest.own_outliers)
            parts.append(
                f"{_name(strongest)} has {several} direction{'s' * (several > 1)}{' up to' * (several > 1)} "
                f"{strongest.strength:.3g} times above the bulk"
            )
        keys = [
            f"The shared key {place[1]} of layer {heads[0].layer} brings a direction of its own into "
            f"{len(heads)} of its query heads."
            for place, heads in list(self.shared.items())[:FEW]
        ]
        more = len(self.shared) - len(keys)
        keys += [f"So do {more} more keys."] if more > 0 else []
        return " ".join(["; ".join(parts) + ".", *keys])

    def explain(self) -> str:
        """The summary, the heads that are farthest from their initialisation, and how often random heads look like that."""
        told = [
            f"{_name(head).capitalize()}: {head.verdict}. {head.evidence}."
            for head in self.ranked[:TOLD]
            if head.verdict
        ]
        rates = [head.false_alarm for head in self.judged if head.false_alarm is not None]
        alarm = (
            [f"Random heads of these shapes get another word than noise in at most {max(rates):.1%} of cases."]
            if rates
            else []
        )
        return in_lines([self.summary, *told, *self._shares(), *alarm, *self._closing()])

    def _shares(self) -> list[str]:
        """Symmetric shares beside those of random heads and those that the two sectors of self-attention predict."""
        shares = [head.symmetric_share for head in self.judged if head.symmetric_share is not None]
        if not shares:
            return []
        low, high = WITHOUT_PREFERENCE
        return [
            f"Symmetric shares run from {min(shares):.2f} to {max(shares):.2f}, median {np.median(shares):.2f}. Random heads have 0.5, tied "
            f"ones 1; the theory of self-attention (U5) predicts {low} to {high} for a target that prefers neither part of the map, and "
            f"{sum(share > high for share in shares)} of {len(shares)} heads are above that."
        ]

    def to_rows(self) -> list[dict[str, Any]]:
        """One plain dict per head, with the strength of its largest outlier."""
        return [head.to_dict() | {"strength": head.strength} for head in self.heads]

    def to_dict(self) -> dict[str, Any]:
        """The survey with its rows."""
        return Result.to_dict(self) | {"summary": self.summary, "heads": self.to_rows()}

    def __repr__(self) -> str:
        read = sum(head.status == "ok" for head in self.heads)
        return f"Survey({self.path!r}, layout={'+'.join(self.layouts)}, heads={len(self)}, ok={read})"


MEANT = {  # of one head, and of several
    "low rank": ("is of low rank", "are of low rank"),
    "features": ("has features", "have features"),
    "deformed": ("has a bulk deformed by learning", "have a bulk deformed by learning"),
}


def _name(head: HeadReport) -> str:
    return f"layer {head.layer} head {head.head}"


def _strength(head: HeadReport) -> float:
    return head.strength


def _order(head: HeadReport) -> tuple[int, float, float]:
    word = WORDS.index(head.verdict) if head.verdict in WORDS else len(WORDS)
    size = head.used if head.verdict == "low rank" and head.used is not None else -head.strength
    return word, size, -max(head.bulk_deviation or 0.0, abs(head.share_deviation or 0.0))
