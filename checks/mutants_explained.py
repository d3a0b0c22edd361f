"""Mutants that survived, were looked at, and change no result that is promised: key -> why."""

__all__ = ["EXPLAINED"]

EXPLAINED: dict[str, str] = {
    "41b84cb4b670a06d": "The stride of a difference between two solves; 2 % or 2.2 % give the same slope to its own error.",
    "f1fd34abce0ed09e": "The accuracy of log λ at the bottom of a flat valley; a tenth more changes no digit shown.",
    "b36b47a0bb661389": (
        "Moves only the point from which Newton's method polishes the root of the cubic: the transform solves its equation "
        "to rounding all the same, at 1,872 points of random laws up to 1e-8 from their edges."
    ),
    "d553ff7e93f28116": "The first guess of a walk that begins where the equations are easy; the solve there forgets it.",
    "7b798ade2aac3cdb": "A finer quadrature rule for a point that is only a start.",
}
