"""The second study of real transformers, without training: measurements, statistics, verdicts and figures."""

import numpy as np
import pytest
from checks.tool import ASSETS
from safetensors.numpy import save_file
from studies import minilm_tokens
from studies.real_heads.layer import Layer, fading, head_rows, pulled_directions, step_rows, token_columns, whitening
from studies.real_heads.layer_data import LayerData, load_layer, save_layer
from studies.real_heads.layer_fading import adam_courses, descent_heads, run_of
from studies.real_heads.layer_pictures import PICTURES
from studies.real_heads.layer_report import SECTIONS, layer_report, width_exponent
from studies.real_heads.layer_statistics import Estimate, correlation, half_point, mean_of, select
from studies.real_heads.layer_theory import curve, measured_variances, strength
from studies.real_heads.layer_verdicts import VERDICTS
from studies.real_heads.measure import text_columns
from studies.real_heads.runs import LAYER_RUNS, LONG, RUNS, Run
from studies.real_heads.store import MOMENTS, note, renew, token_file
from studies.real_heads.theory import unit
from studies.real_heads.training_times import descent_time, rate_at

from onehead.weights.activations import TokenStatistics

DATA = load_layer(ASSETS)
PLANTED = Run(width=32, penalty=1e-2, steps=8, descent=50.0)


def tokens_of(width, seed=0, strength=1.0):
    rng = np.random.default_rng(seed)
    mean, root = strength * rng.standard_normal(width), rng.standard_normal((width, width))
    return TokenStatistics(mean, root @ root.T / width + np.outer(mean, mean))


def test_token_columns_agree_with_those_of_the_first_study_and_of_the_library():
    rng = np.random.default_rng(1)
    query, key = rng.standard_normal((2, 4, 16))
    tokens = tokens_of(16)
    found = token_columns(query, key, tokens)
    first = text_columns(query, key, np.zeros((2, 16, 16)), tokens.mean, tokens.second_moment, 0.0)
    assert found["unasked"] / (found["asked"] + found["unasked"]) == pytest.approx(first["unasked"])
    u, s, vt = np.linalg.svd(query.T @ key)
    field = (query.T @ key).T @ tokens.mean
    kept = s[0] * (u[:, 0] @ tokens.mean) * vt[0]
    C = tokens.covariance
    assert found["field"] == pytest.approx((kept @ C @ kept) / (field @ C @ field))
    assert found["unasked"] == pytest.approx(field @ C @ field / 4)  # logits are over the root of head_dim
    assert found["part"] == pytest.approx((u[:, 0] @ tokens.mean) ** 2 / (u[:, 0] @ tokens.second_moment @ u[:, 0]))


def test_pulled_directions_are_counted_on_the_other_half_of_the_text():
    rng = np.random.default_rng(2)
    U, V = (np.linalg.qr(rng.standard_normal((30, 6)))[0] for _ in range(2))
    pulls = np.array([5.0, 4.0, 3.0, 1.5, 0.6, 0.3])
    gradient = -(U * pulls) @ V.T + 0.01 * rng.standard_normal((2, 30, 30))
    assert pulled_directions(gradient, 1.0, 8) == 4 and pulled_directions(gradient, 2.0, 8) == 3
    assert pulled_directions(gradient, 0.1, 5) == 5  # not more than the head has directions
    assert pulled_directions(0.2 * rng.standard_normal((2, 30, 30)), 1.0, 8) == 0  # noise alone, largest value 2.2


def test_white_noise_for_white_tokens_has_slope_minus_one():
    rng = np.random.default_rng(3)
    sizes = np.geomspace(1.0, 0.05, 32)
    vectors = np.linalg.qr(rng.standard_normal((32, 32)))[0]
    inverse = (vectors / np.sqrt(sizes)) @ vectors.T
    map_ = inverse @ rng.standard_normal((32, 32)) @ inverse
    U, s, Vt = np.linalg.svd(map_)
    query, key = (U * np.sqrt(s)).T, Vt * np.sqrt(s)[:, None]
    tokens = TokenStatistics(np.zeros(32), (vectors * sizes) @ vectors.T)
    found = whitening(query, key, tokens)
    # 1,024 entries whose logarithms have a standard deviation of 2.2: error 2.2/32/1.25 = 0.055
    assert found["slope"] == pytest.approx(-1.0, abs=0.2)
    assert found["white_distance"] < found["raw_distance"]


def planted_heads(half, power=2.0, runs=6, seed=0, width=64):
    rng = np.random.default_rng(seed)
    return [
        {
            "run": run,
            "width": width,
            "penalty": 1e-3,
            "force": force,
            "left": 16.0 / (1.0 + (strength(1e-3, width, force) / half) ** power),
            "head_dim": 16,
        }
        for run in range(runs)
        for force in np.exp(rng.uniform(-6.0, -1.0, 8))
    ]


