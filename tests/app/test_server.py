"""The server without a browser: limits, refusals, workers, training jobs, fuzzed requests."""

import csv
import io
import json
import os
import random
import re
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.support.explorer import checkpoint_file, fuzz_request, question

from onehead import aim
from onehead.app.server import workers as server_workers
from onehead.app.server.request_guard import BODY_LIMIT
from onehead.app.server.training_jobs import Trainer, realised_widths, training_sweep
from onehead.app.server.workers import Superseded, Workers
from onehead.app.state import read_state
from onehead.errors import MissingExtra, OneheadError

DRAW = "/ask/draw"


def ask(client, kind, **query):
    """The figure of an answer, and the whole answer."""
    asked = question(query)
    response = client.post(f"/ask/{kind}", json=asked)
    assert response.status_code == 200, response.get_data(as_text=True)
    answer = json.loads(response.get_data())
    assert answer["key"] == asked["key"]
    return answer.get("figure"), answer


def test_every_answer_forbids_content_from_other_hosts(client):
    for path in ("/", "/assets/explorer.js", "/nowhere", "/data.csv?noise=-1"):
        with client.get(path) as answer:
            headers = answer.headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "http" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"


def test_the_page_loads_nothing_from_other_hosts(client):
    page = client.get("/").get_data(as_text=True)
    assert "http://" not in page
    papers = re.findall(r'<a href="(https://[^"]*)" target="_blank" rel="noopener noreferrer">', page)
    assert len(papers) == 2 and all(
        link.startswith("https://arxiv.org/abs/") for link in papers
    )  # links, not loaded by the page
    assert page.count("https://") == len(papers)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"x" * (BODY_LIMIT + 1), 413),
        (b"not json", 400),
        (b"[" * 50_000, 400),
        (b"[]", 400),
        (b'{"page": "x"}', 400),
        (b'{"key": ["view=curve"]}', 400),
        (b'{"key": "view=curve", "figure": {}}', 400),
        (b'{"key": "view=curve", "page": 7}', 400),
    ],
)
def test_a_malformed_question_is_refused_with_a_sentence(client, body, code):
    answer = client.post(DRAW, data=body, content_type="application/json")
    assert answer.status_code == code
    assert json.loads(answer.get_data())["sentence"].endswith(".")


def test_a_refused_value_gives_a_sentence_and_no_picture(client):
    figure, answer = ask(client, "draw", view="curve", noise="-1")
    assert figure is None
    assert answer["wrong"] == {"noise": "Noise Δ must be at least 0 and at most 1,000 (you entered -1)."}
    _, answer = ask(client, "report", view="curve", noise="-1")
    assert answer["badge"][0] == "failed"


def test_a_refusal_of_the_library_takes_the_place_of_the_picture(client):
    head = {"view": "scaling", "scaling_panel": "decomposition", "attention": "self", "mask": "causal", "dim": "30"}
    _, answer = ask(client, "draw", **head)
    sentence = answer["refusal"]
    assert "is not split" in sentence
    figure, answer = ask(client, "draw", **head)
    assert figure["layout"]["annotations"][0]["text"].replace("<br>", " ") == sentence
    assert figure["data"] == [] and "--attention self" in answer["shell"] and answer["refusal"] == sentence
    _, answer = ask(client, "picture", **head)
    assert answer["sentence"] == answer["instead"]["refusal"] == sentence and answer["instead"]["empty"]


def test_adjusted_knobs_are_part_of_the_answer(client):
    _, answer = ask(client, "draw", view="spectrum", mask="strict", labels="hard")
    assert answer["adjusted"] == {"tokens": 3, "loss": "cross-entropy"} and answer["wrong"] == {}


def test_reports_have_the_numbers_of_the_library(client):
    figure, answer = ask(client, "draw", view="curve", kappa0="0.4")
    assert figure["layout"]["meta"] == {"by": "alpha", "at": 0.5} and not answer["exact"]
    assert answer["alt"].startswith("error against sample ratio α = n/d². test error (factorised): ")
    assert "kappa0=0.4" in answer["python"]
    _, answer = ask(client, "report", view="curve", kappa0="0.4")
    state, _ = read_state({"kappa0": "0.4"})
    point = aim.predict(state.task, state.learner, 0.5)
    assert ["Test error", "", f"{point.test_error:.5g}"] == answer["numbers"][0][:3]


def test_the_rows_of_a_picture_are_available_as_csv(client):
    answer = client.get("/data.csv?view=sparse&sparse_panel=alignment")
    rows = list(csv.DictReader(io.StringIO(answer.get_data(as_text=True))))
    assert len(rows) == 61
    assert float(rows[-1]["cos_query"]) > 0.9
    assert "attachment" in answer.headers["Content-Disposition"]
    assert client.get("/data.csv?noise=-1").status_code == 400


