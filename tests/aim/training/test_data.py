"""Random data: laws of tokens, targets and labels; results do not depend on chunks or memory."""

from itertools import product

import numpy as np
import pytest

from onehead.aim.targets import Atoms, MarchenkoPastur, Product
from onehead.aim.task import Task
from onehead.aim.training.data import Samples, Tokens, labels, softmax_rows

LAWS = ("gaussian", "rademacher", "sparse", "sphere", "heavy-tailed")
# excess kurtosis of an entry: normal 0, signs -2, a tenth of normal entries 3/0.1 - 3, t with 5 degrees 6
KURTOSIS = {"gaussian": 3.0, "rademacher": 1.0, "sparse": 30.0, "heavy-tailed": 9.0}


HEADS = list(product(("tied", "self", "cross"), ("none", "causal", "strict")))


def samples(count=700, dim=10, tokens=2, law="gaussian", seed=1, task=None, **options):
    task = task or Task(tokens=tokens)
    target = task.target.draw(dim, np.random.default_rng(0), tied=task.tied)
    return Samples(task=task, target=target, count=count, law=Tokens(law), seed=np.random.SeedSequence(seed), **options)


@pytest.mark.parametrize("law", LAWS)
def test_entries_have_mean_zero_and_variance_one(law):
    x = Tokens(law).draw(np.random.default_rng(0), 2, 20_000, 10).reshape(-1, 10)
    # the mean of N entries has standard error sqrt(1/N), the mean square sqrt((kurtosis - 1)/N); five of them
    error = 5.0 / np.sqrt(x.size)
    assert abs(x.mean()) < error
    assert abs((x**2).mean() - 1.0) < error * np.sqrt(max(KURTOSIS.get(law, 3.0) - 1.0, 1.0))
    assert np.abs(np.corrcoef(x.T) - np.eye(10)).max() < 5.0 * np.sqrt(30.0 / len(x))


def test_kurtosis_of_the_laws():
    for law, kurtosis in KURTOSIS.items():
        if law == "heavy-tailed":  # its eighth moment is infinite: the sample kurtosis has no standard error
            continue
        x = Tokens(law).draw(np.random.default_rng(1), 1, 40_000, 10)
        # var(x^4)^(1/2) is at most 320 for the sparse law; five standard errors of the mean of 4e5 entries
        assert abs((x**4).mean() - kurtosis) < 5.0 * 320.0 / np.sqrt(x.size)


def test_tokens_on_a_sphere_and_correlated_tokens():
    x = Tokens("sphere").draw(np.random.default_rng(0), 2, 50, 7)
    np.testing.assert_allclose(np.sum(x**2, axis=-1), 7.0)
    x = Tokens("gaussian", correlation=0.4).draw(np.random.default_rng(0), 3, 40_000, 5)
    for a, b in ((0, 1), (1, 2)):
        # a product of two unit normals has a standard deviation below sqrt 2
        assert abs((x[a] * x[b]).mean() - 0.4) < 5.0 * np.sqrt(2.0 / x[a].size)


