"""The server without a browser: limits, sentences, workers, training, fuzzed requests."""

import csv
import io
import json
import random
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.support.explorer import checkpoint_file, fuzz_request, question

from onehead import aim
from onehead.app.safety import BODY_LIMIT
from onehead.app.state import read_state
from onehead.app.training import Trainer, rounded, training_axes
from onehead.app.work import Stopped, Workers
from onehead.errors import MissingExtra, OneheadError

UPDATE = "/ask/draw"


def ask(client, kind, **query):
    asked = question(query)
    answer = client.post(f"/ask/{kind}", json=asked)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    told = json.loads(answer.get_data())
    assert told["key"] == asked["key"]
    return told.get("figure"), told


def test_every_answer_forbids_what_comes_from_elsewhere(client):
    for path in ("/", "/assets/explorer.js", "/nowhere", "/data.csv?noise=-1"):
        with client.get(path) as answer:
            headers = answer.headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        assert "http" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"


def test_the_page_names_no_other_machine(client):
    page = client.get("/").get_data(as_text=True)
    assert "http://" not in page
    papers = re.findall(r'<a href="(https://[^"]*)" target="_blank" rel="noopener noreferrer">', page)
    assert len(papers) == 2 and all(
        link.startswith("https://arxiv.org/abs/") for link in papers
    )  # links, fetched by nobody
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
def test_a_malformed_question_gets_a_sentence(client, body, code):
    answer = client.post(UPDATE, data=body, content_type="application/json")
    assert answer.status_code == code
    assert json.loads(answer.get_data())["sentence"].endswith(".")


def test_a_bad_value_is_refused_by_its_sentence_and_keeps_the_picture(client):
    figure, told = ask(client, "draw", view="curve", noise="-1")
    assert figure is None
    assert told["wrong"] == {"noise": "noise must be a number >= 0 and <= 1000; got -1.0."}
    _, told = ask(client, "report", view="curve", noise="-1")
    assert told["badge"][0] == "failed"


def test_a_refusal_of_the_library_is_the_picture(client):
    head = {"view": "scaling", "scaling_panel": "decomposition", "attention": "self", "mask": "causal", "dim": "30"}
    _, told = ask(client, "draw", **head)
    sentence = told["refusal"]
    assert "is not split" in sentence
    figure, told = ask(client, "draw", **head)
    assert figure["layout"]["annotations"][0]["text"].replace("<br>", " ") == sentence
    assert figure["data"] == [] and "--attention self" in told["shell"] and told["refusal"] == sentence
    _, told = ask(client, "picture", **head)
    assert told["sentence"] == told["instead"]["refusal"] == sentence and told["instead"]["empty"]


def test_knobs_that_made_room_are_told(client):
    _, told = ask(client, "draw", view="spectrum", mask="strict", labels="hard")
    assert told["moved"] == {"tokens": 3, "loss": "cross-entropy"} and told["wrong"] == {}


def test_a_question_is_answered_by_the_library_s_numbers(client):
    figure, told = ask(client, "draw", view="curve", kappa0="0.4")
    assert figure["layout"]["meta"] == {"by": "alpha", "at": 0.5} and not told["exact"]
    assert told["alt"].startswith("error against sample ratio α = n/d². test error (factorised): ")
    assert "kappa0=0.4" in told["python"]
    _, told = ask(client, "report", view="curve", kappa0="0.4")
    state, _ = read_state({"kappa0": "0.4"})
    point = aim.predict(state.task, state.learner, 0.5)
    assert ["Test error", "", f"{point.test_error:.5g}"] == told["numbers"][0][:3]


def test_rows_come_as_csv(client):
    answer = client.get("/data.csv?view=sparse&sparse_panel=alignment")
    rows = list(csv.DictReader(io.StringIO(answer.get_data(as_text=True))))
    assert len(rows) == 61
    assert float(rows[-1]["cos_query"]) > 0.9
    assert "attachment" in answer.headers["Content-Disposition"]
    assert client.get("/data.csv?noise=-1").status_code == 400


def test_a_checkpoint_is_read_and_leaves_nothing_behind(client, explorer, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "own"
    folder.mkdir()
    data = Path(checkpoint_file(str(folder))).read_bytes()
    answer = client.post("/checkpoint?heads=12&name=../../evil.safetensors", data=data)
    told = json.loads(answer.get_data())
    assert told["heads"] == 144
    assert told["layers"] == 12
    assert [path.name for path in tmp_path.iterdir()] == ["own"]  # the temporary folder is gone
    figure, _ = ask(client, "draw", view="checkpoint", layer="3", head="2", file=told["file"])
    assert np.shape(figure["data"][0]["z"]) == (12, 12)
    rng = np.random.default_rng(0)
    first = {side: rng.standard_normal((384, 384), dtype=np.float32) for side in ("query", "key")}
    A = first["query"][:32].astype(float).T @ first["key"][:32]
    stored = explorer.answers._files[told["file"]]["heads"][0]["singular_values"]
    assert max(stored) == pytest.approx(np.linalg.norm(A, 2), rel=1e-6)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff" * 100, "cannot read"),
        (b"PK\x03\x04" + b"\x00" * 100, "cannot read"),
        (b"\x80\x04\x95" + b"\x00" * 60, "cannot read"),  # a pickle
    ],
)
def test_a_file_that_is_no_checkpoint_gets_a_sentence(client, data, sentence):
    answer = client.post("/checkpoint", data=data)
    assert json.loads(answer.get_data())["sentence"].startswith(sentence)


