"""The study of real transformers, without training: its text corpus, its store, its measurements and its report."""

import json
import sys

import numpy as np
import pytest
from checks.tool import ASSETS
from safetensors.numpy import save_file
from studies.real_heads.__main__ import MISSING, train_all
from studies.real_heads.corpus import PIECE, VOCABULARY, corpus, encode, held_out, sources
from studies.real_heads.data import Data, load, save
from studies.real_heads.measure import directions, final_heads, steps, text_columns
from studies.real_heads.pictures import PICTURES
from studies.real_heads.report import report
from studies.real_heads.runs import RUNS, Run
from studies.real_heads.store import LOG, MOMENTS, STATE, finished, log, note, progress, renew

PLANTED = Run(width=64, tokens=4096, penalty=1e-3, steps=4)
RANK = 5


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Folder with forty files, held-out ones of one letter and others of another, and files to be ignored."""
    root = tmp_path_factory.mktemp("library")
    for number in range(40):
        name = f"part{number % 3}/file{number}.py"
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(("h" if held_out(name) else "t") * (PIECE + 100 * number))
    for name in ("test/test_it.py", "part0/tests/deep.py", "site-packages/other.py", "part1/notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x" * 5000)
    return root


def test_held_out_files_are_not_trained_on(library):
    found = corpus(30_000, 3000, library)
    letters = {name: encode(name.encode())[0] for name in "htx"}
    assert set(found.train) == {0, letters["t"]} and set(found.held) == {0, letters["h"]}
    assert len(sources(library)) == 40


def test_the_text_is_reproducible_and_a_shorter_text_is_the_start_of_a_longer_one(library):
    more, fewer = corpus(30_000, 3000, library), corpus(500, 100, library)
    assert (corpus(30_000, 3000, library).train == more.train).all()
    assert (more.train[:500] == fewer.train).all() and (more.held[:100] == fewer.held).all()


def test_the_standard_library_has_enough_text():
    found = corpus(max(run.tokens for run in RUNS), 65_536)
    assert found.train.min() >= 0 and found.train.max() < VOCABULARY
    assert np.mean(found.train == 0) < 0.01  # one end of a piece per 1,024 bytes, and sources are printable


def test_too_little_text_is_refused_in_one_sentence(library):
    with pytest.raises(SystemExit, match=r"tokens of Python sources to train on, this study needs 10000000\.$"):
        corpus(10_000_000, 100, library)


def test_every_character_has_its_own_token():
    text = bytes([10, *range(32, 127)])
    assert sorted(encode(text)) == list(range(1, VOCABULARY)) and encode(b"\x00\xff\t").tolist() == [0, 0, 0]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Store with one run, whose heads are random at first and of rank 5 at a minimum of a penalised loss at the end."""
    folder, rng = tmp_path_factory.mktemp("store"), np.random.default_rng(0)
    run, p = PLANTED, PLANTED.width // PLANTED.heads
    renew(run, folder)
    for step in run.checkpoints:
        weights = rng.uniform(-1.0, 1.0, (run.layers, 3, run.heads, p, run.width)) / run.width**0.5
        gradient = np.zeros((run.layers, 2, run.heads, run.width, run.width))
        if step == run.steps:
            for layer in range(run.layers):
                for head in range(run.heads):
                    U, V = (np.linalg.qr(rng.standard_normal((run.width, RANK)))[0] for _ in range(2))
                    roots = np.sqrt(np.geomspace(2.0, 0.5, RANK))
                    # any rotation in the space of dimension head_dim gives the same map
                    rotation = np.linalg.qr(rng.standard_normal((p, RANK)))[0]
                    weights[layer, :2, head] = rotation @ (roots[:, None] * U.T), rotation @ (roots[:, None] * V.T)
                    gradient[layer, :, head] = -run.penalty * U @ V.T
            tensors = {f"{layer}.gradient": gradient[layer] for layer in range(run.layers)}
            tensors |= {f"{layer}.mean": np.zeros(run.width) for layer in range(run.layers)}
            tensors |= {f"{layer}.second_moment": np.eye(run.width) for layer in range(run.layers)}
            save_file(tensors, run.folder(folder) / MOMENTS)
        fused = weights.astype(np.float32).reshape(run.layers, 3 * run.width, run.width)
        save_file(
            {f"h.{layer}.attn.c_attn.weight": fused[layer] for layer in range(run.layers)}, run.file(folder, step)
        )
        note(run, folder, {"step": step, "train": 2.0, "held": 2.1, "gradient": 1e-3, "wall": 3.0, "cpu": 2.0})
    return folder


def test_verdicts_and_directions_left_of_a_planted_run(store):
    rows = steps(PLANTED, store)
    assert len(rows) == 8 * len(PLANTED.checkpoints)
    first, last = ([row for row in rows if row["step"] == step] for step in (0, PLANTED.steps))
    assert {row["verdict"] for row in first} == {"noise"} and {row["left"] for row in first} == {16}
    assert {row["verdict"] for row in last} == {"low rank"} and {row["left"] for row in last} == {RANK}