def test_tokens_from_an_array_have_its_correlations():
    rng = np.random.default_rng(0)
    rows = 3.0 + rng.standard_normal((500, 4)) * np.array([1.0, 2.0, 3.0, 4.0])
    law = Tokens(rows)
    assert law.rows is not None
    np.testing.assert_allclose(law.rows.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose((law.rows**2).mean(), 1.0)
    np.testing.assert_allclose(np.corrcoef(law.rows.T), np.corrcoef(rows.T))
    sampled = law.draw(rng, 2, 30, 4).reshape(-1, 4)
    assert all(np.any(np.all(np.isclose(law.rows, row), axis=1)) for row in sampled)


def test_sampled_targets_have_the_right_spectra():
    S = MarchenkoPastur(kappa0=0.25).draw(200, np.random.default_rng(0), tied=True)
    values = np.linalg.eigvalsh(S)
    assert np.sum(values > 1e-9) == 50
    # Tr S/d fluctuates by about sqrt(2)/d and Tr S²/d by a few times that
    assert abs(values.mean() - 0.5) < 5.0 * np.sqrt(2.0) / 200.0
    assert abs((values**2).mean() - 1.25) < 0.1
    atoms = (2.0, 1.0, 0.5, 0.0, 0.0, -1.0)
    S = Atoms(eigenvalues=atoms).draw(6, np.random.default_rng(0), tied=True)
    np.testing.assert_allclose(np.linalg.eigvalsh(S), sorted(atoms), atol=1e-12)


def test_labels_are_softmax_of_noisy_logits():
    data = samples(count=30_000, dim=6)
    noise, sums = [], []
    for chunk in data:
        np.testing.assert_allclose(chunk.labels.sum(axis=-1), 1.0)
        np.testing.assert_allclose(chunk.clean, labels(data.target, chunk.tokens, 1.0, None), atol=1e-12)
        # for two tokens log(y11/y12) - log(clean) is N11 - N12, of variance Δ + Δ/2
        ratio = np.log(chunk.labels[:, :, 0] / chunk.labels[:, :, 1]) - np.log(
            chunk.clean[:, :, 0] / chunk.clean[:, :, 1]
        )
        noise.append(ratio)
        sums.append(ratio[:, 0] + ratio[:, 1])
    for values, variance in ((np.concatenate(noise)[:, 0], 0.75), (np.concatenate(sums), 1.0)):
        # N11 - N12 + N12 - N22 has variance 2 Δ = 1: the noise off the diagonal is symmetric
        assert abs(values.var() / variance - 1.0) < 5.0 * np.sqrt(2.0 / values.size)


def test_softmax_rows_of_large_logits_is_finite():
    np.testing.assert_allclose(softmax_rows(np.array([[1000.0, 0.0], [-1000.0, 0.0]])), [[1.0, 0.0], [0.0, 1.0]])


def test_resampled_chunks_equal_stored_ones():
    stored, resampled = samples(count=90_000, dim=8), samples(count=90_000, dim=8, memory=1.0)
    assert resampled.resampled
    assert not stored.resampled
    assert len(list(stored)) > 1
    for _ in range(2):  # the second pass samples them again
        for one, other in zip(stored, resampled, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_equal_seeds_give_equal_bits():
    one, same, other = (next(iter(samples(seed=seed))) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.tokens, other.tokens)


def test_targets_of_untied_heads():
    rng = np.random.default_rng(0)
    S = Product(kappa0=0.25).draw(200, rng, tied=False)
    values = np.linalg.svd(S, compute_uv=False)
    assert np.sum(values > 1e-9) == 50
    # |S|²/d is a mean over W_Q' W_K of squares, relative spread a few times 1/d; Tr S²/d has mean 1/d and that spread
    assert abs(np.sum(S * S) / 200 - 1.0) < 0.1
    assert abs(np.trace(S @ S) / 200) < 0.1
    atoms = (2.0, 1.0, 0.5, 0.0, 0.0, -1.0)
    S = Atoms(eigenvalues=atoms).draw(6, rng, tied=False)
    np.testing.assert_allclose(np.linalg.svd(S, compute_uv=False), sorted(np.abs(atoms))[::-1], atol=1e-12)
    # the eigenvalues of an mp target, with its mean sqrt κ₀ and rank κ₀, between two independent bases
    S = MarchenkoPastur(kappa0=0.25).draw(200, rng, tied=False)
    values = np.linalg.svd(S, compute_uv=False)
    assert np.sum(values > 1e-9) == 50
    assert abs(values.mean() - 0.5) < 5.0 * np.sqrt(2.0) / 200.0
    assert abs(np.trace(S @ S)) < 0.1 * np.sum(S * S)


def plain_labels(task, S, X, Y):
    """Labels without noise of one sequence, entry by entry."""
    T, d = X.shape
    y = np.zeros((T, T))
    for a in range(T):
        length = {"none": T, "causal": a + 1, "strict": a}[task.mask]
        h = [(X[a] @ S @ Y[b] - (np.trace(S) if Y is X and a == b else 0.0)) / np.sqrt(d) for b in range(length)]
        y[a, :length] = np.exp(task.beta0 * np.array(h)) / np.exp(task.beta0 * np.array(h)).sum() if length else 0.0
    return y


@pytest.mark.parametrize(("attention", "mask"), HEADS)
def test_labels_of_every_head_match_a_plain_loop(attention, mask):
    task = Task(attention=attention, mask=mask, tokens=4, beta0=1.4)
    data = samples(count=5, task=task)
    (chunk,) = data
    assert (chunk.keys is not None) == (attention == "cross")
    for i in range(5):
        X = chunk.tokens[:, i]
        wanted = plain_labels(task, data.target, X, X if chunk.keys is None else chunk.keys[:, i])
        np.testing.assert_allclose(chunk.clean[i], wanted, atol=1e-13)


@pytest.mark.parametrize("attention", ["self", "cross"])
def test_noise_of_untied_heads_is_independent(attention):
    chunks = list(samples(count=30_000, dim=6, task=Task(attention=attention, noise=0.4)))
    noisy, clean = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("labels", "clean"))
    first, second = (np.log(noisy / clean)[:, a, 0] - np.log(noisy / clean)[:, a, 1] for a in (0, 1))
    # N_a1 - N_a2 has variance Δ in either row, and rows are independent
    for values in (first, second):
        assert abs(values.var() / 0.4 - 1.0) < 5.0 * np.sqrt(2.0 / values.size)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5.0 / np.sqrt(first.size)


@pytest.mark.parametrize(("attention", "mask"), HEADS)
def test_hard_labels_are_sampled_from_the_noisy_softmax(attention, mask):
    task = Task(attention=attention, mask=mask, tokens=3)
    soft, hard = (samples(count=20_000, dim=6, task=task.changed(labels=kind)) for kind in ("soft", "hard"))
    p, y = (np.concatenate([chunk.labels for chunk in data]) for data in (soft, hard))  # the same tokens and noise
    lengths = np.array(task.columns)
    assert set(np.unique(y)) == {0.0, 1.0}
    np.testing.assert_array_equal(y.sum(axis=-1), np.broadcast_to(lengths > 0, y.shape[:-1]))
    assert np.all(y[p == 0.0] == 0.0)
    for weight in (np.ones_like(p), p, p**2):
        # y - p has mean zero for any tokens, and variance p (1 - p); five standard errors
        excess, error = (weight * (y - p)).sum(axis=0), np.sqrt((weight**2 * p * (1.0 - p)).sum(axis=0))
        assert np.all(np.abs(excess) <= 5.0 * error + 1e-9)
    for one, other in zip(soft, hard, strict=True):
        np.testing.assert_array_equal(one.clean, other.clean)


@pytest.mark.parametrize("attention", ["tied", "self", "cross"])
@pytest.mark.parametrize("mask", ["causal", "strict"])
def test_a_masked_row_does_not_depend_on_later_tokens(attention, mask):
    task = Task(attention=attention, mask=mask, tokens=4)
    data = samples(count=20, task=task)
    (chunk,) = data
    X, Y = chunk.tokens.copy(), None if chunk.keys is None else chunk.keys.copy()
    (X if Y is None else Y)[2] = 7.0  # a later token of rows 0 and 1
    changed = labels(data.target, X, 1.0, None, keys=Y, visible=task.visible)
    np.testing.assert_array_equal(changed[:, :2], chunk.clean[:, :2])
    assert not np.allclose(changed[:, 3], chunk.clean[:, 3])


def test_resampled_keys_equal_stored_ones():
    task = Task(attention="cross", labels="hard", mask="causal")
    stored, resampled = (samples(count=50_000, dim=8, task=task, memory=memory) for memory in (4e9, 1.0))
    assert resampled.resampled and not stored.resampled
    for one, other in zip(stored, resampled, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert next(iter(stored.in_single_precision())).keys.dtype == np.float32