def test_a_checkpoint_is_measured_and_deleted(client, explorer, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "own"
    folder.mkdir()
    data = Path(checkpoint_file(str(folder))).read_bytes()
    answer = client.post("/checkpoint?heads=12&name=../../evil.safetensors", data=data)
    file = json.loads(answer.get_data())
    assert file["heads"] == 144
    assert file["layers"] == 12
    assert [path.name for path in tmp_path.iterdir()] == ["own"]  # the temporary folder is gone
    figure, _ = ask(client, "draw", view="checkpoint", layer="3", head="2", file=file["file"])
    assert np.shape(figure["data"][0]["z"]) == (12, 12)
    rng = np.random.default_rng(0)
    first = {side: rng.standard_normal((384, 384), dtype=np.float32) for side in ("query", "key")}
    A = first["query"][:32].astype(float).T @ first["key"][:32]
    stored = explorer.handlers._files[file["file"]]["heads"][0]["singular_values"]
    assert max(stored) == pytest.approx(np.linalg.norm(A, 2), rel=1e-6)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff" * 100, "Cannot read"),
        (b"PK\x03\x04" + b"\x00" * 100, "Cannot read"),
        (b"\x80\x04\x95" + b"\x00" * 60, "Cannot read"),  # a pickle
    ],
)
def test_a_file_that_is_not_a_checkpoint_is_refused_with_a_sentence(client, data, sentence):
    answer = client.post("/checkpoint", data=data)
    assert json.loads(answer.get_data())["sentence"].startswith(sentence)


def test_the_size_of_an_upload_is_limited(client, monkeypatch):
    monkeypatch.setattr("onehead.app.server.application.UPLOAD_LIMIT", 1000)
    answer = client.post("/checkpoint", data=b"x" * 1001)
    assert answer.status_code == 413
    assert client.post("/checkpoint", data=b"x").status_code == 413


def test_fuzzed_requests_never_cause_a_server_error(client):
    rng = random.Random(11)
    for _ in range(250):
        method, path, body, headers = fuzz_request(rng)
        start = time.monotonic()
        answer = client.open(path, method=method, data=body, headers=headers)
        assert answer.status_code < 500, (method, path, body)
        assert time.monotonic() - start < 45.0
        answer.close()


# --- workers


def test_a_worker_that_takes_too_long_is_ended_and_replaced():
    workers = Workers(1)
    try:
        state, _ = read_state({"view": "curve", "tokens": "16"})  # about a second of processor time
        with pytest.raises(OneheadError, match="No answer within"):
            workers.ask("report", ("curve", state.values, {}), page="a", limit=0.2)
        quick, _ = read_state({"view": "sparse", "sparse_panel": "alignment"})
        assert workers.ask("report", ("sparse", quick.values, {}), page="a", limit=60.0).badge.text == "Aligned."
    finally:
        workers.close()


class AnswersLate:
    """A stand-in for the process and the pipe of a worker that answers after some seconds."""

    pid = 0

    def __init__(self, seconds):
        self.process, self.pipe, self.ready = self, self, time.monotonic() + seconds
        self.terminated = False

    def send(self, question):
        self.number = question[0]

    def poll(self, seconds):
        time.sleep(min(seconds, max(0.0, self.ready - time.monotonic())))
        return time.monotonic() >= self.ready

    def recv(self):
        return self.number, "answer"

    def terminate(self):
        self.terminated = True

    def join(self, seconds):
        pass


@pytest.mark.parametrize(
    ("processor_time", "outcome"),
    [
        (lambda waited: 0.0, "answer"),  # other programs have the processor: the worker may take its time
        (lambda waited: waited, "No answer within 0.2 s of computing"),
        (lambda waited: None, "No answer within 0.2 s of computing"),  # a system that does not tell processor times
    ],
)
def test_the_limit_of_an_answer_counts_processor_time(monkeypatch, processor_time, outcome):
    start = time.monotonic()
    monkeypatch.setattr(server_workers, "processor_seconds", lambda pid: processor_time(time.monotonic() - start))
    worker = AnswersLate(1.0)
    exchange = partial(Workers._exchange, None, worker, 7, ("report", None), 0.2)
    if outcome == "answer":
        assert exchange() == outcome
    else:
        with pytest.raises(OneheadError, match=outcome):
            exchange()
    assert worker.terminated == (outcome != "answer")


def test_an_answer_that_never_comes_ends_on_a_busy_computer_too(monkeypatch):
    monkeypatch.setattr(server_workers, "processor_seconds", lambda pid: 0.0)
    with pytest.raises(OneheadError, match="other programs keep this computer busy"):
        Workers._exchange(None, AnswersLate(60.0), 7, ("report", None), 0.1)


def test_processor_time_of_this_process_is_seen():
    before = server_workers.processor_seconds(os.getpid())
    if before is None:
        pytest.skip("this system has no /proc")
    begin = time.process_time()
    while time.process_time() < begin + 0.2:
        pass
    # clock ticks are a hundredth of a second
    assert 0.15 < server_workers.processor_seconds(os.getpid()) - before < 1.0


