"""Warnings of a certificate where a task breaks an assumption of the theory: few tokens, Gaussian logits."""

from dataclasses import replace

import numpy as np

from onehead.aim.solve.certificate import AimCertificate, with_warning
from onehead.aim.task import Learner, Task
from onehead.aim.theory.input.leading import excess_kurtosis, leading_count
from onehead.results import Kind

LARGE_EXCESS_KURTOSIS = 0.5  # of a logit; a single instance of a limiting law at d = 100 has about 0.2
MANY_TOKENS, MANY_TOKENS_PER_DIMENSION = 16, 0.05  # from which on a warning is given


def with_caution(certificate: AimCertificate, task: Task, leading: int = 0) -> AimCertificate:
    """Return the certificate with a warning where the task breaks an assumption: many tokens, or logits that are not
    Gaussian.
    """
    return _with_kurtosis(_with_length(certificate, task), task, leading)


def _with_length(certificate: AimCertificate, task: Task) -> AimCertificate:
    """Return the certificate with a warning for soft labels of many tokens, which are not all independent directions
    (L5).
    """
    share = task.tokens / getattr(task.target, "dim", np.inf)
    if task.labels == "hard" or task.tokens < MANY_TOKENS or share < MANY_TOKENS_PER_DIMENSION:
        return certificate
    caution = (
        f"the theory needs far fewer tokens than dimensions: at T/d = {share:.2g} expect trained heads to have a q "
        f"lower by about "
        f"{0.14 * share:.2g} (0.14 T/d was measured with cross-entropy)"
    )
    return with_warning(certificate, caution)


def _with_kurtosis(certificate: AimCertificate, task: Task, leading: int) -> AimCertificate:
    """Return the certificate with a warning where logits are far from Gaussian beyond the leading directions.

    A claim of the paper becomes a conjecture there, and with leading directions or tokens that are not Gaussian, where
    the theory is derived here and compared with training.
    """
    kurtosis = excess_kurtosis(task, leading)
    kind: Kind = "conjecture" if certificate.kind == "claim" else certificate.kind
    if kurtosis < LARGE_EXCESS_KURTOSIS:
        derived_here = leading or not (task.gaussian_tokens and task.isotropic)
        return replace(certificate, kind=kind) if derived_here else certificate
    more = leading_count(task, Learner()) > leading
    advice = (
        f"here leading={leading}; leading=auto averages the largest directions exactly and agrees with training"
        if more
        else "heads trained on power laws had an excess error 6 to 36 % above the prediction, at every dimension tried"
    )
    caution = (
        f"a few large {task.spectral_value}s make single logits far from Gaussian "
        f"(excess kurtosis {kurtosis:.2g}, at any dimension); {advice}"
    )
    return replace(with_warning(certificate, caution), kind=kind)
