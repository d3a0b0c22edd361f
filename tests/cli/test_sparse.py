"""``onehead sparse``: tables, ranges and files; the golden file checks the JSON."""

import csv
import json
from functools import partial

import pytest


@pytest.fixture
def onehead(onehead):
    """Run a ``sparse`` command."""
    return partial(onehead, "sparse")


def answer(onehead, *arguments):
    """Parsed JSON of a command."""
    code, out, _ = onehead(*arguments, "--json")
    assert code == 0
    return json.loads(out)


@pytest.mark.parametrize(
    ("name", "quantities"),
    [
        ("align", "cos_query cos_readout norm_query norm_readout overlap_query overlap_readout"),
        ("predict", "test_error train_loss train_error cos_query sharpness residual status"),
        ("capacity", "attention pooled vectorised"),
        ("oracle", "softmax hardmax elementwise pooled vectorised bayes"),
    ],
)
def test_tables_list_every_quantity(onehead, name, quantities):
    assert onehead(name, "--json", "--strength", 3)[::2] == (0, "")
    code, out, _ = onehead(name, "--strength", 3)
    assert code == 0
    assert all(quantity in out for quantity in quantities.split())


def test_flags_reach_the_theory(onehead):
    flags = "--length 10 --signal-tokens 3 --strength 6 --positive-rate 0.2 --beta 1 --eta-w 0.5 --eta-b 0.5 --eta-q 1"
    row = answer(onehead, "align", *flags.split(), "--alpha0", 1)
    assert row["cos_query"] == pytest.approx(0.828264, abs=1e-6)
    assert row["norm_query"] == pytest.approx(0.054522, abs=1e-6)
    row = answer(
        onehead, "predict", "--cos-query", 0.9, "--sharpness", 2, "--alpha1", 1.5, "--ridge", 0.01, "--loss", "square"
    )
    assert row["test_error"] == pytest.approx(0.106827, abs=4e-4)
    assert (row["cos_query"], row["sharpness"]) == (0.9, 2.0)
    row = answer(onehead, "predict", "--model", "pooled", "--alpha0", 2, "--alpha1", 2, "--ridge", 1e-5)
    assert row["test_error"] == pytest.approx(0.290769, abs=1e-5)
    assert row["cos_query"] is None
    assert answer(onehead, "predict", "--ridge", "0+", "--loss", "hinge")["status"] == "hard-margin limit"


def test_ranges_keep_their_order(onehead, tmp_path):
    table = tmp_path / "rows.csv"
    rows = answer(onehead, "align", "--alpha0", "4,1,2", "--csv", table)
    assert [row["alpha0"] for row in rows] == [4.0, 1.0, 2.0]
    with table.open() as file:
        assert [float(row["alpha0"]) for row in csv.DictReader(file)] == [4.0, 1.0, 2.0]
    assert isinstance(answer(onehead, "align", "--alpha0", "1:1:1"), dict)
    rows = answer(onehead, "predict", "--model", "all", "--alpha", "1,4", "--ridge", 1e-5, "--loss", "square")
    assert [(row["model"], row["alpha"]) for row in rows] == [
        (model, alpha) for model in ("attention", "pooled", "vectorised") for alpha in (1.0, 4.0)
    ]
    code, out, _ = onehead("predict", "--model", "pooled", "--alpha", "1,4")
    assert code == 0
    assert "alpha" in out


def test_a_collapsed_point_in_a_range_is_a_row(onehead):
    """A readout that collapses to zero is a result with this status, not an error."""
    flags = ["--strength", 0.5, "--positive-rate", 0.15, "--loss", "hinge", "--model", "pooled", "--ridge", 0.001]
    rows = answer(onehead, "predict", *flags, "--alpha", "2,40")
    assert [row["status"].split(":")[0] for row in rows] == ["converged", "collapsed"]