def test_pull_and_imbalance_at_the_minimum_of_a_penalised_loss(store):
    for row in final_heads(PLANTED, store):  # weights are stored in single precision, 1e-7
        assert row["pull"] == pytest.approx(PLANTED.penalty, rel=1e-5)
        assert row["pull_spread"] < 1e-5 * PLANTED.penalty and row["most"] == pytest.approx(PLANTED.penalty, rel=1e-5)
        assert row["imbalance"] < 1e-5 and row["unasked"] == 0.0 and row["dimension"] == pytest.approx(64.0)
        assert row["even_share"] == pytest.approx(row["share"], abs=1e-6)  # tokens are isotropic here
        assert (row["train"], row["held"], row["cpu"]) == (2.0, 2.1, 2.0)
    found = list(directions(PLANTED, store))
    assert len(found) == 8 * 16 and [row["value"] for row in found[:RANK]] == pytest.approx(
        np.geomspace(2.0, 0.5, RANK)
    )
    assert all(abs(row["pull"]) < 1e-9 for row in found if row["place"] >= RANK)


def test_the_part_of_the_logits_common_to_all_queries_agrees_with_sampling():
    rng = np.random.default_rng(1)
    Q, K = rng.standard_normal((2, 4, 8))
    factor, mean = rng.standard_normal((8, 8)), 3.0 * rng.standard_normal(8)
    covariance = factor @ factor.T
    found = text_columns(Q, K, np.zeros((2, 8, 8)), mean, covariance + np.outer(mean, mean), 0.0)
    queries, keys = (mean + rng.standard_normal((4000, 8)) @ factor.T for _ in range(2))
    logits = queries @ Q.T @ K @ keys.T
    logits -= logits.mean(axis=1, keepdims=True)
    common = logits.mean(axis=0).var() / logits.var()
    # both variances and the mean over queries have relative errors of a few times 4000^-1/2
    assert found["unasked"] == pytest.approx(common, abs=0.06) and 0.05 < common < 0.95


def test_a_run_with_other_settings_is_not_finished(store, tmp_path):
    assert finished(PLANTED, store) and not finished(PLANTED, tmp_path)
    other = Run(width=64, tokens=4096, penalty=1e-3, steps=4, rate=1e-3)  # same folder, other rate
    assert other.folder(store) == PLANTED.folder(store) and not finished(other, store)


def test_an_interrupted_run_continues_from_the_last_complete_state(tmp_path):
    run = PLANTED
    assert progress(run, tmp_path) is None
    renew(run, tmp_path)
    state = run.folder(tmp_path) / STATE
    row = {"step": 2, "wall": 1.0, "cpu": 1.0}
    save_file({"a": np.zeros(2)}, state, {"row": json.dumps(row)})  # interrupted before the line of the log
    with (run.folder(tmp_path) / LOG).open("a") as file:
        file.write('{"step": 0}\n{"step"')
    assert progress(run, tmp_path) == row
    state.write_bytes(state.read_bytes()[:20])
    assert progress(run, tmp_path) is None


def test_of_repeated_rows_of_the_log_the_last_counts(tmp_path):
    renew(PLANTED, tmp_path)
    for step, held in ((0, 4.0), (2, 3.0), (2, 2.9)):
        note(PLANTED, tmp_path, {"step": step, "held": held})
    assert [(row["step"], row["held"]) for row in log(PLANTED, tmp_path)] == [(0, 4.0), (2, 2.9)]


def test_without_pytorch_the_message_says_how_to_install_it(tmp_path, store, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SystemExit) as refused:
        train_all((PLANTED,), tmp_path, 1)
    assert str(refused.value) == MISSING and MISSING.endswith(f"{sys.executable} -m pip install torch")
    train_all((PLANTED,), store, 1)  # all runs are finished, so PyTorch is not needed


def test_files_contain_the_measurements(store, tmp_path):
    made = Data(steps(PLANTED, store), final_heads(PLANTED, store), [*directions(PLANTED, store)], {"python": "3"})
    save(made, tmp_path)
    again = load(tmp_path)
    assert again.theory == made.theory and [len(rows) for rows in again[:3]] == [len(rows) for rows in made[:3]]
    for old, new in zip(made.final, again.final, strict=True):
        assert old.keys() == new.keys() and new["verdict"] == old["verdict"] and new["law"] == old["law"]
        assert new["share"] == pytest.approx(old["share"], rel=1e-3)  # four digits


def test_the_tables_of_the_page_are_those_of_the_report():
    data = load(ASSETS)
    assert report(data) + "\n" == (ASSETS / "real-heads.md").read_text(encoding="utf-8")
    assert len(data.final) == 8 * len(RUNS)


@pytest.mark.parametrize("name", PICTURES)
def test_figures_are_drawn_from_the_files(name):
    assert len(PICTURES[name](load(ASSETS)).axes) == 3
