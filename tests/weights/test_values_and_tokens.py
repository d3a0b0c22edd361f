"""Values and outputs of heads, statistics of tokens, directions that suffice, advice: against dense computations."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from onehead.errors import InvalidArgument
from onehead.weights import head_report, read_activations, survey, unasked_part
from onehead.weights.activations import TokenStatistics

HIDDEN, HEADS, SIZE = 24, 3, 8


def layer_weights(seed=0, groups=HEADS):
    """Return query, key, value (heads, size, hidden) and output (heads, hidden, size)."""
    rng = np.random.default_rng(seed)
    return (*(rng.standard_normal((count, SIZE, HIDDEN)) for count in (HEADS, groups, groups)),
            rng.standard_normal((HEADS, HIDDEN, SIZE)))  # fmt: skip


def dense_overlaps(value, output, covariance=None):
    """Return G_hk = tr(V_h'V_k C)/d from hidden x hidden matrices."""
    share = HEADS // len(value)
    maps = [output[h] @ value[h // share] for h in range(HEADS)]
    C = np.eye(HIDDEN) if covariance is None else covariance
    return np.array([[np.trace(a.T @ b @ C) / HIDDEN for b in maps] for a in maps])


def rows(*parts):
    return np.concatenate([part.reshape(-1, HIDDEN) for part in parts])


def llama(query, key, value, output):
    name = "model.layers.0.self_attn.{}_proj.weight"
    columns = np.concatenate(list(output), axis=1)
    return dict(zip(map(name.format, "qkvo"), (rows(query), rows(key), rows(value), columns), strict=True))


def gpt2(query, key, value, output):
    columns = np.concatenate(list(output), axis=1)
    return {"h.0.attn.c_attn.weight": rows(query, key, value).T, "h.0.attn.c_proj.weight": columns.T}


def neox(query, key, value, output):
    fused = np.concatenate([query[:, None], key[:, None], value[:, None]], axis=1)
    columns = np.concatenate(list(output), axis=1)
    prefix = "gpt_neox.layers.0.attention"
    return {f"{prefix}.query_key_value.weight": rows(fused), f"{prefix}.dense.weight": columns}


@pytest.mark.parametrize(("pack", "groups"), [(llama, HEADS), (llama, 1), (gpt2, HEADS), (neox, HEADS)])
def test_gains_and_overlaps_equal_the_dense_computation(pack, groups):
    weights = layer_weights(groups=groups)
    table = survey(pack(*weights), head_count=HEADS, fit=False)
    G = dense_overlaps(*weights[2:])
    assert [row.value_gain for row in table] == pytest.approx(np.diag(G))
    rho = G / np.sqrt(np.outer(np.diag(G), np.diag(G)))
    np.testing.assert_allclose([row.value_overlaps for row in table], rho, atol=1e-12)


def test_decoupling_of_heads_is_told_with_its_caution():
    query, key, value, output = layer_weights()
    value[:], output[:] = 0.0, 0.0
    for h in range(HEADS):  # disjoint subspaces of the outputs
        value[h], output[h, h * SIZE : (h + 1) * SIZE] = np.eye(SIZE, HIDDEN), np.eye(SIZE)
    apart = survey(llama(query, key, value, output), head_count=HEADS, fit=False)
    assert any("|ρ| = 0.00: these heads decouple" in text and "within a layer only" in text for text in apart.advice)
    output[1] = output[0]
    together = survey(llama(query, key, value, output), head_count=HEADS, fit=False)
    assert any("at most 1.00: these heads do not decouple" in text for text in together.advice)
    assert (
        survey(dict(list(llama(query, key, value, output).items())[:2]), head_count=HEADS, fit=False).advice[1:] == ()
    )


def tokens(seed=1, strength=2.0):
    rng = np.random.default_rng(seed)
    mean, root = strength * rng.standard_normal(HIDDEN), rng.standard_normal((HIDDEN, HIDDEN))
    return TokenStatistics(mean, root @ root.T / HIDDEN + np.outer(mean, mean))


def test_unasked_share_is_that_of_sampled_logits():
    """Variance over keys of the mean over queries, over the variance over keys of one row."""
    rng, (query, key, *_), found = np.random.default_rng(2), layer_weights(), tokens()
    root = np.linalg.cholesky(found.covariance)
    samples = 4000
    x, y = (found.mean + rng.standard_normal((samples, HIDDEN)) @ root.T for _ in range(2))
    logits = (x @ query[0].T) @ (y @ key[0].T).T
    within = logits - logits.mean(axis=1, keepdims=True)
    shared = within.mean(axis=0)
    fields = unasked_part(query[0], key[0], found)
    # 4,000 queries and keys: relative errors of a few times 1/sqrt(4000)
    assert fields["logit_variance"] == pytest.approx(np.mean(within**2), rel=0.1)
    assert fields["unasked_share"] == pytest.approx(np.mean(shared**2) / np.mean(within**2), abs=0.05)


def test_unasked_parts_equal_the_dense_computation():
    (query, key, *_), found = layer_weights(), tokens()
    A = query[0].T @ key[0]
    U, _, Vt = np.linalg.svd(A)
    fields = unasked_part(query[0], key[0], found)
    parts = [(found.mean @ u) ** 2 / (u @ found.second_moment @ u) for u in U[:, :SIZE].T]
    assert fields["unasked_parts"] == pytest.approx(parts)
    field = A.T @ found.mean
    assert fields["unasked_first"] == pytest.approx((field @ Vt[0]) ** 2 / (field @ field))
    C = found.covariance
    assert fields["logit_variance"] == pytest.approx(np.trace(A @ C @ A.T @ found.second_moment))
    roots = [np.linalg.cholesky(matrix) for matrix in (found.second_moment, C)]
    shares = np.linalg.svd(roots[0].T @ A @ roots[1], compute_uv=False) ** 2
    assert fields["logit_directions_90"] == np.searchsorted(np.cumsum(shares), 0.9 * shares.sum()) + 1


def test_activations_enter_a_survey_and_its_advice(tmp_path):
    weights, found = layer_weights(), tokens(strength=20.0)
    save_file({"0.mean": found.mean, "0.second_moment": found.second_moment}, tmp_path / "tokens.safetensors")
    table = survey(llama(*weights), head_count=HEADS, fit=False, activations=tmp_path / "tokens.safetensors")
    G = dense_overlaps(*weights[2:], covariance=found.covariance)
    assert [row.value_gain for row in table] == pytest.approx(np.diag(G))
    assert all(row.unasked_share > 0.9 for row in table)  # of tokens that are almost all mean
    assert any("a preference for keys that all queries share" in text for text in table.advice)
    strongest = max(table, key=lambda row: row.unasked_parts[0])
    assert "a preference for keys that all queries share" in strongest.advice


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.ones(3)},
        {"0.mean": np.ones(3)},
        {"0.mean": np.ones(3), "0.second_moment": np.ones((2, 2))},
        {"0.mean": np.full(3, np.nan), "0.second_moment": np.eye(3)},
        {"0.mean": np.full(3, 5.0), "0.second_moment": np.eye(3)},
    ],
)
def test_invalid_activations_are_refused(arrays):
    with pytest.raises(InvalidArgument, match="activations must be"):
        read_activations(arrays)


