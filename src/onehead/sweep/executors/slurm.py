"""Executor on a SLURM cluster: a Dask scheduler in this process, with workers submitted by sbatch."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from onehead.errors import InvalidArgument, MissingExtra
from onehead.fields import parameter
from onehead.problem import Problem
from onehead.sweep.executors.chunking import PointQueue
from onehead.sweep.executors.dask import Dask
from onehead.sweep.solve import SINGLE_THREAD_ENVIRONMENT, Outcome


class SlurmSettings(Problem):
    """Resources asked of SLURM: ``jobs`` jobs of ``cores`` cores each, one worker process per core."""

    partition: str | None = parameter(
        None,
        "",
        "Partition of the SLURM jobs.",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,-]{0,199}$",  # it enters a script that bash runs, so only names are allowed
        allowed="the name of a partition, or several with commas",
    )
    time: str = parameter(
        "01:00:00", "", "Time limit of a SLURM job.", pattern=r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$", allowed="HH:MM:SS"
    )
    cores: int = parameter(1, "", "Cores of a SLURM job, one worker process each.", ge=1, le=1024)
    memory: str = parameter(
        "2GB",
        "",
        "Memory of a SLURM job.",
        pattern=r"(?i)^\d+(\.\d+)? ?([kmgt]i?)?b$",
        allowed="a size such as 4GB",
    )
    jobs: int = parameter(1, "", "Number of SLURM jobs.", ge=1, le=10_000)


class Slurm:
    """Executor on a SLURM cluster; a job that ends or is cancelled is submitted again while points are missing.

    Parameters
    ----------
    **settings
        Fields of `SlurmSettings`.
    """

    goal = Dask.goal

    def __init__(self, **settings: Any) -> None:
        self.settings = SlurmSettings(**settings)

    def script(self) -> str:
        """Job script; writing it does not need SLURM."""
        with self._cluster() as cluster:
            # the port of the scheduler differs in every run
            return re.sub(r"tcp://\S+", "tcp://THIS_MACHINE:PORT", str(cluster.job_script()))

    def run(self, call: str, points: PointQueue) -> Iterator[list[Outcome]]:
        """Solve every point of the queue."""
        if shutil.which("sbatch") is None:
            raise InvalidArgument(
                "on", "slurm", "used on a machine that has sbatch; --dry-run prints the job script anywhere"
            )
        with self._cluster() as cluster:
            count = min(self.settings.jobs, max(1, points.remaining))
            cluster.adapt(minimum_jobs=count, maximum_jobs=count, interval="5s")
            yield from Dask(cluster).run(call, points)

    @contextmanager
    def _cluster(self) -> Iterator[Any]:
        """Dask cluster whose jobs have these settings; it is closed at the end of the block."""
        try:
            cluster_class: Any = import_module(
                "dask_jobqueue"
            ).SLURMCluster  # slow to import, so only when it is needed
        except ImportError:
            raise MissingExtra("dask-jobqueue", "cluster") from None
        settings = self.settings
        cluster = cluster_class(
            queue=settings.partition,
            walltime=settings.time,
            cores=settings.cores,
            processes=settings.cores,
            memory=settings.memory,
            job_name="onehead",
            job_script_prologue=[f"export {name}={value}" for name, value in SINGLE_THREAD_ENVIRONMENT.items()],
            death_timeout=60,  # seconds after which a worker without its driver frees its node
            worker_extra_args=["--no-dashboard"],
            scheduler_options={"dashboard": False, "dashboard_address": ":0"},  # not used, so any free port
        )
        try:
            yield cluster
        finally:
            cluster.close(timeout=10)
