"""Trained heads against predictions; seeds, workers, precision, interruption, bad arguments."""

import os
import signal
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from onehead.aim import Learner, Task, predict, spectrum
from onehead.aim.targets import Atoms, Product
from onehead.aim.training.instance import Instance, problem_as_trained
from onehead.aim.training.nuclear import minimise_over_map, nuclear_equivalence, soft_threshold_singular_values
from onehead.aim.training.objective import Objective, OutputLoss
from onehead.aim.training.parametrisation import Untied
from onehead.aim.training.settings import Method, Variant
from onehead.aim.training.train import train
from onehead.errors import InvalidArgument

QUICK = Method(starts=1, test_samples=4000)


def train_small(**changes):
    arguments = {"task": Task(), "learner": Learner(), "dim": 20, "alpha": 1.0, "method": QUICK} | changes
    return train(arguments.pop("task"), arguments.pop("learner"), **arguments)


@pytest.mark.parametrize(
    ("task", "learner", "alpha"),
    [
        (Task(), Learner(), 0.5),
        (Task(), Learner(param="direct"), 0.5),
        (Task(), Learner(width=0.3), 0.5),
        (Task(), Learner(loss="cross-entropy"), 0.5),
        (Task(), Learner(loss="cross-entropy", param="direct", weight_decay=0.05), 0.5),
        (Task(beta0=2.0), Learner(beta=0.7, weight_decay=0.05), 0.5),
        (Task(tokens=3), Learner(weight_decay=0.03), 0.2),
        (Task(mask="causal", tokens=3), Learner(weight_decay=0.03), 0.5),
        (Task(attention="cross", labels="hard"), Learner(loss="cross-entropy", weight_decay=0.1), 2.0),
        (Task(attention="cross"), Learner(weight_decay=0.01, width=0.4), 1.0),
        (Task(attention="self"), Learner(weight_decay=0.05), 1.0),
        (Task(attention="self", mask="strict", tokens=4), Learner(weight_decay=0.05, param="direct"), 1.0),
    ],
    ids=str,
)
def test_training_agrees_with_the_prediction(task, learner, alpha):
    dim = 50
    result = train(task, learner, dim=dim, alpha=alpha, seeds=6, method=Method(starts=1, test_samples=10_000))
    theory = predict(task, learner, alpha)
    assert result.status.startswith("converged")
    for item in result.against(theory):
        # four standard errors (six seeds have heavier tails than a normal law), plus the stated bias of 3/d;
        # a rank is counted in steps of 1/d
        allowed = 4.0 * item.standard_error + 3.0 / dim * abs(item.predicted) + 1.0 / dim * (item.quantity == "rank")
        assert abs(item.difference) < allowed, item


def test_a_result_has_means_spreads_runs_and_a_certificate():
    result = train_small(seeds=3)
    row = result.to_dict()
    for key in ("test_error", "test_error_clean", "train_loss", "rank", "q", "m", "seconds"):
        assert key in row
        assert f"{key}_std" in row
        assert f"{key}_err" in row
        assert row[f"{key}_err"] == pytest.approx(row[f"{key}_std"] / np.sqrt(3.0))
    assert row["kind"] == "measurement"
    assert row["samples"] == 400
    assert row["objective"] == pytest.approx(row["train_loss"])
    assert result.eigenvalues.shape == (60,)
    run = result.runs[0]
    assert run.q == pytest.approx(np.sum(run.eigenvalues**2) / 20)
    assert run.m == pytest.approx(np.sum(run.map * run.target) / 20)
    assert "test_error=" in repr(result)
    assert train_small(seeds=1).to_dict()["test_error_err"] is None
    assert train_small(seeds=1).against(predict(Task(), Learner(), 1.0))[0].verdict.startswith("unknown")


def test_equal_seeds_give_equal_bits_for_any_number_of_workers():
    one, other, fewer = train_small(seeds=3), train_small(seeds=3, workers=3), train_small(seeds=2)
    for a, b in zip(one.runs, other.runs, strict=True):
        assert a.test_error == b.test_error
        assert np.array_equal(a.map, b.map)
    assert np.array_equal(one.runs[1].map, fewer.runs[1].map)
    assert not np.array_equal(one.runs[0].map, train_small(seed=1).runs[0].map)


