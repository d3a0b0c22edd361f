"""Masks of one's own: a matrix of zeros and ones that says which tokens each token attends to.

A matrix is kept as text, its rows of zeros and ones separated by slashes: ``100/110/011`` for three tokens of which
each attends to itself and to the one before it.
"""

import re
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.errors import InvalidArgument

Matrix = NDArray[np.bool_]

NAMED_MASKS = ("none", "causal", "strict")
MAX_MASK_TOKENS = 1024
TEXT = re.compile(r"[01]+(/[01]+)*")
ALLOWED = "a square matrix of zeros and ones (rows attend to columns), or its text such as 100/110/011"
SHORT_TEXT = 72  # longest text that repr() writes out


class Mask(str):
    """Matrix of zeros and ones of which row a is one at the columns that token a attends to.

    It is a string, so that it can be hashed, compared and stored. Invalid values raise
    `onehead.errors.InvalidArgument`.

    Parameters
    ----------
    matrix : array_like or str
        A square array of booleans, or of zeros and ones, of 2 to 1024 tokens; or its text.

    Examples
    --------
    >>> import numpy as np
    >>> window = np.tri(4, dtype=bool) & ~np.tri(4, k=-2, dtype=bool)
    >>> Mask(window)
    Mask('1000/1100/0110/0011')
    >>> Mask("1000/1100/0110/0011") == Mask(window), Mask(window).tokens
    (True, 4)
    """

    __slots__ = ()

    def __new__(cls, matrix: "ArrayLike | str") -> "Mask":
        """Read a matrix, or its text."""
        return super().__new__(cls, _text(matrix))

    def __repr__(self) -> str:
        if len(self) <= SHORT_TEXT:
            return f"Mask({str(self)!r})"
        return f"Mask({self.tokens} tokens, {int(self.matrix.sum())} of {self.tokens**2} pairs)"

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.count("/") + 1

    @property
    def matrix(self) -> Matrix:
        """The matrix, which cannot be written to."""
        return _matrix(str(self))


class RowKind(NamedTuple):
    """Rows of a mask that have the same law: how many columns they have, whether the own token is among them, and the
    number of such rows.
    """

    length: int
    own: bool
    number: int


def _text(given: Any) -> str:
    """Return the text of a matrix, or refuse it."""
    if isinstance(given, str):
        rows = given.split("/")
        if not TEXT.fullmatch(given) or any(len(row) != len(rows) for row in rows):
            raise InvalidArgument("mask", given, ALLOWED)
        _check_size(given, len(rows))
        return str(given)
    try:
        matrix = np.asarray(given)
    except (TypeError, ValueError):
        raise InvalidArgument("mask", given, ALLOWED) from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidArgument("mask", f"an array of shape {matrix.shape}", ALLOWED)
    _check_size(f"an array of shape {matrix.shape}", len(matrix))
    if matrix.dtype.kind not in "buif" or not np.isin(matrix, (0, 1)).all():
        raise InvalidArgument("mask", "an entry that is neither zero nor one", ALLOWED)
    return "/".join("".join("1" if seen else "0" for seen in row) for row in matrix.tolist())


def _check_size(given: Any, tokens: int) -> None:
    if not 2 <= tokens <= MAX_MASK_TOKENS:
        raise InvalidArgument("mask", given, f"a mask of 2 to {MAX_MASK_TOKENS} tokens")


@lru_cache(maxsize=64)
def _matrix(text: str) -> Matrix:
    entries = np.frombuffer(text.replace("/", "").encode(), np.uint8)
    matrix: Matrix = (entries == ord("1")).reshape(2 * (text.count("/") + 1,))
    matrix.setflags(write=False)
    return matrix


def matrix_of(mask: str, tokens: int) -> Matrix:
    """Return the matrix of a mask, named or of one's own.

    Examples
    --------
    >>> matrix_of("strict", 3).astype(int).tolist()
    [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    """
    if mask in NAMED_MASKS:
        return (
            np.ones((tokens, tokens), dtype=bool)
            if mask == "none"
            else np.tri(tokens, k=-(mask == "strict"), dtype=bool)
        )
    return _matrix(str(mask))


def check_mask(value: Any) -> str:
    """Return the name of a mask that has one, else a `Mask`.

    Examples
    --------
    >>> check_mask([[True, False], [True, True]]), check_mask("100/110/011")
    ('causal', Mask('100/110/011'))
    """
    if isinstance(value, str) and (value in NAMED_MASKS or not value[:1].isdigit()):
        return value  # a name, or a text that is refused as one
    mask = Mask(value)
    named = (name for name in NAMED_MASKS if np.array_equal(mask.matrix, matrix_of(name, mask.tokens)))
    return next(named, mask)


@lru_cache(maxsize=64)
def row_kinds(mask: Mask) -> tuple[RowKind, ...]:
    """Return the kinds of rows of a mask, the shortest first; rows of fewer than two columns have no choice and are
    left out.

    Examples
    --------
    >>> row_kinds(Mask("1000/1100/0110/1011"))
    (RowKind(length=2, own=True, number=2), RowKind(length=3, own=True, number=1))
    """
    matrix = mask.matrix
    kinds = Counter(zip(matrix.sum(axis=1).tolist(), np.diag(matrix).tolist(), strict=True))
    return tuple(RowKind(n, own, kinds[n, own]) for n, own in sorted(kinds) if n > 1)


@lru_cache(maxsize=64)
def mutual_pair(mask: Mask) -> tuple[int, int] | None:
    """Return two different tokens that attend to each other, counted from one; None if there are none.

    Rows of a single column do not count: their softmax is constant.

    Examples
    --------
    >>> mutual_pair(Mask("110/111/011")), mutual_pair(Mask("110/011/101"))
    ((1, 2), None)
    """
    choice = mask.matrix & (mask.matrix.sum(axis=1) > 1)[:, None]
    both = choice & choice.T & ~np.eye(mask.tokens, dtype=bool)
    found = np.argwhere(both)
    return None if len(found) == 0 else (int(found[0, 0]) + 1, int(found[0, 1]) + 1)


@lru_cache(maxsize=64)
def is_nested(mask: Mask) -> bool:
    """Whether the columns of every row are among those of every longer row.

    Examples
    --------
    >>> is_nested(Mask("111/110/100")), is_nested(Mask("100/110/011"))
    (True, False)
    """
    rows = mask.matrix[np.argsort(mask.matrix.sum(axis=1), kind="stable")]
    rows = rows[rows.sum(axis=1) > 1]
    return not np.any(rows[:-1] & ~rows[1:])