def test_a_newer_question_of_the_same_page_supersedes_the_older(explorer):
    slow, _ = read_state({"view": "curve", "best": "1"})
    quick, _ = read_state({"view": "sparse", "sparse_panel": "alignment"})
    ended = []

    def first():
        try:
            explorer.workers.ask("picture", ("curve", slow.values, {}), page="same")
        except Superseded:
            ended.append("superseded")

    thread = threading.Thread(target=first)
    thread.start()
    time.sleep(0.5)
    answer = explorer.workers.ask("picture", ("sparse", quick.values, {}), page="same")
    thread.join(30.0)
    assert ended == ["superseded"]
    assert answer.exact


# --- training


def wait(condition, seconds=90.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def test_training_fills_the_store_and_agrees_with_the_library(tmp_path):
    trainer = Trainer(tmp_path / "runs.sqlite")
    state, _ = read_state(
        {"train_dim": "20", "train_points": "2", "train_seeds": "2", "alpha_from": "0.3", "alpha_to": "2"}
    )
    assert trainer.trained_points(state) == []
    assert trainer.start(state) == ""
    assert "is running" in trainer.start(state)
    wait(lambda: not trainer.status()["running"])
    assert trainer.status()["done"] == trainer.status()["total"] == 4
    points = trainer.trained_points(state)
    axes, _, _ = training_sweep(state)
    assert [point.alpha for point in points] == [round(400 * alpha) / 400 for alpha in axes["alpha"]]  # whole samples
    assert all(point.seeds == 2 and point.error["test_error"] > 0.0 for point in points)
    again = Trainer(tmp_path / "runs.sqlite")  # another start of the program
    assert again.trained_points(state) == points
    assert again.trained_points(state.changed(noise=0.7)) == []
    assert again.start(state) == ""
    wait(lambda: not again.status()["running"])
    assert again.status()["done"] == 4


def test_runs_of_different_heads_are_kept_separate(tmp_path):
    trainer = Trainer(tmp_path / "runs.sqlite")
    training = {"train_dim": "14", "train_points": "1", "train_seeds": "2", "alpha": "2"}
    heads = [
        {"attention": "cross"},
        {"attention": "self", "mask": "causal", "labels": "hard", "weight_decay": "0.1"},
    ]
    states = [read_state(training | head)[0] for head in heads]
    for count, state in enumerate(states, 1):
        assert trainer.start(state) == ""
        wait(lambda: not trainer.status()["running"])
        assert trainer.status()["sentence"] == "Training finished; 2 runs stored."
        assert [len(trainer.trained_points(other)) for other in states] == [1] * count + [0] * (len(states) - count)
    assert trainer.trained_points(read_state(training)[0]) == []
    assert realised_widths(read_state({"attention": "cross", "kappa0": "0.16"})[0], 20) == "κ₀ = 0.15, "


def test_widths_are_rounded_to_whole_rows():
    """At d = 20, κ₀ = 0.16 means 3.2 rows and becomes 3; κ = 0.01 means 0.2 rows and becomes 1."""
    state = read_state({"kappa0": "0.16", "width": "0.01"})[0]
    assert realised_widths(state, 20) == "κ₀ = 0.15, κ = 0.05, "
    assert realised_widths(read_state({})[0], 50) == ""


def test_cancelled_training_keeps_finished_runs(tmp_path):
    trainer = Trainer(tmp_path / "runs.sqlite")
    state, _ = read_state({"train_dim": "30", "train_points": "12", "train_seeds": "10"})
    assert trainer.start(state) == ""
    wait(lambda: trainer.status()["done"] >= 1)
    trainer.cancel()
    status = trainer.status()
    assert not status["running"]
    assert status["sentence"] == f"Cancelled. Finished runs are kept ({status['done']} of {status['total']})."
    points = trainer.trained_points(state)
    assert 1 <= len(points) <= 12
    assert sum(point.seeds for point in points) == status["done"] < status["total"]


def test_cancelled_training_counts_runs_that_were_stored_and_not_reported(tmp_path, monkeypatch):
    trainer = Trainer(tmp_path / "runs.sqlite")
    state, _ = read_state({"train_dim": "14", "train_points": "4", "train_seeds": "2"})
    monkeypatch.setattr("onehead.app.server.training_jobs._receive", lambda job: None)  # no report arrives in time
    assert trainer.start(state) == ""
    wait(lambda: trainer.trained_points(state))
    trainer.cancel()
    stored = sum(point.seeds for point in trainer.trained_points(state))
    assert stored >= 1 and trainer.status()["sentence"] == f"Cancelled. Finished runs are kept ({stored} of 8)."


def test_without_flask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "flask", None)
    from onehead.app.server.application import _flask

    with pytest.raises(MissingExtra, match=r"pip install 'onehead\[app\]'"):
        _flask()