def test_one_thread_means_one_blas_thread_for_large_matrix_products(monkeypatch):
    """Products split over cores that other processes use took five times as long at d = 400."""
    monkeypatch.setattr("onehead.aim.training.train.BLAS_THREADS_FROM_DIM", 10)
    monkeypatch.setenv("ONEHEAD_THREADS", "1")
    counts = []

    def record(_):
        counts.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")

    with threadpool_limits(limits=2, user_api="blas"):
        train_small(seeds=1, progress=record)
    assert counts and set(counts) == {1}


def test_memory_limit_and_precision_do_not_change_results():
    plain = train_small(dim=40)
    resampled = train_small(dim=40, method=Method(starts=1, test_samples=4000, memory=1.0))
    assert plain.test_error == resampled.test_error
    assert np.array_equal(plain.runs[0].map, resampled.runs[0].map)
    single = train_small(dim=40, method=Method(starts=1, test_samples=4000, dtype="float32"))
    assert single.status.startswith("converged")
    # stationarity 1e-2 in single precision leaves 1e-5 of the objective
    assert single.train_loss == pytest.approx(plain.train_loss, rel=1e-5)
    assert single.test_error == pytest.approx(plain.test_error, rel=1e-3)


def test_optimisers_and_starts_find_the_same_minimum():
    values = [
        train_small(dim=30, method=Method(optimiser=name, starts=1, tolerance=1e-4, test_samples=100)).train_loss
        for name in ("lbfgs", "adam", "amp")
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)
    several = train_small(dim=30, method=Method(starts=3, tolerance=1e-5, test_samples=100))
    assert several.certificate.starts_gap is not None
    assert several.certificate.starts_gap < 1e-6
    assert several.certificate.residual <= 1e-5
    assert several.certificate.warnings == ()


def test_narrow_heads_report_different_minima():
    result = train_small(dim=30, alpha=0.3, learner=Learner(width=0.1), method=Method(starts=4, test_samples=100))
    assert result.certificate.starts_gap is not None
    if result.certificate.starts_gap > 1e-5:
        assert "not unique" in result.certificate.warnings[0]


def test_sequence_output_has_the_same_errors():
    arguments = {"dim": 50, "alpha": 0.5, "seeds": 3, "method": Method(starts=1, test_samples=10_000)}
    label, sequence = (train_small(**arguments, variant=Variant(output=output)) for output in ("label", "sequence"))
    error = np.hypot(label.spread["test_error_err"], sequence.spread["test_error_err"])
    # the same instances: only the O(1/sqrt d) of X X'/d differs; three errors and the stated bias
    assert abs(label.test_error - sequence.test_error) < 3.0 * error + 3.0 / 50 * label.test_error


@pytest.mark.parametrize(
    "variant",
    [
        Variant(tied=False),
        Variant(heads=2),
        Variant(tied=False, heads=2),
        Variant(token_law="rademacher"),
        Variant(token_law="sparse"),
        Variant(token_law="sphere"),
        Variant(token_law="heavy-tailed"),
        Variant(correlation=0.3),
        Variant(token_law=np.random.default_rng(0).standard_normal((400, 20))),
    ],
    ids=str,
)
def test_variants_beyond_the_theory_report_their_difference_from_it(variant):
    result = train_small(variant=variant, seeds=2)
    assert result.status.startswith("converged")
    assert 0.0 < result.test_error < 1.0
    rows = result.against(predict(Task(), Learner(), 1.0))
    assert {row.quantity for row in rows} >= {"test_error", "train_loss", "rank", "q", "m"}
    assert all(row.verdict for row in rows)
    assert result.setting == str(variant)


def test_sparse_tokens_differ_from_the_theory_of_gaussian_ones():
    # the kurtosis of an entry moves the variance of a diagonal logit by (kurtosis - 3)(Tr S/d)²: far more than noise
    theory = predict(Task(), Learner(), 1.0)
    verdicts = {
        law: train_small(dim=40, seeds=4, variant=Variant(token_law=law)).against(theory)[0].verdict
        for law in ("gaussian", "sparse")
    }
    assert verdicts["gaussian"].startswith("agrees")
    assert verdicts["sparse"] == "differs by more than noise"


