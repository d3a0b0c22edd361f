"""The explorer as a separate program, requests that its page sends, and random requests; also used by benchmarks."""

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from safetensors.numpy import save_file

from onehead.app.knobs import KNOBS
from onehead.app.views import VIEWS
from tests.support.checkpoints import attention_layers
from tests.support.machine import LONGEST_WAIT

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def running_server() -> Iterator[str]:
    """Start the program on a free port and yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "onehead", "app", "--port", "0", "--store", f"{folder}/runs.sqlite"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(r"http://\S+", line):
                    time.sleep(4.0)  # until the workers have loaded their compiled code
                    yield found.group().rstrip("/")
                    break
        finally:
            process.terminate()
            process.wait(20)
            process.stderr.close()


def checkpoint_file(folder: str) -> str:
    """Write a small checkpoint with 12 layers of 12 heads, and return its path."""
    path = str(Path(folder) / "model.safetensors")
    save_file(attention_layers(12, 384, np.random.default_rng(0)), path)
    return path


# conditions in the page: the last question is drawn, with a draft or exactly
DRAWN = "window.onehead && onehead.drawn > 0 && onehead.drawn === onehead.asked"
EXACT = "onehead.exact === onehead.asked"


def visit(page: Any, address: str, query: str) -> None:
    """Open a view and wait for its first figure."""
    page.goto(f"{address}/?{query}")
    until(page, DRAWN)


def until(page: Any, expression: str) -> None:
    """Wait for an expression in the page to become true; the limit is long because it only ends tests that fail."""
    end = time.monotonic() + LONGEST_WAIT
    while not page.evaluate(expression):
        if time.monotonic() > end:
            raise TimeoutError(expression)
        time.sleep(0.02)


# moves a slider by some steps, and returns the milliseconds until the figure for its new position is drawn
DRAG = """([name, steps]) => new Promise((done) => {
  const slide = document.getElementById("slide-" + name), max = Number(slide.max);
  let to = Number(slide.value) + steps;
  if (to > 0.9 * max || to < 0.1 * max) to = Math.round(max * (0.35 + 0.3 * Math.random()));
  slide.value = to;
  const start = performance.now();
  slide.dispatchEvent(new Event("input", { bubbles: true }));
  const wanted = window.onehead.asked;
  const look = () => {
    if (window.onehead.drawn >= wanted) done(performance.now() - start);
    else if (performance.now() - start > 10000) done(10000);
    else requestAnimationFrame(look);
  };
  look();
})"""


def question(query: dict[str, Any], page: str = "bench", **more: Any) -> dict[str, Any]:
    """Return the request body that the page sends for a query."""
    return {"key": urlencode(query), "page": page, **more}


VALUES = [
    "0", "-1", "1e308", "nan", "inf", "-inf", "0+", "", " ", "1e-300", "abc", "9" * 400, "../../etc/passwd", "<script>", "\x00", "٣",
    "1_000", "0x10", "1,5", "true", None, [], {}, [1], {"a": 1}, True, 3.5, -7, 10**30, "cross-entropy", "direct", "alpha",
]  # fmt: skip


def fuzz_request(rng: random.Random) -> tuple[str, str, bytes, dict[str, str]]:
    """Return method, path, body and headers of a random request, from nearly valid to nonsense."""
    kind = rng.choice(["draw"] * 6 + ["report", "train", "shape", "path", "bytes", "csv", "file", "headers"])
    names = [*KNOBS, "view", "nothing", "file"]
    query = {rng.choice(names): rng.choice(VALUES) for _ in range(rng.randrange(6))}
    query.setdefault("view", rng.choice([*VIEWS, "zzz"]))
    body = question(query)
    path = f"/ask/{kind if kind in ('draw', 'report', 'train') else 'draw'}"
    if kind == "train":
        body["do"] = rng.choice(["look", "cancel", "explode", None, 5])
    if kind == "shape":
        part = rng.choice(["key", "page", "first", "do", "x"])
        body[part] = rng.choice(
            [None, 1, "view=curve", [], {}, [[]], [None], "x" * 1000, "x" * 9000, [{"id": {"a": 1}}]]
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
        return "POST", path, rng.randbytes(rng.randrange(3000)), headers
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
            "ask", "draw", "assets", "..", "%2e%2e", "etc", "passwd", "alive", "katex", "plotly", "a" * 200, "%00", "favicon.ico",
            "explorer.js",
        ]  # fmt: skip
        path = "/" + "/".join(rng.choice(pieces) for _ in range(rng.randrange(5)))
        return rng.choice(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"]), path, b"", {}
    return "POST", path, json.dumps(body).encode(), headers
