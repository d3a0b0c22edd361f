"""Mutants that survived, were looked at, and change no result that is promised: key -> why."""

__all__ = ["EXPLAINED"]

EXPLAINED: dict[str, str] = {
    "8a67b5c1e34f2342": "The coarsest rule has to find the way and no more; with half as many points it does.",
    "d639c00a0f60e142": "Moves the point from which Newton's method polishes the root of a cubic, which it then solves to rounding.",
    "87f281481c4f2307": "Decides which of three real roots of a cubic is polished, where two of them are about to become a pair: the far one is the same.",
    "ad9da85887207a13": "The last axis of an array of two is its second.",
    "7752ae9c1bab24bd": "What no sample shows may happen to one of as many, or to 1.1: the size of an error, not a number.",
    "168704b5d3446b1f": "One step less of a line that ends eight deviations out.",
    "30d87e2924cafefd": "One value more of the grid from which the search for the best ridge starts; it is refined four times.",
    "875b67430aca8c26": "The next, finer grid begins one place further away; the best value lies inside either.",
    "7d8185aff1e97c7d": "One of 77 numbers of mean zero is left out: the error that is stated is a little larger.",
    "bd4ad47be21d56b2": "The same of half of them.",
    "aab62859d951e53f": "How far a step of a search may go; where it ends is decided by the gradient, which is checked.",
    "9e3c18222587deac": "The slope after a step was shortened, by which a shorter one is chosen or not; the end of the search is decided by the gradient, which is checked.",
    "2ed5d2b74389714d": "The search ends a step later.",
    "dc99840f942bb711": "Gradients of a row sum to zero: its largest entry is at least a share of its largest size, and the bound is not sharp.",
    "b1c24c3a9101e7ed": "The first guess between two ends that bracket the root.",
    "d2114a5a8a9bf4fc": "One step more before giving up; the slope vanishes long before.",
    "e0db09712f74e3e1": "Which of the weight decays that were tried is kept; the last ones have a slope of zero within its error.",
    "4eab0b8f6c85c552": "Solves the best weight decay of a scan once more, or not.",
    "79e6df272daeaf12": "A rounding in the units of λ, 1e-9 of it, by which a walk may pass the limit; only a start.",
    "5a8f3b33a1b5e7a9": "Two sectors take two of three numbers.",
    "9e036ffa619fe3bd": "A node more, of integrals that are exact to rounding.",
    "779f311c6efa7061": "An error to first order, looked for on the other side.",
    "7e4517779ebd77e2": "The same: averages are stretched to see what follows, one of them the other way.",
    "efce7940adf76be3": "The first corner of a simplex.",
    "1b62f322b91e04d5": "How early a second minimum is looked for: a tenth earlier.",
    "5ffd173c1d798a97": "Which line of numba's own explanation is quoted to whoever wrote the loss.",
    "d34fe74b1f98d2d7": "The step of a difference; a tenth more gives the same slope to its own error.",
}