def test_targets_from_a_list_and_from_a_matrix():
    values = tuple(np.linspace(0.0, 2.0, 20).tolist())
    task = Task(target=Atoms(eigenvalues=values))
    result = train_small(task=task)
    np.testing.assert_allclose(np.linalg.eigvalsh(result.runs[0].target), values, atol=1e-12)
    matrix = np.diag(values)
    assert np.array_equal(train_small(target_map=matrix).runs[0].target, matrix)
    theory = predict(task, Learner(), 1.0)
    assert theory.status == "converged"


@pytest.mark.parametrize(
    ("dim", "seeds", "dtype", "close"),
    [
        # eigenvalues repel: their counts fluctuate by O(log d)/d, and their law is biased by O(1/d)
        (100, 3, "float64", 3.0 / 100),
        pytest.param(200, 1, "float32", 0.03, marks=pytest.mark.slow),
    ],
)
def test_spectrum_of_trained_maps(dim, seeds, dtype, close):
    method = Method(starts=1, test_samples=100, dtype=dtype)
    result = train(Task(), Learner(), dim=dim, alpha=0.5, seeds=seeds, method=method)
    law = spectrum(predict(Task(), Learner(), 0.5))
    values = np.sort(result.eigenvalues)
    positive = values[values > 1e-3 * values[-1]]
    empirical = 1.0 - np.arange(positive.size)[::-1] / values.size
    assert np.abs(law.cdf(positive) - empirical).max() < close


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_stops_every_worker_and_returns_the_best_weights_so_far(workers):
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        arguments = {"dim": 80, "alpha": 1.0, "seeds": 5, "workers": workers, "method": Method(tolerance=1e-9)}
        result = train(Task(), Learner(weight_decay=1e-4), **arguments)
    finally:
        timer.cancel()
    assert result.status.startswith("interrupted")
    assert 1 <= result.seeds < 5
    assert np.isfinite(result.test_error)


def test_progress_is_called_for_every_run():
    finished = []
    train_small(seeds=3, progress=finished.append)
    assert [run.seed for run in finished] == [0, 1, 2]


@pytest.mark.parametrize("tied", [True, False])
def test_weight_decay_on_factors_is_a_nuclear_norm(tied):
    found = nuclear_equivalence(Task(), Learner(loss="cross-entropy"), dim=20, alpha=1.0, tied=tied)
    # convex: both solvers stop at stationarity 1e-6, which leaves its square of the objective
    assert abs(found.gap) < 1e-8
    assert found.map_distance < 1e-3
    least = np.linalg.eigvalsh(found.product_map).min() if tied else 0.0
    assert least > -1e-10


def test_nuclear_norm_with_the_squared_loss():
    found = nuclear_equivalence(Task(), Learner(), dim=20, alpha=1.0)
    assert abs(found.gap) < 1e-6


CROSS, SELF = Task(attention="cross"), Task(attention="self", mask="causal")
HARD = Task(attention="cross", labels="hard")


@pytest.mark.parametrize(
    ("task", "learner", "alpha", "dim", "seeds", "runs", "measured"),
    [
        # means of runs of an independent program with other seeds: U2.6 first and second last row, U5.4 third
        (
            CROSS,
            Learner(weight_decay=0.05),
            1.0,
            30,
            8,
            16,
            {"q": 0.7717, "m": 0.7823, "train_loss": 0.06436, "test_error": 0.1179, "rank": 0.835},
        ),
        (
            SELF,
            Learner(weight_decay=0.02),
            2.0,
            40,
            6,
            6,
            {"q": [1.008, 1.135], "m": [0.906, 0.846], "train_loss": 0.0453, "test_error": 0.0662, "rank": 0.904},
        ),
        (
            HARD,
            Learner(weight_decay=0.1, loss="cross-entropy"),
            2.0,
            60,
            4,
            4,
            {
                "q": 2.843,
                "m": 1.196,
                "train_loss": 1.776,
                "test_error": 0.3139,
                "rank": 0.938,
                "zero_one_error": 0.7212 / 2.0,  # a sum over two rows there, a mean over rows here (U7)
            },
        ),
    ],
    ids=["cross", "self causal", "hard"],
)
def test_untied_heads_agree_with_runs_of_an_independent_program(task, learner, alpha, dim, seeds, runs, measured):
    result = train(task, learner, dim=dim, alpha=alpha, seeds=seeds, method=Method(starts=1, test_samples=10_000))
    assert result.status == "converged"
    sectors = result.sectors or {}
    for name, expected in measured.items():
        paired = isinstance(expected, list)
        ours, error = (
            (sectors[name], sectors[f"{name}_err"]) if paired else (getattr(result, name), result.errors[name])
        )
        # four standard errors of the difference of two means over independent targets, the spread of a run being ours
        z = (np.array(ours) - expected) / (np.array(error) * np.sqrt(1.0 + seeds / runs))
        assert np.all(np.abs(z) < 4.0), (name, ours, expected, z)


