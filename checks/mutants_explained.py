"""Mutants that survived, were looked at, and change no result that is promised: key -> why."""

__all__ = ["EXPLAINED"]

EXPLAINED: dict[str, str] = {
    "688839fe47bff136": "The stride of a difference between two solves; 2 % or 2.2 % give the same slope to its own error.",
    "3711a48dc1d1b4d0": "The accuracy of log λ at the bottom of a flat valley; a tenth more changes no digit shown.",
    "b36b47a0bb661389": (
        "Moves only the point from which Newton's method polishes the root of the cubic: the transform solves its equation "
        "to rounding all the same, at 1,872 points of random laws up to 1e-8 from their edges."
    ),
    "eddf13dbce1a358a": "A column more in a scratch matrix of which only the first entry is read.",
    "cd68656877b2f75f": "The first guess of a walk that begins where the equations are easy; the solve there forgets it.",
    "12183e3a642711e1": "A finer quadrature rule for a point that is only a start.",
    "80d69370274f3a79": "Exchanges a quadrature rule and its twin, two scramblings of the same points, neither better.",
    "e6e69b1a55a5313d": "The default number of trials; 40 or 41 give the same average within its error, which is reported.",
    "90a10f98b092ed46": "The upper end of a search, further out where the error is constant; the minimum found is the same.",
    "fb3c950f06240fb9": "min(max(a, b), c) does not know a from b: the same number.",
    "1429e26f78dae449": "A variance that stands for infinity, 1e11 times or over the power of the target.",
    "36274ccec6287308": "Both ends of a bracket are moved out until they bracket; exchanged they still are.",
    "470074980f6009af": "One step more before giving up; Newton's method ends long before.",
    "3d72f2b99de2620a": "One value of the grid from which the search for the best sharpness starts; it is refined afterwards.",
    "f59352ca1c39ebcd": "Into how many stretches a curve is cut, that is which neighbour a point starts from.",
}