def test_oracle_at_a_billion_tokens_and_with_growing_strength(onehead):
    row = answer(onehead, "oracle", "--length", 10**9, "--strength", 1.2, "--growth", "log")
    assert row["hardmax"] == pytest.approx(0.412, abs=6e-4)
    assert row["softmax"] is None
    rows = answer(onehead, "oracle", "--length", "log:10:100:2", "--growth", "sqrt", "--strength", 1)
    assert [row["length"] for row in rows] == [10, 100]
    assert rows[1]["pooled"] == pytest.approx(0.3085, abs=6e-5)
    assert answer(onehead, "oracle", "--activation", "power")["activation"] == "power"


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("oracle", "--alpha0 --alpha1 --beta --eta-w --eta-b --eta-q --ridge --cos-query --sharpness --loss"),
        ("bayes", "--beta --eta-w --eta-b --eta-q --ridge --cos-query --sharpness --loss"),
        ("amp", "--beta --eta-w --eta-b --eta-q --ridge --cos-query --sharpness --loss"),
        ("align", "--alpha1 --ridge --cos-query --sharpness"),
        ("capacity", "--alpha1 --ridge"),
        ("predict --model pooled", "--beta --eta-w --eta-b --eta-q --cos-query --sharpness"),
        ("train --model vectorised", "--beta --eta-w --eta-b --eta-q --cos-query --sharpness"),
    ],
)
def test_flags_without_effect_are_refused(onehead, command, flags):
    help_text = onehead(*command.split(), "--help")[1]
    for flag in flags.split():
        code, out, error = onehead(*command.split(), flag, "hinge" if flag == "--loss" else 0.5, "--json")
        assert (code, out) == (2, "")
        assert f"{flag} must be left out, because" in error and error.count("\n") == 1
        if "--model" not in command:
            assert f"{flag} " not in help_text


def test_number_of_queries_needs_a_dimension(onehead):
    code, out, error = onehead("predict", "--trials", 4, "--json")
    assert (code, out) == (2, "") and "--trials must be given together with --dim" in error


def test_bayes_reports_the_hard_phase(onehead, tmp_path):
    hard = ["--length", 300, "--strength", 8]
    row = answer(onehead, "bayes", *hard, "--alpha", 0.035)
    keys = "alpha overlap test_error overlap_amp test_error_amp hard status kind floor spinodal information_threshold"
    assert set(keys.split()) <= set(row)
    assert row["hard"] and row["overlap"] == pytest.approx(0.52695, abs=1e-5)
    assert row["information_threshold"] < 0.035 < row["algorithmic_threshold"] == pytest.approx(0.055643, abs=1e-6)
    code, out, _ = onehead("bayes", *hard, "--alpha", 0.035, "--explain")
    assert code == 0 and "Hard phase" in out and "overlap_amp" not in out
    table, picture = tmp_path / "best.csv", tmp_path / "best.png"
    rows = answer(onehead, "bayes", *hard, "--alpha", "log:0.01:0.1:5", "--csv", table, "--plot", picture)
    assert [row["hard"] for row in rows] == [False, True, True, False, False]
    assert len(table.read_text().splitlines()) == 6 and picture.stat().st_size > 1000
    phases = tmp_path / "phases.png"
    assert onehead("bayes", "--strength", 8, "--length", "100,300", "--plot", phases)[0] == 0
    assert phases.stat().st_size > 1000


def test_predict_with_bayes_adds_the_best_possible_error(onehead):
    rows = answer(onehead, "predict", "--model", "pooled", "--alpha", "1,4", "--bayes")
    best = answer(onehead, "bayes", "--alpha", "1,4")
    assert [row["bayes_test_error"] for row in rows] == [row["test_error"] for row in best]
    assert "bayes_test_error" in onehead("predict", "--model", "pooled", "--bayes")[1]
    assert "bayes_test_error" not in answer(onehead, "predict", "--model", "pooled")


def test_amp_agrees_with_its_theory(onehead, tmp_path):
    flags = ["--strength", 3, "--dim", 100, "--trials", 4, "--iterations", 20]
    row = answer(onehead, "amp", *flags, "--alpha", 1)
    assert row["overlap_theory"] == pytest.approx(0.7762, abs=1e-4)
    assert abs(row["overlap"] - row["overlap_theory"]) < 5 * row["overlap_err"] + 0.03  # four runs at d = 100
    assert len(row["steps"]) == 20 and row["kind"] == "measurement"
    code, out, _ = onehead("amp", *flags, "--method", "gibbs", "--start", "truth")
    assert code == 0 and "mean of 4 runs at d = 100" in out
    picture = tmp_path / "runs.png"
    assert onehead("amp", *flags, "--alpha", "0.5,2", "--plot", picture)[0] == 0
    assert picture.stat().st_size > 1000


