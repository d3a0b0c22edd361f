"""``aim train``, ``aim amp`` and ``aim compare``."""

import json

import numpy as np

SMALL = ("--dim", 20, "--alpha", 1)


def test_train_writes_runs_and_a_picture(onehead, tmp_path):
    files = ("--csv", tmp_path / "r.csv", "--plot", tmp_path / "p.png")
    assert json.loads(onehead("aim", "train", *SMALL, "--seeds", 2, "--json", *files).stdout)["seconds"] > 0.0
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 3
    assert (tmp_path / "p.png").exists()
    text = onehead(
        "aim", "train", *SMALL, "--seeds", 2, "--untied", "--averaged-heads", 2, "--token-law", "sphere"
    ).stdout
    assert "verdict" in text
    assert "untied" in text


def test_train_predicts_for_the_width_that_was_trained(onehead):
    """Width 0.01 at d = 20 is rounded to one row, κ = 0.05; the prediction is for this width."""
    command = ("aim", "train", "--width", 0.01, "--dim", 20, "--alpha", 0.333, "--seeds", 2)
    found = json.loads(onehead(*command, "--json").stdout)
    assert (found["trained_width"], found["trained_alpha"], found["trained_kappa0"]) == (0.05, 133 / 400, 0.5)
    predicted = {item["quantity"]: item["predicted"] for item in found["agreement"]}
    own = json.loads(onehead("aim", "predict", "--width", 0.05, "--alpha", 133 / 400, "--json").stdout)
    assert predicted["test_error"] == own["test_error"]
    assert "width 0.05 (a whole number of rows" in " ".join(onehead(*command).stdout.split())


def test_train_and_compare_take_several_heads(onehead, refused, tmp_path):
    layer = ("--attention", "cross", "--heads", 2, "--sharing", 0.5, "--seeds", 2)
    found = json.loads(onehead("aim", "train", *SMALL, *layer, "--json", "--plot", tmp_path / "p.png").stdout)
    compared = {item["quantity"] for item in found["agreement"]}
    assert {"q_cross", "m_cross", "head_error"} <= compared and found["value_scale"] == [1.0, 1.0]
    command = ("aim", "compare", *layer, "--alphas", "0.5,1,2", "--dims", "12")
    rows = json.loads(onehead(*command, "--json", "--plot", tmp_path / "c.png").stdout)
    assert all({"q_cross_theory", "m_cross_z", "head_error"} <= set(row) for row in rows)
    assert "--averaged-heads" in refused("aim", "train", *SMALL, *layer, "--averaged-heads", 2)


def test_gradient_descent_lies_beside_the_spectrum_at_a_time(onehead, refused, tmp_path):
    command = ("aim", "spectrum", "--attention", "cross", "--weight-decay", 0.3, "--alpha", 1)
    run = (*command, "--time", 2, "--train", "--dim", 12)
    found = json.loads(onehead(*run, "--json", "--plot", tmp_path / "p.png").stdout)
    assert len(found["trained"]["values"][0]) == 12 and found["trained"]["rank_above"][0] > 0.0
    assert "gradient descent, d = 12" in onehead(*run).stdout
    assert "--train needs --time, and --dim" in refused(*command, "--train", "--dim", 12, code=2)


def test_survivors_are_trained(onehead, refused):
    command = ("aim", "survivors", "--alpha", 2, "--weight-decay", 0.1, "--train")
    trained = json.loads(onehead(*command, "--dim", 12, "--json").stdout)["trained"]
    assert len(trained) == 3 and {"start", "alive", "objective", "scales"} <= set(trained[0])
    assert "trained from one head" in onehead(*command, "--dim", 12).stdout
    assert "--train needs --dim" in refused(*command, code=2)


def test_train_takes_tokens_from_a_file(onehead, refused, tmp_path):
    path = tmp_path / "tokens.npy"
    np.save(path, np.random.default_rng(0).standard_normal((300, 20)))
    answer = onehead("aim", "train", *SMALL, "--seeds", 1, "--token-law", path, "--float32", "--json")
    assert json.loads(answer.stdout)["setting"].startswith("rows tokens")
    np.save(path, np.full((300, 20), np.nan))
    assert "finite" in refused("aim", "train", *SMALL, "--token-law", path)
    path.write_bytes(b"not an array")
    assert "npy file of numbers" in refused("aim", "train", *SMALL, "--token-law", path)


def test_amp_has_a_row_for_every_iteration(onehead, tmp_path):
    answer = onehead("aim", "amp", *SMALL, "--iterations", 4, "--json", "--plot", tmp_path / "p.png")
    assert len(json.loads(answer.stdout)) == 5
    assert "q_theory" in onehead("aim", "amp", *SMALL, "--iterations", 2, "--csv", tmp_path / "r.csv").stdout


def test_compare_has_a_row_for_every_dimension_and_the_limit(onehead, tmp_path):
    command = ("aim", "compare", "--alphas", "1,2", "--dims", "16,20", "--seeds", 2)
    rows = json.loads(onehead(*command, "--json", "--csv", tmp_path / "r.csv").stdout)
    assert [row["dim"] for row in rows] == [16, 20, None] * 2
    assert "∞" in onehead(*command, "--plot", tmp_path / "p.png").stdout


def test_trained_heads_of_one_dimension_are_drawn_on_a_learning_curve(onehead, tmp_path):
    """A picture over 1/d needs several dimensions; the legend of the SVG tells the two apart."""
    command = ("aim", "compare", "--alphas", "0.5,1,2", "--seeds", 2, "--plot", tmp_path / "p.svg")
    drawn = {}
    for dims in ("16", "16,20"):
        assert onehead(*command, "--dims", dims).returncode == 0
        drawn[dims] = (tmp_path / "p.svg").read_text()
    assert "trained (d = 16, 2 seeds)" in drawn["16"] and "trained (d" not in drawn["16,20"]


def test_several_heads_of_a_tied_task_name_what_averages_attention(refused):
    assert "--averaged-heads" in refused("aim", "train", *SMALL, "--heads", 2)
