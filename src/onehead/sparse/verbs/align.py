"""Alignment of query and readout with the signal after the two gradient steps (S3)."""

from dataclasses import dataclass
from typing import ClassVar

from onehead.results import Certificate
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.theory.alignment import Steps, critical_bias_rate, misalignment_constant, two_steps
from onehead.sparse.theory.joint.label_share import alignment_spread, balanced_bias_rate, samples_needed
from onehead.validation import checked, integer, optional

NOTABLE_SPREAD = 0.1  # standard deviation of cos_query over the share of positives from which there is a warning


@dataclass(frozen=True, kw_only=True)
class Alignment(Answer, Steps):
    """Readout w1 after the first step and query q after the second, for d -> infinity.

    ``overlap_*`` is the component along the signal xi, ``cos_*`` the cosine with it, ``query_readout`` = <q,
    w1>; ``sharpness`` = beta |q|; ``misalignment`` is C of |cos_query| = 1 - C/alpha0 for large alpha0.
    ``samples_needed`` is the alpha0 at which long sequences reach cos_query = 1/sqrt(2) with ``balanced_bias_rate``;
    at a given dimension, ``cos_query_mean`` and ``cos_query_spread`` are taken over the random share of positives.
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
        "balanced_bias_rate": "eta_b at which the share of positives in the sample does not move the query",
        "samples_needed": "alpha0 at which the query reaches a cosine of 0.71, for long sequences",
        "cos_query_mean": "mean cosine over the share of positives, at the given dimension",
        "cos_query_spread": "its standard deviation",
    }

    misalignment: float
    critical_bias_rate: float | None
    certificate: Certificate
    balanced_bias_rate: float | None
    samples_needed: float
    cos_query_mean: float | None = None
    cos_query_spread: float | None = None


@checked(**PROBLEM, dim=optional(integer(3)))
def align(task: Task, protocol: Protocol, *, dim: int | None = None) -> Alignment:
    """Return the alignment of query and readout with the signal after the two gradient steps (S3).

    Sequences may be as long as the dimension, or longer. The random share of positives in the sample then moves the
    query by an amount that does not vanish for d -> infinity (J33), unless the bias rate is balanced: eta_b = 4 for the
    logistic loss at pi = 1/2.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Sample ratios, rates and loss of the two steps.
    dim : int, optional
        Dimension d of a token, at least 3, to average over the share of positives among alpha0 d samples.

    Returns
    -------
    Alignment
        Cosines, norms and overlaps; the certificate warns if the query points away from the signal, or if its cosine
        varies by more than 0.1 between samples of the given dimension.

    Raises
    ------
    InvalidArgument
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> task = Task(length=10, signal_tokens=3, strength=6.0, positive_rate=0.2)
    >>> round(align(task, Protocol(alpha0=1.0, beta=1.0)).cos_query, 6)
    0.828264
    """
    steps, critical = two_steps(task, protocol), critical_bias_rate(task, protocol)
    balanced = balanced_bias_rate(task, protocol)
    certificate = _certificate(steps.cos_query, protocol, critical)
    spread = None if dim is None else alignment_spread(task, protocol, dim)
    unsteady = []
    if spread is not None and spread.spread > NOTABLE_SPREAD:
        advice = "" if balanced is None else f"; eta_b = {balanced:.3g} removes most of it"
        unsteady.append(
            f"at d = {dim} the random share of positives moves the query: cos {spread.mean:.3f}, standard deviation "
            f"{spread.spread:.3f}{advice}."
        )
    return Alignment(
        task=task,
        protocol=protocol,
        **vars(steps),
        misalignment=misalignment_constant(task, protocol),
        critical_bias_rate=critical,
        balanced_bias_rate=balanced,
        samples_needed=samples_needed(task),
        cos_query_mean=None if spread is None else spread.mean,
        cos_query_spread=None if spread is None else spread.spread,
        certificate=Certificate.of(certificate, warnings=(*certificate.warnings, *unsteady)),
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
