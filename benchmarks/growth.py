"""Growth of cost: fitted exponents, the largest size as the time of the row."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import onehead
from benchmarks.harness import Clock, Finding, certified, row
from benchmarks.training import problem, slope_error, start
from onehead import aim, sparse
from onehead.aim.logits.geometry import tied_geometry
from onehead.aim.logits.quadrature import logit_rule
from onehead.aim.theory.build import build_state_evolution

STATE = (1.462361, 1.380944, 2.303404)  # (q, m, Σ) at λ = 0.01, α = 0.5 (10)


def timed(clock: Clock, sizes: Sequence[Any], work: Callable[[Any], Callable[[], Any]]) -> tuple[list[float], Any]:
    """Seconds at every size, and the answer at the last."""
    seconds = []
    for size in sizes:
        answer = clock(work(size))
        seconds.append(clock.seconds)
    return seconds, answer


def growth(name: str, sizes: Sequence[float], seconds: Sequence[float]) -> str:
    """The exponent of the time over the whole range, and between the two largest sizes."""
    x, y = np.log(np.array(sizes, dtype=float)), np.log(seconds)
    whole, end = np.polyfit(x, y, 1)[0], (y[-1] - y[-2]) / (x[-1] - x[-2])
    return f"time ~ {name}^{whole:.2f}, {name} from {sizes[0]:g} to {sizes[-1]:g}; {name}^{end:.2f} at the end"


@row("growth", "averages over the output, T = 2, against quadrature nodes", repeats=5)
def nodes(clock: Clock) -> Finding:
    output = build_state_evolution(aim.Task(), aim.Learner(weight_decay=0.01)).output
    levels = {float(len(logit_rule(tied_geometry(2).blocks[0], level, False).weights)): level for level in range(4)}
    sizes = sorted(levels)

    def work(size: float) -> Callable[[], Any]:
        return lambda: output.averages(*STATE, level=levels[size])

    seconds, finest = timed(clock, sizes, work)
    coarsest = output.averages(*STATE, level=levels[sizes[0]])
    gap = abs(coarsest.distance / finest.distance - 1.0)
    return Finding(f"coarsest rule off by {gap:.0e} from the finest", gap, growth("nodes", sizes, seconds))


@row("growth", "averages over the output per node, against tokens", repeats=5)
def tokens(clock: Clock) -> Finding:
    sizes, seconds, gap = (3, 4, 6, 8, 12), [], 0.0
    for count in sizes:
        output = build_state_evolution(aim.Task(tokens=count), aim.Learner(weight_decay=0.01)).output
        found = clock(lambda output=output: output.averages(1.2, 1.2, 2.0, level=0, detail=2))  # type: ignore[misc]
        seconds.append(clock.seconds / len(logit_rule(tied_geometry(count).blocks[0], 0, False).weights))
        other = output.averages(1.2, 1.2, 2.0, level=0, check_rule=True, detail=2)
        gap = max(gap, abs(found.distance / other.distance - 1.0))
    return Finding(f"twin rules within {gap:.0e}", gap, growth("T", sizes, seconds))


def _sequence(
    name: str, sizes: Sequence[int], decay: Callable[[int], float], task: dict[str, Any], **head: Any
) -> None:
    @row("growth", f"one point of {name}, against tokens", repeats=3)
    def measure(clock: Clock) -> Finding:
        def work(count: int) -> Callable[[], Any]:
            learner = aim.Learner(weight_decay=decay(count), **head)
            return lambda: aim.predict(aim.Task(tokens=count, **task), learner, 2.0 / count**2)

        seconds, point = timed(clock, sizes, work)
        each = ", ".join(f"{second:.2g}" for second in seconds)
        return certified(point, f"{growth('T', sizes, seconds)}; {each} s")


LONG, CROSS = (2, 8, 32, 128, 512, 1024, 4096), {"attention": "cross"}
_sequence("cross-attention, cross-entropy, α T² = 2, λ T = 0.5", LONG, lambda T: 0.5 / T, CROSS, loss="cross-entropy")
# the slope of the squared loss is smaller by the probabilities: with λ ~ 1/T long rows would have no map at all
_sequence("cross-attention, squared loss, α T² = 2, λ T² = 0.5", LONG, lambda T: 0.5 / T**2, CROSS)
_sequence("a tied head, squared loss, α T² = 2, λ T = 0.04", (2, 4, 8, 16, 32, 64), lambda T: 0.04 / T, {})


@row("growth", "one point of a power law, γ = 0.75, λ = 1/d, n = d^1.6, against d", repeats=5)
def atoms(clock: Clock) -> Finding:
    sizes = (200, 400, 800, 1600, 3200)

    def work(dim: int) -> Callable[[], Any]:
        task = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=dim))
        return lambda: aim.predict(task, aim.Learner(weight_decay=1.0 / dim), float(dim**-0.4))

    seconds, point = timed(clock, sizes, work)
    return certified(point, growth("d", sizes, seconds))


@row("growth", "one point of a power law, γ = 0.75, λ = 1/d, n = d^1.6, d = 100,000", repeats=1, fresh=True)
def many_atoms(clock: Clock) -> Finding:
    task = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=100_000))
    return certified(clock(lambda: aim.predict(task, aim.Learner(weight_decay=1e-5), 0.01)))


def _pass(name: str, sizes: Sequence[int], settings: Callable[[int], tuple[int, int, int]]) -> None:
    @row("growth", f"one pass of training, against {name}", repeats=5)
    def measure(clock: Clock) -> Finding:
        made: list[Any] = []

        def work(size: int) -> Callable[[], Any]:
            function = problem(*settings(size))[2]
            made[:] = function, start(function)
            return lambda: function(made[1])

        seconds, (_, gradient) = timed(clock, sizes, work)
        off = slope_error(made[0], made[1], gradient)
        size = sum(chunk.tokens.nbytes for chunk in made[0].samples) / 1e9
        last = f"{growth(name, sizes, seconds)}; {seconds[-1] / size:.2g} s a pass and GB of tokens"
        return Finding(f"gradient off by {off:.0e} from differences", off, last)


_pass("n", (2000, 4000, 8000, 16000), lambda count: (100, count, 2))
_pass("d", (60, 120, 240, 480, 1000), lambda dim: (dim, 4000, 2))
_pass("T", (2, 4, 8, 16), lambda count: (100, 4000, count))


@row("growth", "one logistic point of the sparse task on the same number of nodes, against L", repeats=5)
def length(clock: Clock) -> Finding:
    sizes = (5, 20, 80, 320)
    plan = sparse.Protocol(alpha1=1.5, ridge=1e-2, cos_query=0.9, sharpness=2.0)

    def work(count: int) -> Callable[[], Any]:
        return lambda: sparse.predict(sparse.Task(length=count), plan, accuracy=0.5)  # any error will do: no refinement

    seconds, point = timed(clock, sizes, work)
    return certified(point, growth("L", sizes, seconds))


def _sweep(on: str, sizes: Sequence[int], **words: Any) -> None:
    @row("growth", f"a sweep of points that cost nothing, {on}, stored on disk", repeats=2)
    def measure(clock: Clock) -> Finding:
        number = iter(range(1000))

        def work(points: int) -> Callable[[], Any]:
            def run() -> Any:
                with tempfile.TemporaryDirectory() as folder:  # a store that is new every time
                    store = Path(folder) / f"{next(number)}.db"
                    axes = {"x": list(range(points))}
                    return onehead.sweep("benchmarks.sweep:trivial", axes, store=store, on=on, **words)

            return run

        seconds, table = timed(clock, sizes, work)
        wrong = sum(a != x**2 for x, a in enumerate(table.column("square")))
        each = f"; {1e3 * clock.seconds / sizes[-1]:.2f} ms a point"
        return Finding(f"{wrong} wrong of {sizes[-1]}", float(wrong), growth("points", sizes, seconds) + each)


_sweep("inline", (1000, 4000, 16000))
_sweep("local", (1000, 4000, 16000), workers=2)
