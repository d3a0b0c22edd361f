"""Jobs of a SLURM cluster: a Dask scheduler in this process, workers submitted with sbatch."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from onehead.errors import InvalidArgument, MissingExtra
from onehead.fields import word
from onehead.problem import Problem
from onehead.sweep.executors.dask import Dask
from onehead.sweep.executors.feed import Feed
from onehead.sweep.solve import PINNED, Outcome

__all__ = ["Jobs", "Slurm"]


class Jobs(Problem):
    """What to ask of SLURM: ``jobs`` jobs of ``cores`` cores each, one worker process per core."""

    partition: str | None = word(
        None,
        "",
        "SLURM partition.",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,-]{0,199}$",  # stands in a script that bash runs: nothing but names
        allowed="the name of a partition, or several with commas",
    )
    time: str = word(
        "01:00:00", "", "Time limit of a SLURM job.", pattern=r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$", allowed="HH:MM:SS"
    )
    cores: int = word(1, "", "Cores of a SLURM job, one worker each.", ge=1, le=1024)
    memory: str = word(
        "2GB",
        "",
        "Memory of a SLURM job.",
        pattern=r"(?i)^\d+(\.\d+)? ?([kmgt]i?)?b$",
        allowed="a size such as 4GB",
    )
    jobs: int = word(1, "", "SLURM jobs.", ge=1, le=10_000)


class Slurm:
    """Jobs of a SLURM cluster; a job that ends or is cancelled is submitted again while points are missing.

    Parameters
    ----------
    **asked
        The words of `Jobs`.
    """

    goal = Dask.goal

    def __init__(self, **asked: Any) -> None:
        self.jobs = Jobs(**asked)

    def script(self) -> str:
        """The job script, which needs no SLURM to be written."""
        with self._cluster() as cluster:
            # the port of the scheduler is a new one in every run
            return re.sub(r"tcp://\S+", "tcp://THIS_MACHINE:PORT", str(cluster.job_script()))

    def run(self, call: str, feed: Feed) -> Iterator[list[Outcome]]:
        """Solve every point of the feed."""
        if shutil.which("sbatch") is None:
            raise InvalidArgument("on", "slurm", "used where sbatch is; --dry-run prints the job script anywhere")
        with self._cluster() as cluster:
            count = min(self.jobs.jobs, max(1, feed.left))
            cluster.adapt(minimum_jobs=count, maximum_jobs=count, interval="5s")
            yield from Dask(cluster).run(call, feed)

    @contextmanager
    def _cluster(self) -> Iterator[Any]:
        try:
            make: Any = import_module("dask_jobqueue").SLURMCluster  # slow; only who asks for a cluster pays
        except ImportError:
            raise MissingExtra("dask-jobqueue", "cluster") from None
        jobs = self.jobs
        cluster = make(
            queue=jobs.partition,
            walltime=jobs.time,
            cores=jobs.cores,
            processes=jobs.cores,
            memory=jobs.memory,
            job_name="onehead",
            job_script_prologue=[f"export {name}={value}" for name, value in PINNED.items()],
            death_timeout=60,  # seconds: a worker whose driver is gone must not hold its node
            worker_extra_args=["--no-dashboard"],
            scheduler_options={"dashboard": False, "dashboard_address": ":0"},  # any port: nobody looks there
        )
        try:
            yield cluster
        finally:
            cluster.close(timeout=10)
