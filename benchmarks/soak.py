"""Random problems over the whole parameter range: does every one converge, or say why not?

python -m benchmarks.soak [count] [seed]
"""

import sys
import time
from collections import Counter
from dataclasses import fields

import numpy as np

from onehead import aim
from onehead.errors import SolveError

TOLERANCE = 1e-6


def problem(rng: np.random.Generator) -> tuple[aim.Task, aim.Learner, float]:
    """One problem: κ₀ 0.01 to 3, Δ 0 to 2, α 0.01 to 50, λ 1e-6 to 1, T 2 to 4, every variant of the learner."""
    noise = 0.0 if rng.random() < 0.15 else float(rng.uniform(0.0, 2.0))
    task = aim.Task(
        target=aim.MarchenkoPastur(kappa0=float(np.exp(rng.uniform(np.log(0.01), np.log(3.0))))),
        noise=noise,
        tokens=int(rng.choice([2, 3, 4], p=[0.6, 0.2, 0.2])),
        beta0=float(rng.choice([1.0, 0.5, 2.0], p=[0.8, 0.1, 0.1])),
    )
    learner = aim.Learner(
        weight_decay=float(np.exp(rng.uniform(np.log(1e-6), 0.0))),
        width=float(rng.choice([1.0, 0.3, 0.7], p=[0.8, 0.1, 0.1])),
        param=str(rng.choice(["factorised", "direct"], p=[0.8, 0.2])),
        loss=str(rng.choice(["squared", "cross-entropy"], p=[0.8, 0.2])),
        beta=float(rng.choice([1.0, 0.5, 2.0], p=[0.8, 0.1, 0.1])),
    )
    return task, learner, float(np.exp(rng.uniform(np.log(0.01), np.log(50.0))))


def check(point: aim.Prediction) -> str:
    """What is wrong with a prediction, or nothing."""
    numbers = [getattr(point, f.name) for f in fields(point) if f.type in ("float", float)]
    if any(isinstance(x, float) and np.isnan(x) for x in numbers):
        return "not a number"
    if point.certificate.residual > TOLERANCE:
        return f"residual {point.certificate.residual:.1e}"
    if not 0.0 <= point.rank <= 1.0 or point.q < 0.0 or point.test_error < 0.0:
        return "out of bounds"
    if point.m**2 > point.q * point.task.target.second_moment * (1.0 + 1e-9):
        return "m² > q Q0"
    return ""


def main(count: int = 500, seed: int = 0) -> int:
    """Run the sweep and print a report; the exit code counts unexplained results."""
    rng = np.random.default_rng(seed)
    statuses: Counter[str] = Counter()
    bad, slow = [], []
    begin = time.perf_counter()
    for number in range(count):
        task, learner, alpha = problem(rng)
        start = time.perf_counter()
        try:
            point = aim.predict(task, learner, alpha)
            wrong = check(point)
            statuses[f"wrong: {wrong}" if wrong else point.status.split(":")[0]] += 1
            if wrong:
                bad.append((number, wrong, task, learner, alpha))
        except SolveError as failure:
            statuses[f"error: {type(failure).__name__}"] += 1
            bad.append((number, str(failure), task, learner, alpha))
        slow.append(time.perf_counter() - start)
    print(f"{count} problems, seed {seed}, {time.perf_counter() - begin:.0f} s")
    for status, times in statuses.most_common():
        print(f"{times:6d}  {status}")
    print(f"seconds per problem: median {np.median(slow):.2f}, worst {max(slow):.1f}")
    for row in bad:
        print("  ", *row)
    return sum(1 for row in bad if "wrong" in row[1])


if __name__ == "__main__":
    sys.exit(min(1, main(*(int(word) for word in sys.argv[1:]))))
