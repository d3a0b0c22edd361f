"""Which heads the theory covers: limits on their size, functions that take a parameter, and combinations."""

from typing import TYPE_CHECKING

from onehead.aim.mask import Mask, mutual_pair
from onehead.errors import InvalidArgument
from onehead.sanitize import Unquoted

if TYPE_CHECKING:
    from onehead.aim.task.task import Task

GAUSSIAN_KURTOSIS = 3.0  # kurtosis of a Gaussian entry of a token

# Largest number of tokens that is solved, by kind of head.
MAX_TOKENS = 100_000  # heads whose rows have independent logits
MAX_TOKENS_SHARED_LOGITS = 64  # without a mask, where rows share logits: a proximal step costs T³ (L7)
MAX_TOKENS_TWO_SECTORS = 2048  # causal self-attention: a row mixes the two sectors of the map (U5, L6)
MAX_TOKENS_TWO_SECTORS_HARD = 16  # causal self-attention with hard labels: one prox per possible label

# functions that have a theory, or a simulation, of tokens with a mean
UNASKED_VERBS = (
    "predict", "curve", "map", "tune", "thresholds", "unasked_curve", "plateau", "spectrum", "bayes", "bayes_curve",
    "data_for", "scaling", "features", "phase_diagram", "decompose", "train", "amp", "sample", "compare",
)  # fmt: skip
# functions that have a theory, or a simulation, of a direction of the queries along which they fluctuate strongly
FLUCTUATION_VERBS = ("predict", "curve", "map", "tune", "spectrum", "train", "sample", "compare")
# functions that have a theory, or a simulation, of tokens with a covariance
SPECTRUM_VERBS = ("predict", "curve", "map", "tune", "plateau", "spectrum", "train", "compare")
# functions that have a theory, or a simulation, of several heads that add to one output
HEADS_VERBS = ("predict", "curve", "map", "tune", "spectrum", "survivors", "train_survivors", "train", "compare")
MAX_HEADS, MAX_SHARING = 16, 0.95  # beyond this overlap of the values random starts may not reach the state described
MAX_LOGITS = 32  # of one row in all heads, H (T - 1): the Hessian of a sample has this dimension
AS_QUERIES = "queries"  # spectrum of the keys that is that of the queries


def check_combination(task: "Task") -> None:
    """Raise `InvalidArgument` if parameters of one head do not go together."""
    if task.tied and not task.target.symmetric:
        raise InvalidArgument(
            "target", task.target, "symmetric for a tied head; a product needs attention self or cross"
        )
    if task.longest_row > (largest := largest_length(task)):
        kind = "a tied head without a mask" if task.tied else "self-attention that sees its own logit"
        unlimited = "any mask" if task.tied else "mask strict"
        raise InvalidArgument(
            "tokens",
            task.tokens,
            f"at most {largest} for {kind}; attention cross, or {unlimited}, takes {MAX_TOKENS}",
        )
    if task.longest_row < 2:
        if isinstance(task.mask, Mask):
            raise InvalidArgument("mask", task.mask, "a matrix with two ones in a row: a choice needs two columns")
        raise InvalidArgument("tokens", task.tokens, "an integer >= 3 with a strict mask: a choice needs two columns")
    if isinstance(task.mask, Mask) and task.attention != "cross" and (pair := mutual_pair(task.mask)):
        raise InvalidArgument(
            "mask",
            Unquoted("tokens {} and {}, which do".format(*pair)),
            "a matrix in which no two tokens attend to each other, because their logits are not independent "
            "(attention cross takes any matrix)",
        )
    if task.attention == "self" and task.key_spectrum != AS_QUERIES:
        raise InvalidArgument("key_spectrum", task.key_spectrum, "queries for self-attention, whose keys they are")
    if task.fluctuation and task.attention != "cross":
        raise InvalidArgument(
            "fluctuation", task.fluctuation, "0 unless attention is cross, whose keys do not fluctuate with it"
        )
    if task.depends_on_kurtosis and not task.kurtosis_supported:
        raise InvalidArgument(
            "kurtosis",
            task.kurtosis,
            "3 for a head that sees its own logit, unless it is tied, with two tokens, soft labels and no mask",
        )


def check_heads(task: "Task") -> None:
    """Raise `InvalidArgument` if the theory does not cover this number of heads."""
    if task.heads == 1:
        if task.sharing:
            raise InvalidArgument("sharing", task.sharing, "0 for one head, which has no other to share values with")
        return
    plain = task.attention == "cross" and task.mask == "none" and task.labels == "soft"
    if not plain or not task.standard_tokens:
        raise InvalidArgument(
            "heads",
            task.heads,
            "1 unless attention is cross, labels are soft, and there is no mask, no unasked share and no token "
            "spectrum; the theory of several heads covers these (--averaged-heads, heads of Variant, trains a head "
            "whose attention is the average of several)",
        )
    if task.sharing < -MAX_SHARING / (task.heads - 1):
        lowest = -MAX_SHARING / (task.heads - 1)
        raise InvalidArgument("sharing", task.sharing, f"at least {lowest:.4g} for the values of {task.heads} heads")
    if task.sharing and task.heads * (task.tokens - 1) > MAX_LOGITS:
        raise InvalidArgument(
            "tokens",
            task.tokens,
            f"at most {1 + MAX_LOGITS // task.heads} for {task.heads} heads that share values",
        )


def largest_length(task: "Task") -> int:
    """Return the largest number of tokens, or of columns of a row, that is solved for this kind of head."""
    if task.rows_independent:
        return MAX_TOKENS
    if task.mask == "none":
        return MAX_TOKENS_SHARED_LOGITS
    return MAX_TOKENS_TWO_SECTORS_HARD if task.labels == "hard" else MAX_TOKENS_TWO_SECTORS