def test_overlaps_and_sectors_of_an_untied_head():
    result = train_small(task=Task(attention="self", tokens=3), seeds=3)
    run, d = result.runs[0], 20
    assert not np.allclose(run.map, run.map.T)
    np.testing.assert_allclose(run.eigenvalues, np.linalg.svd(run.map, compute_uv=False), atol=1e-12)
    assert run.q == pytest.approx(np.sum(run.map**2) / d)
    assert run.m == pytest.approx(np.trace(run.map.T @ run.target) / d)
    # q and m are the means of the two sectors, and r = Tr S²/d half their difference (U5.1)
    assert np.mean(run.sectors["q"]) == pytest.approx(run.q)
    assert np.mean(run.sectors["m"]) == pytest.approx(run.m)
    assert np.diff(run.sectors["q"])[0] / 2.0 == pytest.approx(-np.trace(run.map @ run.map) / d)
    values = np.array([each.sectors["m"] for each in result.runs])
    np.testing.assert_allclose(result.sectors["m"], values.mean(axis=0))
    np.testing.assert_allclose(result.sectors["m_err"], values.std(axis=0, ddof=1) / np.sqrt(3.0))
    assert result.zero_one_error is None
    assert result.setting == "gaussian tokens, untied query and key, 1 head"
    assert train_small(task=CROSS).sectors is None
    tied = train_small(learner=Learner(loss="cross-entropy"))
    assert tied.test_cross_entropy == tied.test_loss
    assert tied.sectors is None


@pytest.mark.parametrize("mask", ["none", "causal", "strict"])
def test_errors_on_fresh_samples_match_a_plain_loop(mask):
    """Cross-entropy in nats, and the probability that the most attended token is not the label, of rows with two
    columns or more.
    """
    task = Task(attention="self", labels="hard", tokens=4, mask=mask)
    method = Method(starts=1, test_samples=200)
    run = train_small(
        task=task, learner=Learner(loss="cross-entropy", weight_decay=0.05, beta=1.3), method=method
    ).runs[0]
    test = Instance.draw(task, 20, 400, np.random.SeedSequence(0, spawn_key=(0,)), method=method).test
    cross_entropy, wrong, squared = 0.0, [], 0.0
    for chunk in test:
        for i in range(chunk.tokens.shape[1]):
            X = chunk.tokens[:, i]
            h = 1.3 * (X @ run.map @ X.T - np.trace(run.map) * np.eye(4)) / np.sqrt(20)
            for a in range(4):
                length = {"none": 4, "causal": a + 1, "strict": a}[mask]
                if length > 1:
                    p, y = np.exp(h[a, :length]) / np.exp(h[a, :length]).sum(), chunk.labels[i, a, :length]
                    cross_entropy -= np.sum(y * np.log(p))
                    squared += np.sum((p - y) ** 2)
                    wrong.append(1.0 - y[np.argmax(p)])
    assert run.test_cross_entropy == pytest.approx(cross_entropy / 200, rel=1e-10)
    assert run.test_loss == pytest.approx(cross_entropy / 200, rel=1e-10)
    assert run.test_error == pytest.approx(squared / 200, rel=1e-10)
    assert run.zero_one_error == pytest.approx(np.mean(wrong), rel=1e-10)


def test_proximal_steps_make_the_rank_exact():
    """The map has the same zeros as that of a solver without factors that starts at zero."""
    learner = Learner(loss="cross-entropy", weight_decay=0.1)
    run = train_small(task=CROSS, learner=learner).runs[0]
    instance = Instance.draw(CROSS, 20, 400, np.random.SeedSequence(0, spawn_key=(0,)), method=QUICK)
    loss = OutputLoss(loss="cross-entropy", visible=CROSS.visible)
    objective = Objective(samples=instance.train, weights=Untied(20, 20), loss=loss, decay=learner.decay)
    exact = minimise_over_map(
        objective, soft_threshold_singular_values, np.zeros((20, 20)), tolerance=1e-9, max_iterations=3000
    )
    assert run.rank == np.mean(np.linalg.svd(exact.map, compute_uv=False) > 1e-9)
    assert 0.0 < run.rank < 1.0
    assert np.all((run.eigenvalues > 1e-4) | (run.eigenvalues < 1e-12))
    # a last step of 1e-6 leaves an error of a few times that over the slowest rate of convergence
    assert np.linalg.norm(run.map - exact.map) < 1e-3 * np.linalg.norm(exact.map)
    assert run.train_loss == pytest.approx(exact.value, rel=1e-8)