def test_half_point_and_its_error():
    rows = planted_heads(1.3)
    exact = half_point(rows, lambda row: row["force"], resamples=5)
    assert exact.value == pytest.approx(np.log(1.3), abs=1e-6) and exact.error < 1e-6
    rng = np.random.default_rng(1)
    rows = [row | {"left": np.clip(row["left"] + rng.normal(0.0, 2.0), 0.0, 16.0)} for row in rows]
    noisy = half_point(rows, lambda row: row["force"], resamples=40)
    assert abs(noisy.value - np.log(1.3)) < 4.0 * noisy.error < 2.0


def test_means_correlations_and_width_exponent():
    assert mean_of([1.0, 2.0, 3.0, float("nan")]) == (2.0, pytest.approx(1.0 / 3.0**0.5))
    rows = planted_heads(1.0)
    assert correlation(rows, "force", "left").value == pytest.approx(1.0)
    found = {width: {"own": Estimate(0.5 * np.log(width), 0.1 * k)} for k, width in enumerate((32, 64, 128), 1)}
    slope = width_exponent(found, "own")
    x, w = np.log([32, 64, 128]), np.array([100.0, 25.0, 100.0 / 9.0])
    assert slope.value == pytest.approx(0.5)
    assert slope.error == pytest.approx(np.sum(w * (x - np.sum(w * x) / w.sum()) ** 2) ** -0.5)


def test_the_scale_of_weight_decay_is_that_of_the_first_study():
    # λ of the theory over the number of samples is unit(tokens)/α times that of a run
    tokens = Run.tokens
    assert strength(1e-3, 128, 1.0) == pytest.approx(1e-3 * unit(tokens) / (tokens / 128**2))


def test_the_curve_of_the_theory_falls_from_one_and_depends_on_the_variance_of_the_logits():
    weak, strong = (curve(32, variance, (0.3, 0.8, 2.0)) for variance in (1.0, 9.0))
    assert weak["share"][0] == 1.0 and weak["share"] == sorted(weak["share"], reverse=True)
    assert strong["information"] < weak["information"] < 1.0  # larger logits saturate the softmax
    assert all(b >= a for a, b in zip(weak["share"], strong["share"], strict=False))
    assert all(own < before for own, before in zip(weak["own"], weak["before"], strict=True))