def test_activations_of_another_size_are_refused():
    with pytest.raises(InvalidArgument, match="tokens of 24 dimensions"):
        survey(
            llama(*layer_weights()), head_count=HEADS, activations={"0.mean": np.zeros(3), "0.second_moment": np.eye(3)}
        )


def test_vectors_of_outliers_are_their_singular_vectors():
    rng = np.random.default_rng(3)
    query, key = rng.standard_normal((2, 32, 96))
    query[0] += 60.0 * np.eye(96)[4]
    key[0] += 60.0 * np.eye(96)[7]
    (outlier,) = head_report(query, key, fit=False, vectors=True).outliers
    U, values, Vt = np.linalg.svd(query.T @ key)
    sides = np.array(outlier["query_vector"]), np.array(outlier["key_vector"])
    assert abs(sides[0] @ U[:, 0]) == pytest.approx(1.0) and abs(sides[1] @ Vt[0]) == pytest.approx(1.0)
    assert sides[0] @ query.T @ key @ sides[1] == pytest.approx(values[0])  # signs belong together
    assert "query_vector" not in head_report(query, key, fit=False).outliers[0]


def test_how_many_directions_suffice():
    values = np.array([3.0, 1.0, 1.0, 0.2])
    root = np.sqrt(values)
    report = head_report(np.diag(root), np.diag(root), fit=False)
    # 9, 10, 11 and 11.04 of 11.04: 90 % = 9.94, 99 % = 10.93
    assert (report.directions_90, report.directions_99) == (2, 3)
    assert report.sufficient.startswith("2 of 4 directions carry 90 %")
    assert report.sufficient in " ".join(report.explain().split())


