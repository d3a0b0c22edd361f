"""Mutants that survived, were looked at, and change no result that is promised: key -> why."""

__all__ = ["EXPLAINED"]

EXPLAINED: dict[str, str] = {
    "41b84cb4b670a06d": "The stride of a difference between two solves; 2 % or 2.2 % give the same slope to its own error.",
    "f1fd34abce0ed09e": "The accuracy of log λ at the bottom of a flat valley; a tenth more changes no digit shown.",
    "b36b47a0bb661389": (
        "Moves only the point from which Newton's method polishes the root of the cubic: the transform solves its equation "
        "to rounding all the same, at 1,872 points of random laws up to 1e-8 from their edges."
    ),
    "eddf13dbce1a358a": "A column more in a scratch matrix of which only the first entry is read.",
    "d553ff7e93f28116": "The first guess of a walk that begins where the equations are easy; the solve there forgets it.",
    "7b798ade2aac3cdb": "A finer quadrature rule for a point that is only a start.",
    "34cf3fc5632b0a58": "Exchanges a quadrature rule and its twin, two scramblings of the same points, neither better.",
    "e6e69b1a55a5313d": "The default number of trials; 40 or 41 give the same average within its error, which is reported.",
    "90a10f98b092ed46": "The upper end of a search, further out where the error is constant; the minimum found is the same.",
    "fb3c950f06240fb9": "min(max(a, b), c) does not know a from b: the same number.",
    "af64de8ff6391fd4": "A variance that stands for infinity, 1e11 times or over the power of the target.",
    "9c9b7c873e13b3e7": "Both ends of a bracket are moved out until they bracket; exchanged they still are.",
    "470074980f6009af": "One step more before giving up; Newton's method ends long before.",
    "3d72f2b99de2620a": "One value of the grid from which the search for the best sharpness starts; it is refined afterwards.",
    "c842da5686357ea1": "Into how many stretches a curve is cut, that is which neighbour a point starts from.",
}
