"""The explorer: slider to picture, ten people at once, fuzzed requests: ``python -m benchmarks.app [moves|people|fuzz]``."""

import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from safetensors.numpy import save_file

from onehead.app.knobs import KNOBS
from onehead.app.views import VIEWS

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
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


@contextmanager
def running_server() -> Iterator[str]:
    """Start the program on a free port; its address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "onehead", "app", "--port", "0", "--store", f"{folder}/runs.sqlite"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"http://\S+", line):
                    time.sleep(4.0)  # the workers load their compiled code
                    yield found.group().rstrip("/")
                    break
        finally:
            process.terminate()
            process.wait(20)
            process.stderr.close()


def checkpoint_file(folder: str) -> str:
    """A small file with 12 layers of 12 heads."""
    rng = np.random.default_rng(0)
    name = "encoder.layer.{}.attention.self.{}.weight"
    weights = {
        name.format(layer, side): rng.standard_normal((384, 384), dtype=np.float32)
        for layer in range(12)
        for side in ("query", "key")
    }
    path = str(Path(folder) / "model.safetensors")
    save_file(weights, path)
    return path


def until(page: Any, expression: str, seconds: float = 60.0) -> None:
    """Wait for an expression in the page to become true."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        if time.monotonic() > end:
            raise TimeoutError(expression)
        time.sleep(0.02)


# one move: drag the slider a step, and note when the figure of that question is on the screen
DRAG = """([name, steps]) => new Promise((done) => {
  const slide = document.getElementById("slide-" + name), max = Number(slide.max);
  let to = Number(slide.value) + steps;
  if (to > 0.9 * max || to < 0.1 * max) to = Math.round(max * (0.35 + 0.3 * Math.random()));
  slide.value = to;
  const start = performance.now(), gd = document.querySelector("#picture .js-plotly-plot");
  slide.dispatchEvent(new Event("input", { bubbles: true }));
  const wanted = window.onehead.asked;
  const look = () => {
    const meta = gd.layout && gd.layout.meta;
    if (meta && meta.n >= wanted && window.onehead.drawn >= wanted) done(performance.now() - start);
    else if (performance.now() - start > 10000) done(10000);
    else requestAnimationFrame(look);
  };
  look();
})"""


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


def question(kind: str, query: dict[str, Any], n: int = 1, page: str = "bench") -> dict[str, Any]:
    """What the page itself sends."""
    single = {"id": f"told-{kind}", "property": "data"}
    both = [{"id": "picture", "property": "figure"}, single]
    data = {"query": query, "n": n, "page": page, "theme": "light", "file": ""}
    return {
        "output": f"..picture.figure...told-{kind}.data.." if kind == "draw" else f"told-{kind}.data",
        "outputs": both if kind == "draw" else single,
        "inputs": [{"id": f"ask-{kind}", "property": "data", "value": data}],
        "changedPropIds": [f"ask-{kind}.data"],
    }


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


VALUES = [
    "0", "-1", "1e308", "nan", "inf", "-inf", "0+", "", " ", "1e-300", "abc", "9" * 400, "../../etc/passwd", "<script>", "\x00", "٣",
    "1_000", "0x10", "1,5", "true", None, [], {}, [1], {"a": 1}, True, 3.5, -7, 10**30, "cross-entropy", "direct", "alpha",
]  # fmt: skip


def fuzz_request(rng: random.Random) -> tuple[str, str, bytes, dict[str, str]]:
    """A method, a path, a body and headers: from nearly right to nonsense."""
    kind = rng.choice(["draw"] * 6 + ["report", "train", "shape", "path", "bytes", "csv", "file", "headers"])
    names = [*KNOBS, "view", "nothing", "file"]
    query = {rng.choice(names): rng.choice(VALUES) for _ in range(rng.randrange(6))}
    query.setdefault("view", rng.choice([*VIEWS, "zzz"]))
    body = question(kind if kind in ("draw", "report", "train") else "draw", query, n=rng.choice([0, 1, -5, 2**70]))
    if kind == "train":
        body["inputs"][0]["value"]["do"] = rng.choice(["look", "cancel", "explode", None, 5])
    if kind == "shape":
        part = rng.choice(["output", "outputs", "inputs", "changedPropIds", "state", "x"])
        body[part] = rng.choice(
            [None, 1, "told-draw.data", "sink.data", [], {}, [[]], [None], "x" * 1000, [{"id": {"a": 1}}]]
        )
    headers = {"Content-Type": "application/json"}
    if kind == "headers":
        headers |= rng.choice(
            [
                {"Origin": "http://elsewhere"},
                {"Host": "elsewhere"},
                {"Content-Type": "text/plain"},
                {"Content-Encoding": "gzip"},
            ]
        )
    if kind == "bytes":
        return "POST", "/_dash-update-component", rng.randbytes(rng.randrange(3000)), headers
    if kind == "file":
        return (
            "POST",
            f"/checkpoint?heads={rng.choice(['0', 'x', '-1', '12'])}",
            rng.randbytes(rng.randrange(400)),
            headers,
        )
    if kind == "csv":
        pairs = "&".join(f"{quote(str(k))}={quote(str(v)[:300])}" for k, v in query.items() if k != "view")
        return "GET", f"/data.csv?view=sparse&sparse_panel=alignment&{pairs}", b"", {}
    if kind == "path":
        pieces = [
            "_dash-component-suites",
            "assets",
            "..",
            "%2e%2e",
            "etc",
            "passwd",
            "_dash-layout",
            "dash",
            "plotly",
            "a" * 200,
            "%00",
            "_dash-dependencies",
            "_reload-hash",
            "_favicon.ico",
            "explorer.js",
        ]
        path = "/" + "/".join(rng.choice(pieces) for _ in range(rng.randrange(5)))
        return rng.choice(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"]), path, b"", {}
    return "POST", "/_dash-update-component", json.dumps(body).encode(), headers


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