def test_train_agrees_with_predict(onehead):
    flags = ["--loss", "square", "--ridge", 0.1]
    row = answer(onehead, "train", *flags, "--dim", 100, "--trials", 6, "--seed", 1)
    assert row["kind"] == "measurement"
    assert row == answer(onehead, "train", *flags, "--dim", 100, "--trials", 6, "--seed", 1)
    theory = answer(onehead, "predict", *flags)
    # 6 trials at d = 100: four standard errors and the spread of the alignment
    assert abs(row["test_error"] - theory["test_error"]) < 4 * row["test_error_err"] + 0.01
    code, out, _ = onehead("train", *flags, "--dim", 60, "--trials", 2, "--mode", "tokens", "--test-length", 20)
    assert code == 0
    assert "mean of 2 trials at d = 60" in out


def test_predict_at_finite_dimension_is_a_heuristic(onehead):
    row = answer(onehead, "predict", "--loss", "square", "--alpha0", 0.3, "--dim", 200, "--trials", 4)
    assert row["kind"] == "heuristic"
    assert row["dim"] == 200


def test_longer_test_sequences_have_a_larger_error(onehead):
    same = answer(onehead, "predict", "--loss", "square")
    longer = answer(onehead, "predict", "--loss", "square", "--test-length", 40)
    assert longer["test_error"] > same["test_error"]


def test_map_varies_x_fastest(onehead, tmp_path):
    table = tmp_path / "map.csv"
    flags = ["--positive-rate", 0.2, "--loss", "square"]
    rows = answer(onehead, "map", *flags, "--x", "eta-b=0,4", "--y", "split=0.3:0.7:2", "--csv", table)
    assert [(row["eta_b"], row["split"]) for row in rows] == [(0, 0.3), (4, 0.3), (0, 0.7), (4, 0.7)]
    assert len(table.read_text().splitlines()) == 5
    code, out, _ = onehead("map", *flags, "--x", "eta-b=0", "--y", "beta=2")
    assert code == 0
    assert "pooled_test_error" in out


@pytest.mark.slow
def test_tune_keeps_the_total_number_of_samples(onehead):
    row = answer(onehead, "tune", "--alpha", 2, "--loss", "square")
    assert row["alpha0"] + row["alpha1"] == pytest.approx(2.0)
    code, out, _ = onehead("tune", "--alpha", 2, "--loss", "square")
    assert code == 0
    assert "pooled model with its own best ridge" in out


def test_every_command_draws_a_picture(onehead, tmp_path):
    for k, command in enumerate(
        [
            ["align", "--alpha0", "log:0.1:10:5"],
            ["predict", "--alpha", "1,2", "--model", "all", "--loss", "square"],
            ["capacity", "--cos-query", "0,0.4", "--sharpness", 1, "--strength", 2],
            ["oracle", "--length", "5,10"],
            ["map", "--x", "eta-b=0,4", "--y", "ridge=0.01,0.1", "--loss", "square", "--positive-rate", 0.2],
        ]
    ):
        picture = tmp_path / f"{k}.png"
        code, out, err = onehead(*command, "--json", "--plot", picture)
        assert code == 0
        json.loads(out)
        assert picture.read_bytes()[:4] == b"\x89PNG"
        assert "wrote" in err


def test_compare_has_a_row_for_every_dimension_and_the_limit(onehead, tmp_path):
    flags = ["--model", "pooled", "--alphas", "1,2", "--dims", "30,40", "--trials", 2]
    rows = answer(onehead, "compare", *flags, "--plot", tmp_path / "p.png")
    assert [(row["alpha"], row["dim"]) for row in rows] == [(a, d) for a in (1, 2) for d in (30, 40, None)]
    assert all({"test_error", "test_error_theory", "test_error_z"} <= set(row) for row in rows)
    assert (tmp_path / "p.png").exists()


def test_data_reports_the_samples_needed(onehead):
    row = answer(onehead, "data", "--error", 0.25, "--model", "pooled", "--loss", "square", "--dim", 100)
    assert {"alpha", "ridge", "best_possible_alpha", "samples", "status", "kind"} <= set(row)
    assert row["samples"] == pytest.approx(100 * row["alpha"], abs=1.0)
    row = answer(onehead, "data", "--error", 0.2, "--model", "pooled", "--loss", "square")
    assert row["alpha"] is None and row["samples"] is None and row["status"].startswith("out of reach")
    code, out, _ = onehead("data", "--error", 0.25, "--model", "pooled", "--explain")
    assert code == 0 and "The best possible learner needs" in out


def test_predict_explains_nearly_uniform_attention(onehead):
    code, out, _ = onehead("predict", "--length", 100, "--explain")
    assert code == 0 and "nearly uniform" in out
