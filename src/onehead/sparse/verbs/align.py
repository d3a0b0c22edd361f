"""Alignment of query and readout with the signal after the two gradient steps (S3)."""

from dataclasses import dataclass
from typing import ClassVar

from onehead.results import Certificate
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.theory.alignment import Steps, critical_bias_rate, misalignment_constant, two_steps
from onehead.validation import checked

__all__ = ["Alignment", "align"]


@dataclass(frozen=True, kw_only=True)
class Alignment(Answer, Steps):
    """Readout w1 after the first step and query q after the second, for d -> infinity.

    ``overlap_*`` is the component along the signal xi, ``cos_*`` the cosine with it, ``query_readout`` = <q,
    w1>; ``sharpness`` = beta |q|; ``misalignment`` is C of |cos_query| = 1 - C/alpha0 for large alpha0.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "cos_query": "cosine of the query with the signal",
        "cos_readout": "cosine of the first readout with the signal",
        "norm_query": "length of the query",
        "norm_readout": "length of the first readout",
        "overlap_query": "component of the query along the signal",
        "overlap_readout": "component of the first readout along the signal",
        "sharpness": "beta times the length of the query",
        "misalignment": "C of |cos| = 1 - C/alpha0 at large alpha0",
        "critical_bias_rate": "eta_b at which the query changes sign, for small eta_w",
    }

    misalignment: float
    critical_bias_rate: float | None
    certificate: Certificate


@checked(**PROBLEM)
def align(task: Task, protocol: Protocol) -> Alignment:
    """Return the alignment of query and readout with the signal after the two gradient steps (S3).

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Sample ratios, rates and loss of the two steps.

    Returns
    -------
    Alignment
        Cosines, norms and overlaps; the certificate warns if the query points away from the signal.

    Raises
    ------
    InvalidArgument
        If an argument has the wrong type.

    Examples
    --------
    >>> task = Task(length=10, signal_tokens=3, strength=6.0, positive_rate=0.2)
    >>> round(align(task, Protocol(alpha0=1.0, beta=1.0)).cos_query, 6)
    0.828264
    """
    steps, critical = two_steps(task, protocol), critical_bias_rate(task, protocol)
    return Alignment(
        task=task,
        protocol=protocol,
        **vars(steps),
        misalignment=misalignment_constant(task, protocol),
        critical_bias_rate=critical,
        certificate=_certificate(steps.cos_query, protocol, critical),
    )


def _certificate(cos_query: float, protocol: Protocol, critical: float | None) -> Certificate:
    """Return a certificate that says whether the query points to the signal, with advice if it does not."""
    if cos_query > 0.0:
        return Certificate(status="aligned", kind="claim")
    if cos_query == 0.0:
        return Certificate(status="no signal in the query", kind="claim")
    advice = "flip the sign of eta_q"
    if critical is not None and critical > 0.0 and protocol.eta_q > 0.0:
        advice += f", or move eta_b across its critical value {critical:.4g}"
    warning = f"the query points away from the signal (cos {cos_query:.3f}); {advice}."
    return Certificate(status="anti-aligned", kind="claim", warnings=(warning,))
