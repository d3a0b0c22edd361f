"""Input channels of untied heads: maps without symmetry, of which only the singular values matter (U2, U8)."""

from dataclasses import dataclass
from typing import final

from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.input.eigenvalues import Eigenvalues, IsotropicThresholded, OneSectorLinear, TiedLinear


@final
@dataclass(frozen=True, kw_only=True)
class SingularValues(IsotropicThresholded):
    """S = W_Q' W_K: weight decay on the factors is λ d |S|_*, which cuts singular values below λ/mhat to zero (U2.2,
    U2.5). Every target of a rank up to the width is representable.
    """

    sides = 2


@final
@dataclass(frozen=True, kw_only=True)
class UntiedLinear(OneSectorLinear):
    """S itself is trained, any square matrix: as `TiedLinear` with D = Sigmahat + 2λ (U2.4)."""

    sides = 2


# (tied, param) -> channel
CHANNELS: dict[tuple[bool, str], type[InputChannel]] = {
    (True, "factorised"): Eigenvalues,
    (True, "direct"): TiedLinear,
    (False, "factorised"): SingularValues,
    (False, "direct"): UntiedLinear,
}
