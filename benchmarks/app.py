"""The explorer: slider to picture, ten people at once, fuzzed requests: ``python -m benchmarks.app [moves|people|fuzz]``."""

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
from typing import Any

from tests.support.explorer import CHROMIUM, DRAG, FLAGS, checkpoint_file, fuzz_request, question, running_server, until

MOVES = 50
# (view, panel) -> the knobs that are dragged in turn
DRAGGED = {
    ("curve", ""): ("kappa0", "weight_decay", "noise", "alpha"),
    ("spectrum", ""): ("alpha", "kappa0", "weight_decay", "noise"),
    ("decay", ""): ("alpha", "kappa0", "noise"),
    ("scaling", "excess"): ("gamma", "weight_decay", "noise"),
    ("scaling", "decomposition"): ("gamma", "weight_decay", "noise"),
    ("scaling", "phase"): ("gamma", "noise"),
    ("sparse", "error"): ("strength", "sparse_beta", "ridge"),
    ("sparse", "alignment"): ("strength", "eta_w"),
    ("sparse", "capacity"): ("strength", "positive_rate"),
    ("sparse", "tuning"): ("strength", "alpha1"),
    ("checkpoint", ""): ("layer", "head"),
}


def moves(address: str, playwright: Any) -> list[tuple[str, float, float]]:
    """(view, median, worst) in milliseconds over the moves in each view."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    found = []
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
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
            found.append((f"{view} {panel}".strip(), statistics.median(times), max(times)))
            print(f"{found[-1][0]:<24} median {found[-1][1]:5.0f} ms   worst {found[-1][2]:5.0f} ms", flush=True)
    browser.close()
    return found


def post(address: str, body: bytes, path: str = "/_dash-update-component", **headers: str) -> tuple[int, float]:
    """Status and seconds of one POST."""
    host = address.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    start = time.perf_counter()
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.perf_counter() - start
    finally:
        connection.close()


def people(address: str, count: int = 10, turns: int = 20) -> list[float]:
    """Seconds from question to answer when ``count`` people drag at once, each about once a second."""
    times: list[float] = []

    def person(i: int) -> None:
        rng = random.Random(i)
        view, knob, at = [("curve", "kappa0", 0.4), ("decay", "noise", 0.4), ("sparse", "strength", 5.0)][i % 3]
        time.sleep(rng.random())
        for turn in range(turns):
            at *= 1.01
            body = json.dumps(question("draw", {"view": view, knob: f"{at + 0.001 * i:.4f}"}, turn, f"p{i}")).encode()
            status, seconds = post(address, body)
            assert status == 200, status
            times.append(seconds)
            time.sleep(max(0.0, 1.0 - seconds) * rng.uniform(0.8, 1.2))

    threads = [threading.Thread(target=person, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def fuzz(address: str, count: int, seed: int = 0, workers: int = 4) -> tuple[Counter[int], float]:
    """Send ``count`` requests; how often each status came back, and the longest wait in seconds."""
    found: Counter[int] = Counter()
    longest, lock = [0.0], threading.Lock()

    def run(part: int) -> None:
        rng = random.Random(f"{seed} {part}")
        for _ in range(count // workers):
            method, path, body, headers = fuzz_request(rng)
            connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=90)
            start = time.perf_counter()
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (http.client.HTTPException, ConnectionError):
                status = 0  # the server closed a connection whose headers were nonsense
            finally:
                connection.close()
            with lock:
                found[status] += 1
                longest[0] = max(longest[0], time.perf_counter() - start)

    threads = [threading.Thread(target=run, args=(part,)) for part in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, longest[0]


def main() -> None:
    """Measure what was asked for, or everything."""
    wanted = sys.argv[1:] or ["moves", "people", "fuzz"]
    print(f"load average of the last minute before the start: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with running_server() as address:
        if "moves" in wanted:
            from playwright.sync_api import sync_playwright  # noqa: PLC0415  (the other measurements need no browser)

            with sync_playwright() as playwright:
                print("slider to picture, 50 moves in each view (budget: median 200 ms, worst 600 ms)")
                moves(address, playwright)
        if "people" in wanted:
            times = people(address)
            print(
                f"10 people at once, {len(times)} moves: median {statistics.median(times) * 1e3:.0f} ms, worst {max(times) * 1e3:.0f} ms (budget: 1 s)"
            )
        if "fuzz" in wanted:
            start = time.perf_counter()
            counts, longest = fuzz(address, 5000)
            print(
                f"5000 fuzzed requests in {time.perf_counter() - start:.0f} s: {dict(sorted(counts.items()))}, longest {longest:.1f} s"
            )


if __name__ == "__main__":
    main()