def test_time_of_descent_is_the_sum_of_its_rates():
    run = Run(steps=40, descent=2.0)
    rates = [rate_at(run, step) / run.rate for step in range(40)]
    assert max(rates) == 1.0 and rates[0] == 0.5 and rates[39] == pytest.approx(0.05)
    assert descent_time(run, 40) == pytest.approx(2.0 * sum(rates)) and descent_time(run, 0) == 0.0


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Measurements of a run whose heads fade by the law of plain descent, with known pulls, and of their values."""
    folder, rng, run = tmp_path_factory.mktemp("store"), np.random.default_rng(0), PLANTED
    renew(run, folder)
    shape = (run.layers, run.heads, 8, run.width)
    left, right = (np.linalg.qr(rng.standard_normal((*shape[:2], run.width, 8)))[0] for _ in range(2))
    pulls = np.linspace(0.9, 0.0, 8) * run.penalty
    values, outputs = rng.standard_normal(shape), rng.standard_normal((run.layers, run.width, run.width))
    for step in run.checkpoints:
        s = np.exp(-2.0 * (run.penalty - pulls) * descent_time(run, step))
        fused = np.stack([np.sqrt(s)[:, None] * side.swapaxes(-1, -2) for side in (left, right)] + [values], axis=1)
        save_file(
            {f"h.{k}.attn.c_attn.weight": fused[k].reshape(-1, run.width) for k in range(run.layers)}
            | {f"h.{k}.attn.c_proj.weight": outputs[k] for k in range(run.layers)},
            run.file(folder, step),
        )
        tokens = tokens_of(run.width)
        found = {f"{k}.{name}": getattr(tokens, name) for k in range(run.layers) for name in ("mean", "second_moment")}
        save_file(found, token_file(run, folder, step))
        line = {"roots": np.full((2, 4), 1e-3).tolist(), "adam_time": np.full((2, 4), 5.0).tolist()}
        note(run, folder, {"step": step, "held": 2.1, "cpu": 2.0} | (line if step else line | {"roots": None}))
    gradient = -np.einsum("lhdi,i,lhei->lhde", left, pulls, right)
    for k in range(run.layers):
        found |= {f"{k}.gradient": np.stack([gradient[k]] * 2), f"{k}.at_zero": np.stack([3.0 * gradient[k]] * 2)}
        found |= {f"{k}.force": np.array([[0.02] * 4, [0.04] * 4]), f"{k}.output": np.stack([np.eye(run.width)] * 2)}
    save_file(found, run.folder(folder) / MOMENTS)
    rows = [*head_rows(run, 0, folder, spectra=False)]
    directions = [direction for _, found in rows for direction in found]
    return LayerData(
        [row for row, _ in rows], directions, [*step_rows(run, 0, folder)], [*fading(run, 0, folder)], {}
    ), Layer(run, fused[0].reshape(-1, run.width), outputs[0])


def test_rates_of_fading_follow_the_pulls(planted):
    data, _ = planted
    for head in descent_heads(data):
        # three directions with the strongest pulls are above the cut; weights are stored in single precision
        assert len(head.slopes) == 8 - head.left > 3
        assert [b for _, b, _ in head.slopes] == pytest.approx([a for a, _, _ in head.slopes], abs=1e-4)
        assert head.measured == pytest.approx(head.predicted, abs=1e-4)


def test_heads_of_a_planted_run(planted):
    data, layer = planted
    row = data.heads[1]
    tokens = tokens_of(32)
    maps = [layer.values(head) for head in range(4)]
    G = np.array([[np.trace(a.T @ b @ tokens.covariance) / 32 for b in maps] for a in maps])
    assert row["gain"] == pytest.approx(G[1, 1])
    others = [abs(G[1, k]) / np.sqrt(G[1, 1] * G[k, k]) for k in (0, 2, 3)]
    assert row["overlap"] == pytest.approx(max(others)) and row["weight"] == pytest.approx(G[1, 1])  # F is one
    assert (row["force"], row["spread"]) == (pytest.approx(0.03), pytest.approx(0.01))
    assert row["pulled"] == np.sum(3.0 * np.linspace(0.9, 0.0, 8) > 1.0)
    assert run_of(row) == PLANTED and row["imbalance"] != 0.0
    assert len(data.steps) == 8 * len(PLANTED.checkpoints) and len(data.fading) == 8 * 8


def test_files_contain_the_measurements(planted, tmp_path):
    made = planted[0]._replace(theory={"halves": {"32": {"own": (0.1, None)}}})
    save_layer(made, tmp_path)
    again = load_layer(tmp_path)
    assert again.theory == {"halves": {"32": {"own": [0.1, None]}}}
    for old, new in zip(made.heads, again.heads, strict=True):
        assert new["force"] == pytest.approx(old["force"], rel=1e-3) and new["slope"] is None  # four digits


def test_the_tables_of_the_page_are_those_of_the_report():
    assert layer_report(DATA) + "\n" == (ASSETS / "real-heads-layer.md").read_text(encoding="utf-8")
    known = {run_of(row) for row in DATA.heads}
    assert known == set(LAYER_RUNS) and len(DATA.heads) == 8 * len(LAYER_RUNS)
    assert all(row == LAYER_RUNS[head["run"]] for head in DATA.heads for row in [run_of(head)])
    assert {run.name for run in RUNS} & {run.name for run in LAYER_RUNS}  # runs of both studies are trained once


@pytest.mark.parametrize("name", VERDICTS)
def test_the_words_of_a_verdict_are_supported_by_its_numbers(name):
    found = VERDICTS[name](DATA)
    assert found.supported and "nan" not in " ".join(map(str, found))


def test_data_files_are_small():
    assert all(file.stat().st_size < 600_000 for file in ASSETS.glob("real-heads-layer*"))


@pytest.mark.parametrize("name", PICTURES)
def test_figures_are_drawn_from_the_files(name):
    assert len(PICTURES[name](DATA).axes) == 3


def test_settings_select_runs():
    usual = select(DATA.heads, width=64, penalty=1e-3)
    assert {(row["value_penalty"], row["decay"], row["descent"], row["steps"]) for row in usual} == {(0, 0, 0, 1024)}
    assert {row["descent"] for row in select(DATA.heads, width=64, penalty=1e-3, steps=4096, descent=2)} == {2}


def test_longer_trainings_are_not_mixed_with_the_usual_ones():
    usual = DATA._replace(heads=[row for row in DATA.heads if row["steps"] == Run.steps])
    assert len(usual.heads) == len(DATA.heads) - 2 * 8
    for name in VERDICTS.keys() - {"lengths", "fades", "imbalance"}:
        assert VERDICTS[name](usual) == VERDICTS[name](DATA), name
    for name in SECTIONS.keys() - {"trained", "fading", "adam", "runs"}:
        assert SECTIONS[name](usual) == SECTIONS[name](DATA), name
    assert measured_variances(usual.heads) == measured_variances(DATA.heads)
    assert {head.steps for head in adam_courses(DATA)} == {Run.steps, LONG}


def test_word_pieces_are_the_longest_of_the_vocabulary():
    words = ["[UNK]", "un", "##able", "##a", "able", "read", "##ing", ".", "_"]
    vocabulary = {word: place for place, word in enumerate(words)}
    assert [words[k] for k in minilm_tokens.word_pieces("Unable reading_. xyz", vocabulary)] == [
        "un", "##able", "read", "##ing", "_", ".", "[UNK]",
    ]  # fmt: skip