def test_untied_heads_of_any_width_and_trained_directly():
    full, wide, narrow, direct = (
        train_small(task=CROSS, learner=Learner(weight_decay=0.05, **options))
        for options in ({}, {"width": 1.5}, {"width": 0.2}, {"param": "direct"})
    )
    assert wide.train_loss == pytest.approx(full.train_loss, rel=1e-6)  # width above one changes nothing (U2.5)
    assert narrow.rank == 0.2
    assert narrow.train_loss > full.train_loss
    assert direct.rank == 1.0


@pytest.mark.parametrize(
    "variant",
    [Variant(heads=2), Variant(output="sequence"), Variant(token_law="sparse"), Variant(correlation=0.3)],
    ids=str,
)
@pytest.mark.parametrize("task", [CROSS, SELF], ids=["cross", "self"])
def test_untied_heads_beyond_the_theory(task, variant):
    result = train_small(task=task, learner=Learner(weight_decay=0.05), variant=variant)
    assert result.status.startswith("converged")
    assert 0.0 < result.test_error < 1.0
    assert result.setting == str(variant.changed(tied=False))


def test_unsupported_arguments_of_untied_heads_are_refused():
    with pytest.raises(InvalidArgument, match="loss must be cross-entropy with hard labels; got 'squared'"):
        train_small(task=HARD)
    with pytest.raises(InvalidArgument, match="loss must be cross-entropy with hard labels"):
        nuclear_equivalence(HARD, Learner(), dim=10, alpha=1.0)
    with pytest.raises(InvalidArgument, match="output must be label with hard labels; got 'sequence'"):
        train_small(task=HARD, learner=Learner(loss="cross-entropy"), variant=Variant(output="sequence"))
    with pytest.raises(InvalidArgument, match="tied must be true for direct training"):
        train_small(learner=Learner(param="direct"), variant=Variant(tied=False))
    with pytest.raises(InvalidArgument, match="attention must be tied or cross for message passing, or self with mask"):
        train_small(task=SELF, method=Method(optimiser="amp"))
    with pytest.raises(InvalidArgument, match="target_map must be symmetric"):
        train_small(target_map=np.eye(20, k=1))
    assert np.array_equal(train_small(task=CROSS, target_map=np.eye(20, k=1)).runs[0].target, np.eye(20, k=1))


def test_product_targets_are_rounded_to_whole_rows():
    task, _, _ = problem_as_trained(CROSS.changed(target=Product(kappa0=0.33)), Learner(), 1.0, 10)
    assert task.target == Product(kappa0=0.3)
    result = train_small(task=CROSS.changed(target=Product(kappa0=0.33)), dim=10)
    assert result.trained_kappa0 == 0.3
    assert np.linalg.matrix_rank(result.runs[0].target) == 3


def test_the_finite_size_allowance_depends_on_attention_and_mask():
    """(3 + 1/(α J))/d with the combinations J of U1.1, at T = 4."""
    counted = {
        ("tied", "none"): 9,
        ("cross", "none"): 12,
        ("tied", "causal"): 6,
        ("self", "causal"): 6,
        ("tied", "strict"): 3,
        ("cross", "strict"): 3,
    }
    for (attention, mask), combinations in counted.items():
        result = train_small(task=Task(attention=attention, mask=mask, tokens=4), dim=10, alpha=0.2)
        assert 10 * result.finite_size == pytest.approx(3.0 + 1.0 / (0.2 * combinations))


@pytest.mark.parametrize("task", [CROSS, SELF], ids=["cross", "self causal"])
def test_nuclear_norm_of_untied_tasks(task):
    found = nuclear_equivalence(task, Learner(loss="cross-entropy", weight_decay=0.05), dim=16, alpha=1.0)
    assert found.tied is False
    assert abs(found.gap) < 1e-8  # convex, as above