def test_an_upload_is_limited(client, monkeypatch):
    monkeypatch.setattr("onehead.app.server.UPLOAD_LIMIT", 1000)
    answer = client.post("/checkpoint", data=b"x" * 1001)
    assert answer.status_code == 413
    assert client.post("/checkpoint", data=b"x").status_code == 413


def test_fuzzed_requests_never_break_it(client):
    rng = random.Random(11)
    for _ in range(500):
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
        state, _ = read_state({"view": "curve", "tokens": "16"})  # minutes
        with pytest.raises(OneheadError, match="no answer within 2 s"):
            workers.ask("report", ("curve", state.values, {}), page="a", limit=2.0)
        quick, _ = read_state({"view": "sparse", "sparse_panel": "alignment"})
        assert workers.ask("report", ("sparse", quick.values, {}), page="a", limit=60.0).badge.text == "aligned"
    finally:
        workers.close()


def test_a_newer_question_of_the_same_page_stops_the_older(explorer):
    slow, _ = read_state({"view": "curve", "best": "1"})
    quick, _ = read_state({"view": "sparse", "sparse_panel": "alignment"})
    ended = []

    def first():
        try:
            explorer.workers.ask("picture", ("curve", slow.values, {}), page="same")
        except Stopped:
            ended.append("stopped")

    thread = threading.Thread(target=first)
    thread.start()
    time.sleep(0.5)
    answer = explorer.workers.ask("picture", ("sparse", quick.values, {}), page="same")
    thread.join(30.0)
    assert ended == ["stopped"]
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
    assert trainer.runs(state) == []
    assert trainer.start(state) == ""
    assert "under way" in trainer.start(state)
    wait(lambda: not trainer.look()["running"])
    assert trainer.look()["done"] == trainer.look()["total"] == 4
    runs = trainer.runs(state)
    axes, _, _ = training_axes(state)
    assert [run.alpha for run in runs] == [round(400 * alpha) / 400 for alpha in axes["alpha"]]  # whole samples
    assert all(run.seeds == 2 and run.error["test_error"] > 0.0 for run in runs)
    again = Trainer(tmp_path / "runs.sqlite")  # another start of the program
    assert again.runs(state) == runs
    assert again.runs(state.changed(noise=0.7)) == []
    assert again.start(state) == ""
    wait(lambda: not again.look()["running"])
    assert again.look()["done"] == 4


def test_runs_of_one_head_are_not_those_of_another(tmp_path):
    trainer = Trainer(tmp_path / "runs.sqlite")
    words = {"train_dim": "14", "train_points": "1", "train_seeds": "2", "alpha": "2"}
    heads = [
        {"attention": "cross"},
        {"attention": "self", "mask": "causal"},
        {"attention": "cross", "labels": "hard", "weight_decay": "0.1"},
    ]
    states = [read_state(words | head)[0] for head in heads]
    for count, state in enumerate(states, 1):
        assert trainer.start(state) == ""
        wait(lambda: not trainer.look()["running"])
        assert trainer.look()["sentence"] == "2 runs are in the store."
        assert [len(trainer.runs(other)) for other in states] == [1] * count + [0] * (len(states) - count)
    assert trainer.runs(read_state(words)[0]) == []
    assert rounded(read_state({"attention": "cross", "kappa0": "0.16"})[0], 20) == "κ₀ = 0.15, "


def test_runs_stand_where_their_whole_numbers_put_them():
    """A run of d = 20 has three rows where κ₀ = .16 asks for 3.2, and one where κ = .01 asks for a fifth."""
    state = read_state({"kappa0": "0.16", "width": "0.01"})[0]
    assert rounded(state, 20) == "κ₀ = 0.15, κ = 0.05, "
    assert rounded(read_state({})[0], 50) == ""


def test_cancelled_training_keeps_what_is_done(tmp_path):
    trainer = Trainer(tmp_path / "runs.sqlite")
    state, _ = read_state({"train_dim": "30", "train_points": "12", "train_seeds": "10"})
    assert trainer.start(state) == ""
    wait(lambda: trainer.look()["done"] >= 1)
    trainer.cancel()
    told = trainer.look()
    assert not told["running"]
    assert told["sentence"].startswith("cancelled after")
    assert 1 <= len(trainer.runs(state)) <= 12
    assert told["done"] < told["total"]


def test_without_flask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "flask", None)
    from onehead.app.server import _flask

    with pytest.raises(MissingExtra, match=r"pip install 'onehead\[app\]'"):
        _flask()
