"""What the theory says of one head: the numbers, their certificate, and the same in words."""

from dataclasses import dataclass
from textwrap import fill
from typing import ClassVar

from onehead.aim.task import Learner, Task
from onehead.results import Certificate, Result

__all__ = ["AimCertificate", "Prediction"]


@dataclass(frozen=True, kw_only=True)
class AimCertificate(Certificate):
    """The certificate of an AIM prediction (2.8).

    ``train_loss_gap``: relative difference of the two forms of the training loss (2.4), zero at a fixed point.
    ``stein_gap``: Stein over derivative form of Sigmahat, minus one; what the prox jumps over shows here.
    ``switch_mass``: share of samples whose proximal operator has a lower minimum than the one near the label.
    ``replicon``: below one the replica-symmetric solution is stable.
    """

    train_loss_gap: float = 0.0
    stein_gap: float = 0.0
    switch_mass: float = 0.0
    replicon: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Prediction(Result):
    """What the theory predicts for one task, learner and sample ratio.

    ``q`` = Tr S²/d and ``m`` = Tr S S*/d belong to the learner's own map S; ``sigma`` (Σ) and the hats are in
    reduced units. The eigenvalues of S are slope (x - threshold)_+ with x drawn from the target spectrum
    blurred by a semicircle of variance ``spread``, and x > ``cut``.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("thresholded", "jacobian")

    alpha: float
    test_error: float
    test_error_clean: float
    train_loss: float
    rank: float
    q: float
    m: float
    sigma: float
    q_hat: float
    m_hat: float
    sigma_hat: float
    certificate: AimCertificate
    test_loss: float
    excess_error: float
    spread: float
    threshold: float
    cut: float
    slope: float
    thresholded: bool
    jacobian: tuple[tuple[float, ...], ...] | None  # F' in (log q, log m, log Sigma); none where a limit needs no solve
    task: Task
    learner: Learner

    def __repr__(self) -> str:
        return (
            f"Prediction(alpha={self.alpha:g}, test_error={self.test_error:.5f}, train_loss={self.train_loss:.5g}, "
            f"rank={self.rank:.4f}, status={self.status!r})"
        )

    def explain(self) -> str:
        """Say in words what the numbers mean for this head.

        Examples
        --------
        >>> from onehead.aim import Learner, Task, predict
        >>> print(predict(Task(), Learner(), alpha=0.5).explain().splitlines()[0])
        With n = 0.5 d² samples (alpha = 0.5) the error on a fresh sample is 0.136;
        """
        target_power = self.task.target.second_moment
        cosine = self.m / (self.q * target_power) ** 0.5 if self.q > 0.0 else 0.0
        lines = [
            f"With n = {self.alpha:g} d² samples (alpha = {self.alpha:g}) the error on a fresh sample is "
            f"{self.test_error:.3g}; infinitely many would give {self.test_error - self.excess_error:.3g}.",
            f"Against labels without noise the error is {self.test_error_clean:.3g}.",
            f"Size: q = {self.q:.4g} is the mean squared eigenvalue of the trained map S; the target's is {target_power:.4g}.",
            f"Overlap: m = {self.m:.4g}, so the cosine between S and the target is {cosine:.3f}.",
            self._explain_rank(),
            self._explain_sigma(),
        ]
        replicon = self.certificate.replicon
        if replicon is not None:
            verdict = "stable: one well-defined minimum" if replicon < 1.0 else "unstable: many competing minima"
            lines.append(f"Replicon {replicon:.3f} ({'<' if replicon < 1.0 else '>='} 1): the solution is {verdict}.")
        lines += [f"Note: {warning}" for warning in self.certificate.warnings]
        lines.append(f"Status: {self.status}. Kind of truth: {self.kind}.")
        return "\n".join(fill(line, width=84, subsequent_indent="  ") for line in lines)

    def _explain_rank(self) -> str:
        """The rank in words."""
        if not self.thresholded:
            return "Rank: direct training sets no eigenvalue to zero; about half of the noise bulk is negative."
        if self.rank == 0.0:
            return "Rank: 0. Weight decay keeps every eigenvalue at zero: too few samples for this weight decay."
        share = f"{self.rank:.1%} of the eigenvalues of S are not zero (the target has {self.task.target.rank:.1%})"
        return f"Rank: {share}; weight decay removes the others."

    def _explain_sigma(self) -> str:
        """Sigma in words."""
        if self.rank == 0.0:
            return "Sigma = 0: the logits do not react to a single sample."
        if self.sigma == float("inf"):
            return "Sigma is infinite: every training label is fitted exactly, and one sample moves the logits freely."
        return (
            f"Sigma = {self.sigma:.4g}: how far a training sample pulls its own logits; small with many samples, large "
            "near interpolation."
        )
