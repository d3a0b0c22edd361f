"""The explorer: ``python -m benchmarks.app [moves|busy|first|people|fuzz]``, each by itself or all of them.

Slider to picture in every view; the same while exact pictures are being solved; the first picture of a cold browser;
ten people at once; fuzzed requests. The first three are also rows of `python -m benchmarks --only app`. They measure
what people feel, and so mean something on a quiet machine alone: the load average is printed first.
"""

import contextlib
import http.client
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.support.explorer import CHROMIUM, DRAG, FLAGS, checkpoint_file, fuzz_request, question, running_server, until

from benchmarks.harness import Budget, Clock, Finding, Missing, row

MOVES = 50
# (view, panel) -> the knobs that are dragged in turn
DRAGGED = {
    ("head", ""): ("alpha", "kappa0", "weight_decay"),
    ("curve", ""): ("kappa0", "weight_decay", "noise", "alpha"),
    ("spectrum", ""): ("alpha", "kappa0", "weight_decay", "noise"),
    ("decay", ""): ("alpha", "kappa0", "noise"),
    ("map", ""): ("kappa0", "noise"),
    ("scaling", "excess"): ("gamma", "weight_decay", "noise"),
    ("scaling", "decomposition"): ("gamma", "weight_decay", "noise"),
    ("scaling", "phase"): ("gamma", "noise"),
    ("sparse", "error"): ("strength", "sparse_beta", "ridge"),
    ("sparse", "alignment"): ("strength", "eta_w"),
    ("sparse", "capacity"): ("strength", "positive_rate"),
    ("sparse", "tuning"): ("strength", "alpha1"),
    ("checkpoint", ""): ("layer", "head"),
}


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser that has seen nothing yet."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Missing("rows of the explorer are left out: pip install 'onehead[dev]'") from None
    if not Path(CHROMIUM).exists():
        raise Missing(f"rows of the explorer are left out: they need a browser in {CHROMIUM}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def moves(address: str) -> dict[str, tuple[float, float]]:
    """View -> (median, worst) in milliseconds over the moves in it."""
    found = {}
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        for (view, panel), knobs in DRAGGED.items():
            extra = f"&{view}_panel={panel}" if panel else "&heads=12" if view == "checkpoint" else ""
            page.goto(f"{address}/?view={view}{extra}")
            until(page, "window.onehead && onehead.drawn > 0")
            if view == "checkpoint":
                page.set_input_files("#file", checkpoint_file(folder))
                until(page, "onehead.asked > 1 && onehead.drawn === onehead.asked")
            for knob in knobs:  # a first move of each knob is not counted: the server is to be warm
                page.evaluate(DRAG, [knob, 1])
            times = []
            for i in range(MOVES):
                size = 1 if view == "checkpoint" else rng.choice((1, 2, 3, 5))
                times.append(page.evaluate(DRAG, [knobs[i % len(knobs)], size]))
                page.wait_for_timeout(rng.choice((20, 60, 150)))
            name, median, worst = f"{view} {panel}".strip(), statistics.median(times), max(times)
            found[name] = median, worst
            print(f"{name:<24} median {median:5.0f} ms   worst {worst:5.0f} ms", flush=True)
    return found


# another page asks for a picture that takes longer than all moves
OCCUPY = """(n) => { fetch("ask/picture", { method: "POST", headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ key: "view=curve&tokens=8&noise=0.5" + n, page: "other" + n }) }); }"""


def busy(address: str) -> list[float]:
    """Milliseconds of moves on the learning curve while another page's exact picture is being solved, and after rests
    this one's.
    """
    rng, times = random.Random(1), []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(f"{address}/?view=curve&best=1")
        until(page, "window.onehead && onehead.drawn > 0")
        for i in range(MOVES):
            if i % 25 == 0:  # before the time limit of the one before
                page.evaluate(OCCUPY, i)
            knob = ("kappa0", "noise", "weight_decay", "alpha")[i % 4]
            times.append(page.evaluate(DRAG, [knob, rng.choice((1, 2, 3, 5))]))
            page.wait_for_timeout(rng.choice((20, 60, 150, 700)))
    return times


def first(address: str) -> float:
    """Seconds from the address to the first picture in a browser that has just been started, with an empty cache."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        start = time.perf_counter()
        page.goto(f"{address}/?view=head")
        until(page, "window.onehead && onehead.drawn > 0")
        return time.perf_counter() - start


def ask(address: str, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, float]:
    """Status and seconds of one request; status 0 where the server closed a connection whose headers were nonsense."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=90)
    start, status = time.perf_counter(), 0
    with contextlib.suppress(http.client.HTTPException, ConnectionError), contextlib.closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        status = answer.status
    return status, time.perf_counter() - start


def together(count: int, work: Callable[[int], None]) -> None:
    """Do the same work in several threads, each with its number."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def people(address: str, count: int = 10, turns: int = 20) -> list[float]:
    """Seconds from question to answer when ``count`` people drag at once, each about once a second."""
    times: list[float] = []

    def person(i: int) -> None:
        rng = random.Random(i)
        view, knob, at = [("curve", "kappa0", 0.4), ("decay", "noise", 0.4), ("sparse", "strength", 5.0)][i % 3]
        time.sleep(rng.random())
        for _ in range(turns):
            at *= 1.01
            body = json.dumps(question({"view": view, knob: f"{at + 0.001 * i:.4f}"}, f"p{i}")).encode()
            kind = {"Content-Type": "application/json"}
            status, seconds = ask(address, "POST", "/ask/draw", body, kind)
            assert status == 200, status
            times.append(seconds)
            time.sleep(max(0.0, 1.0 - seconds) * rng.uniform(0.8, 1.2))

    together(count, person)
    return times


def fuzz(address: str, count: int, seed: int = 0, workers: int = 4) -> tuple[Counter[int], float]:
    """Send ``count`` requests; how often each status came back, and the longest wait in seconds."""
    answers: list[tuple[int, float]] = []

    def run(part: int) -> None:
        rng = random.Random(f"{seed} {part}")
        for _ in range(count // workers):
            answers.append(ask(address, *fuzz_request(rng)))

    together(workers, run)
    return Counter(status for status, _ in answers), max(seconds for _, seconds in answers)


@lru_cache(maxsize=1)
def _moved() -> dict[str, tuple[float, float]]:
    """The moves of one session in a browser."""
    with running_server() as address:
        return moves(address)


def _view(name: str) -> None:
    @row("app", f"explorer, {name}", budget=Budget(0.2, "s"), repeats=1)
    def measure(clock: Clock) -> Finding:
        median, worst = _moved()[name]
        clock.take(1e-3 * median)
        return Finding("a sketch; the exact picture follows", None, f"median of {MOVES} moves, worst {worst:.0f} ms")


for _name in (f"{view} {panel}".strip() for view, panel in DRAGGED):
    _view(_name)


@row("app", "explorer, curve while an exact picture runs", budget=Budget(0.2, "s"), repeats=1)
def while_busy(clock: Clock) -> Finding:
    with running_server() as address:
        times = busy(address)
    clock.take(1e-3 * statistics.median(times))
    return Finding("a sketch; the exact picture follows", None, f"median of {MOVES} moves, worst {max(times):.0f} ms")


@row("app", "explorer, first picture in a cold browser", budget=Budget(2.0, "s"), repeats=1)
def first_picture(clock: Clock) -> Finding:
    with running_server() as address:
        clock.take(first(address))
    return Finding("a sketch; the exact picture follows", None, "the head, nothing in the cache")


def main() -> None:
    """Measure what was asked for, or everything."""
    wanted = sys.argv[1:] or ["moves", "busy", "first", "people", "fuzz"]
    print(f"load average of the last minute before the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with running_server() as address:
        if "moves" in wanted:
            print(f"slider to picture, {MOVES} moves in each view (budget: median 200 ms, worst 600 ms)")
            moves(address)
        if "busy" in wanted:
            times = busy(address)
            median, worst = statistics.median(times), max(times)
            print(
                f"{MOVES} moves while exact pictures run: median {median:.0f} ms, worst {worst:.0f} ms (budget: "
                f"median 200 ms)"
            )
        if "first" in wanted:
            print(f"first picture in a cold browser: {first(address):.1f} s (budget: 2 s)")
        if "people" in wanted:
            times = people(address)
            median, worst = 1e3 * statistics.median(times), 1e3 * max(times)
            print(f"10 people at once, {len(times)} moves: median {median:.0f} ms, worst {worst:.0f} ms (budget: 1 s)")
        if "fuzz" in wanted:
            start = time.perf_counter()
            counts, longest = fuzz(address, 5000)
            took, found = time.perf_counter() - start, dict(sorted(counts.items()))
            print(f"5000 fuzzed requests in {took:.0f} s: {found}, longest {longest:.1f} s")


if __name__ == "__main__":
    main()
