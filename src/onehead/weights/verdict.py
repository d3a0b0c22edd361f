"""Which law describes a head best, by how much, in one sentence."""

from dataclasses import dataclass

from onehead.weights.chain import LawFit

__all__ = ["NAMES", "Verdict", "judge"]

NAMES = {
    "trained": "the trained-head law",
    "marchenko-pastur": "Marchenko-Pastur",
    "power-law": "a pure power law",
    "noise": "two random matrices",
}
# differences of BIC and what they are worth: odds of about 3, 20 and 150 to one
STEPS = ((2.0, "cannot be told from"), (6.0, "fits slightly better than"), (10.0, "fits better than"))
MISSES = 5.0  # levels: spectra drawn from a law stay within 4 of its fit, n KS, for n from 32 to 130


@dataclass(frozen=True)
class Verdict:
    """The best law, how far its BIC is below that of the next, and the sentence."""

    law: str
    margin: float
    sentence: str


def judge(fits: tuple[LawFit, ...], count: int) -> Verdict:
    """Compare fits by BIC = k ln n - 2 ln L; then ask whether even the best misses.

    The likelihood knows that neighbours repel each other, not how rigid a whole spectrum is: margins are on the careful side.
    """
    best, second = sorted(fits, key=lambda fit: fit.bic)[:2]
    margin = second.bic - best.bic
    words = next((text for limit, text in STEPS if margin < limit), "fits far better than")
    sentence = f"{NAMES[best.law]} {words} {NAMES[second.law]} (BIC lower by {margin:.1f})"
    if best.ks * count > MISSES:
        sentence += f", but even it misses: some value is {best.ks * count:.1f} places off"
    return Verdict(best.law, margin, sentence)
