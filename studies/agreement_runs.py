"""Settings of heads that are trained at several dimensions, and the store of their runs."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from checks.tool import append, parser, read, write

from onehead.aim.targets import PowerLaw
from onehead.aim.task import Learner, Task

Rows = dict[tuple[str, int, int], dict[str, Any]]  # by the name of the setting, the dimension and the number of the run


class Setting(NamedTuple):
    """A problem and the number of runs at each dimension, which is also the dimension of a power law."""

    task: Task
    learner: Learner
    alpha: float
    runs: dict[int, int]

    def __str__(self) -> str:
        task, learner = self.task, self.learner
        parts = [
            task.attention,
            {"none": "", "causal": "causal", "strict": "strictly causal"}.get(task.mask, f"mask {task.mask}"),
            f"T = {task.tokens},",
            "hard labels" if task.labels == "hard" else str(learner.loss),
            "direct" if learner.param == "direct" else "",
            f"width {learner.width:g}" if learner.width < 1.0 else "",
            f"power law {task.target.gamma:g}" if isinstance(task.target, PowerLaw) else "",
            f"α = {self.alpha:g} λ = {learner.decay:g}",
        ]
        return " ".join(part for part in parts if part)


def one_run_of_every_setting_first(number: int, dim: int, k: int) -> tuple[int, ...]:
    """Return the place of a run in the order in which small dimensions come first."""
    return dim, k, number


class Study(NamedTuple):
    """Settings to measure, ``measure(setting, dim, seed)``, and seed, order and name of a run and its setting."""

    module: str
    settings: Sequence[Setting]
    measure: Callable[[Setting, int, int], dict[str, Any]]
    seed: Callable[[int, int], int]
    order: Callable[[int, int, int], tuple[Any, ...]] = one_run_of_every_setting_first
    name: Callable[[Setting], str] = str

    def jobs(self) -> Iterator[tuple[int, int, int]]:
        """Yield setting, dimension and number of every run."""
        numbered = enumerate(self.settings)
        every = [(i, dim, k) for i, one in numbered for dim, runs in one.runs.items() for k in range(runs)]
        yield from sorted(every, key=lambda job: self.order(*job))

    def collect(self, store: Path) -> Rows:
        """Return all rows of the store, after measuring those that it lacks, until finished or interrupted."""
        rows = {(row["setting"], row["dim"], row["seed"]): row for row in read(store)}
        try:
            for number, dim, k in self.jobs():
                key = (self.name(self.settings[number]), dim, k)
                if key not in rows:
                    found = self.measure(self.settings[number], dim, self.seed(number, k))
                    rows[key] = {"setting": key[0], "dim": dim, "seed": k, **found}
                    append(store, rows[key])
                    print(f"{key[0]}, d = {dim}, run {k}: {rows[key]['seconds']:.0f} s", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print("interrupted: run the same command to continue", file=sys.stderr)
        return rows

    def main(self, description: str | None, report: Callable[[Rows], str]) -> None:
        """Run the study from the command line."""
        asset = f"{self.module.replace('_', '-')}.md"
        options = parser(f"studies.{self.module}", description, f"docs/assets/{asset}")
        options.add_argument("--store", type=Path, default=Path("out", asset).with_suffix(".jsonl"))
        arguments = options.parse_args()
        write(asset, report(self.collect(arguments.store)), wanted=arguments.write)
