"""A Dask scheduler and workers as separate local processes, which tests may kill."""

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = str(Path(__file__).parents[2])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(*arguments):
    """Start a module of Dask as a process."""
    return subprocess.Popen(
        [sys.executable, "-m", *arguments, "--no-dashboard"],
        cwd=ROOT,  # where workers can import the functions of `tests.support.sweep_calls`
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@contextmanager
def cluster(workers=2):
    """Yield the address, the process of the scheduler and the processes of the workers."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port))
    processes = [
        start("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny", "--death-timeout", "20")
        for _ in range(workers)
    ]
    try:
        wait_until_open(port)
        yield address, scheduler, processes
    finally:
        for process in (*processes, scheduler):
            process.kill()
            process.wait()


def wait_until_open(port):
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the scheduler did not start")