def test_the_command_reads_activations_and_vectors(onehead, tmp_path):
    weights, found = layer_weights(), tokens()
    save_file({name: np.ascontiguousarray(W) for name, W in llama(*weights).items()}, tmp_path / "model.safetensors")
    save_file({"0.mean": found.mean, "0.second_moment": found.second_moment}, tmp_path / "tokens.safetensors")
    line = ("weights", tmp_path / "model.safetensors", "--heads", HEADS, "--no-fit", "--vectors")
    code, out, _ = onehead(*line, "--activations", tmp_path / "tokens.safetensors", "--json")
    row = json.loads(out)[0]
    assert code == 0 and 0.0 < row["unasked_share"] < 1.0 and len(row["value_overlaps"]) == HEADS and "advice" in row
    code, out, err = onehead(*line, "--activations", tmp_path / "gone.safetensors")
    assert (code, out) == (2, "") and err.count("\n") == 1


def test_the_force_on_the_logits_gives_the_scale_of_weight_decay(tmp_path):
    weights, found = layer_weights(), tokens()
    force = np.linspace(0.01, 0.04, HEADS)
    arrays = {"0.mean": found.mean, "0.second_moment": found.second_moment, "0.logit_force": force}
    save_file(arrays, tmp_path / "tokens.safetensors")
    table = survey(llama(*weights), head_count=HEADS, fit=False, activations=tmp_path / "tokens.safetensors")
    assert [row.logit_force for row in table] == pytest.approx(force)
    assert [row.decay_scale for row in table] == pytest.approx(force / np.sqrt(HIDDEN * SIZE))
    (sentence,) = (text for text in table.advice if "force of the loss" in text)
    assert f"from {table[0].decay_scale:.2g} to {table[-1].decay_scale:.2g}" in sentence
    without = survey(llama(*weights), head_count=HEADS, fit=False)
    assert without[0].logit_force is None and not any("force of the loss" in text for text in without.advice)


@pytest.mark.parametrize("force", [np.full(HEADS, -1.0), np.ones((HEADS, 2)), np.full(HEADS, np.inf)])
def test_invalid_forces_are_refused(force):
    found = tokens()
    arrays = {"0.mean": found.mean, "0.second_moment": found.second_moment, "0.logit_force": force}
    with pytest.raises(InvalidArgument, match="one number of at least 0 for every head"):
        read_activations(arrays)


def test_fewer_forces_than_heads_are_refused():
    found = tokens()
    arrays = {"0.mean": found.mean, "0.second_moment": found.second_moment, "0.logit_force": np.ones(HEADS - 1)}
    with pytest.raises(InvalidArgument, match=f"head {HEADS - 1} as well"):
        survey(llama(*layer_weights()), head_count=HEADS, fit=False, activations=arrays)
