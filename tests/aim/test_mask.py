"""Masks of one's own: matrices, the blocks of rows they have, and what theory and training make of them."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.support.refusals import refusal

from onehead.aim import Atoms, Learner, Mask, Method, Task, predict, sample, thresholds, train, unasked_curve
from onehead.aim.logits.geometry import geometry_of
from onehead.aim.mask import check_mask, is_nested, mutual_pair, row_kinds
from onehead.aim.training.data import softmax_rows
from onehead.aim.training.objective import OutputLoss
from onehead.plot.style import nondefault_settings

WINDOW = "1000/1100/0110/0011"
CYCLE = "01100/01110/00011/10011/11000"  # rows with and without their own token, of which no two are mutual
PREFIX = "1100/1100/1110/1111"
LEARNER = Learner(weight_decay=0.05)
ORDER = [2, 0, 3, 1]


def permuted(matrix, order):
    return np.asarray(matrix)[np.ix_(order, order)]


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 9).flatmap(lambda n: arrays(bool, (n, n))))
def test_a_mask_keeps_its_matrix(matrix):
    mask = Mask(matrix)
    np.testing.assert_array_equal(mask.matrix, matrix)
    assert mask.tokens == len(matrix)
    assert Mask(str(mask)) == mask == Mask(matrix.astype(int).tolist()) == Mask(matrix.astype(float))
    assert {mask: 1}[Mask(matrix)] == 1
    again = pickle.loads(pickle.dumps(mask))
    assert type(again) is Mask
    assert again == mask


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6).flatmap(lambda n: arrays(bool, (n, n))))
def test_kinds_of_rows_by_counting(matrix):
    mask, tokens = Mask(matrix), range(len(matrix))
    rows = {a: {b for b in tokens if matrix[a, b]} for a in tokens if matrix[a].sum() > 1}
    expected = sorted((len(seen), a in seen) for a, seen in rows.items())
    assert sorted((kind.length, kind.own) for kind in row_kinds(mask) for _ in range(kind.number)) == expected
    mutual = [(a, b) for a in rows for b in rows if a < b and b in rows[a] and a in rows[b]]
    pair = mutual_pair(mask)
    assert (pair is not None) == bool(mutual)
    assert pair is None or (pair[0] - 1, pair[1] - 1) in mutual
    nested = all(one <= other or other <= one for one in rows.values() for other in rows.values())
    assert is_nested(mask) == nested


@pytest.mark.parametrize("tokens", [3, 5])
def test_the_matrix_of_a_named_mask_is_that_mask(tokens):
    named = {"none": np.ones((tokens, tokens)), "causal": np.tri(tokens), "strict": np.tri(tokens, k=-1)}
    for name, matrix in named.items():
        assert check_mask(matrix) == name
        for attention in ("tied", "self", "cross"):
            task = Task(attention=attention, mask=matrix)
            assert task == Task(attention=attention, mask=name, tokens=tokens)
            np.testing.assert_array_equal(task.visible, matrix)
            assert task.columns == tuple(matrix.sum(axis=1))


def test_a_task_with_a_mask_is_a_value():
    task = Task(attention="self", mask=Mask(WINDOW).matrix)
    assert task.tokens == 4
    assert task == Task(attention="self", tokens=4, mask=((1, 0, 0, 0), (1, 1, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1)))
    again = Task.read(task.model_dump_json())
    assert again == task
    assert hash(again) == hash(task)
    assert isinstance(again.mask, Mask)
    assert "Mask('1000/1100/0110/0011')" in repr(task)
    assert eval(repr(task.mask)) == task.mask
    assert "Mask(100 tokens, 5050 of 10000 pairs)" in repr(Task(attention="cross", mask=np.tri(100)[:, ::-1]))
    assert nondefault_settings(task) == ["self", "own mask"]
    assert task.changed(noise=0.1).mask == task.mask


@pytest.mark.parametrize(
    ("attention", "mask", "name", "part"),
    [
        ("cross", "10/1", "mask", "square matrix"),
        ("cross", "12/01", "mask", "zeros and ones"),
        ("cross", [[1, 2], [0, 1]], "mask", "neither zero nor one"),
        ("cross", np.full((2, 2), np.nan), "mask", "neither zero nor one"),
        ("cross", np.ones((2, 3), dtype=bool), "mask", "(2, 3)"),
        ("cross", [[1, 0], [1]], "mask", "square matrix"),
        ("cross", np.ones((1, 1)), "mask", "2 to 1024 tokens"),
        ("cross", np.ones((1025, 1025)), "mask", "2 to 1024 tokens"),
        ("cross", 7, "mask", "square matrix"),
        ("cross", "own", "mask", "none, causal or strict, or a square matrix"),
        ("cross", np.eye(3), "mask", "two ones in a row"),
        ("self", "110/111/011", "mask", "tokens 1 and 2"),
        ("tied", "100/111/111", "mask", "tokens 2 and 3"),
    ],
)
def test_masks_without_a_theory_are_refused(attention, mask, name, part):
    refused = refusal(Task, attention=attention, mask=mask)
    assert refused.name == name
    assert part in str(refused)


def test_tokens_follow_from_the_mask():
    assert "left out, or 4" in str(refusal(Task, attention="cross", mask=WINDOW, tokens=5))
    assert "left out, or 4" in str(refusal(Task(attention="cross", mask=WINDOW).changed, tokens=5))
    assert "heads" in str(refusal(Task, attention="cross", mask=WINDOW, heads=2))
    long = np.zeros((20, 20), dtype=bool)
    long[-1] = True
    # one prox per possible label: the length of a row counts, not the number of tokens
    assert "at most 16" in str(refusal(Task, attention="self", mask=long, labels="hard"))
    assert Task(attention="self", mask=np.tri(20) - np.tri(20, k=-3), labels="hard").longest_row == 3


def test_rows_that_do_not_choose_may_see_each_other():
    # row 3 has a single column, whose softmax is constant
    assert Task(attention="self", mask="100/111/010").columns == (1, 3, 1)


@pytest.mark.parametrize("attention", ["tied", "self", "cross"])
@pytest.mark.parametrize(("name", "tokens"), [("causal", 3), ("strict", 4)])
def test_permuted_tokens_have_the_same_answers(attention, name, tokens):
    """Not the name but the number of columns of each row counts: the same bits as those of the named mask."""
    matrix = permuted(np.tri(tokens, k=-(name == "strict")), ORDER if tokens == 4 else [2, 0, 1])
    task = Task(attention=attention, mask=matrix)
    assert task.mask_name == "own"
    one, other = (
        predict(head, LEARNER, 1.0).to_dict() for head in (task, Task(attention=attention, mask=name, tokens=tokens))
    )
    assert one.pop("task")["mask"] == str(task.mask)
    assert other.pop("task")["mask"] == name
    assert one == other


@pytest.mark.parametrize("attention", ["tied", "self", "cross"])
def test_permuted_windows_have_the_same_answers(attention):
    one, other = (
        Task(attention=attention, mask=m) for m in (Mask(CYCLE).matrix, permuted(Mask(CYCLE).matrix, [3, 1, 4, 0, 2]))
    )
    assert one.mask != other.mask
    first, second = (geometry_of(task.attention, task.mask, task.tokens) for task in (one, other))
    assert [(row.columns, row.multiplicity, row.on_lattice) for row in first.blocks] == [
        (row.columns, row.multiplicity, row.on_lattice) for row in second.blocks
    ]
    assert predict(one, LEARNER, 1.0).test_error == predict(other, LEARNER, 1.0).test_error


@pytest.mark.parametrize("attention", ["tied", "self", "cross"])
@pytest.mark.parametrize("name", ["causal", "strict"])
def test_long_rows_are_represented_by_as_many_as_those_of_named_masks(attention, name):
    matrix = np.tri(60, k=-(name == "strict"))
    one, other = geometry_of(attention, name, 60), geometry_of(attention, Mask(matrix), 60)
    for side in ("blocks", "rows"):
        pairs = zip(getattr(one, side), getattr(other, side), strict=True)
        assert all(
            (a.columns, a.multiplicity, a.on_lattice) == (b.columns, b.multiplicity, b.on_lattice) for a, b in pairs
        )


def test_equal_rows_are_one_block():
    window = np.tri(200) - np.tri(200, k=-8)
    for attention in ("tied", "self", "cross"):
        geometry = geometry_of(attention, Mask(window), 200)
        # rows of 2 to 7 columns at the start, all others have 8
        assert [(row.length, row.multiplicity) for row in geometry.blocks] == [
            *((n, 1.0) for n in range(2, 8)),
            (8, 193.0),
        ]
        assert geometry.informative == sum(window.sum(axis=1) - 1.0)


def test_cross_attention_counts_columns_and_forgets_which():
    """A single row among three tokens is a head of two columns whose data are half as many (U1.1)."""
    two = predict(Task(attention="cross", tokens=2), LEARNER, 1.0)
    one = predict(Task(attention="cross", mask="000/011/000"), LEARNER, 2.0)
    for name in ("q", "m", "rank"):
        # every number is as exact as the quadrature of the others, whose nodes are the same
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-6)
    assert 2.0 * one.test_error == pytest.approx(two.test_error, rel=1e-6)


def test_fields_that_queries_share():
    """The prediction needs the columns of each row alone; what is learned from n ~ d samples, which they are."""
    own = Task(attention="cross", mask="0011/1100/0110/1001", unasked=0.5)
    found = predict(own, LEARNER, 1.0)
    assert found.test_error == pytest.approx(
        2.0 * predict(Task(attention="cross", unasked=0.5), LEARNER, 2.0).test_error
    )
    assert thresholds(own, LEARNER).unasked_emergence is None
    assert "among those of all longer ones" in str(refusal(unasked_curve, own, LEARNER, [1.0]))
    nested, named = (
        Task(attention="cross", mask="111/110/100", unasked=0.5),
        Task(attention="cross", mask="causal", tokens=3, unasked=0.5),
    )
    assert thresholds(nested, LEARNER).unasked_emergence == thresholds(named, LEARNER).unasked_emergence > 0.0


@pytest.mark.parametrize("labels", ["soft", "hard"])
@pytest.mark.parametrize("attention", ["tied", "self", "cross"])
def test_labels_of_sampled_data_are_zero_where_the_mask_is(attention, labels):
    task = Task(attention=attention, mask=CYCLE, labels=labels)
    data = sample(task, dim=8, alpha=4.0)
    visible = task.visible
    assert np.all(data.labels[:, ~visible] == 0.0)
    np.testing.assert_allclose(data.labels.sum(axis=-1), 1.0)
    assert np.all(data.labels.mean(axis=0)[visible] > 0.1)


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
@pytest.mark.parametrize("output", ["label", "sequence"])
def test_the_loss_of_permuted_tokens_is_the_same(loss, output):
    if output == "sequence" and loss != "squared":
        return
    rng, causal = np.random.default_rng(0), np.tri(4) > 0.0
    logits, X = rng.standard_normal((1, 5, 4, 4)), rng.standard_normal((5, 4, 7))
    y, gram = softmax_rows(rng.standard_normal((5, 4, 4)), causal), X @ X.transpose(0, 2, 1)
    at = np.ix_(ORDER, ORDER)
    grams = (gram, gram[:, at[0], at[1]]) if output == "sequence" else (None, None)
    value, gradient = OutputLoss(loss=loss, visible=causal)(logits, y, grams[0])
    moved = OutputLoss(loss=loss, visible=causal[at])
    other, turned = moved(logits[:, :, at[0], at[1]].copy(), y[:, at[0], at[1]].copy(), grams[1])
    assert other == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(turned, gradient[:, :, at[0], at[1]], atol=1e-13)


@pytest.mark.parametrize(
    ("attention", "mask", "labels"),
    [("self", CYCLE, "soft"), ("self", WINDOW, "hard"), ("cross", PREFIX, "soft"), ("tied", CYCLE, "soft")],
)
def test_trained_heads_agree_with_the_prediction(attention, mask, labels):
    """Three instances of one spectrum: within three standard errors and the finite-size difference 3/d."""
    dim, rng = 40, np.random.default_rng(3)
    values = np.linalg.svd(rng.standard_normal((dim, dim // 2)) @ rng.standard_normal((dim // 2, dim)) / dim)[1]
    task = Task(
        target=Atoms(eigenvalues=np.sqrt(dim / np.sum(values**2)) * values),
        attention=attention,
        mask=mask,
        labels=labels,
    )
    learner = Learner(
        weight_decay=0.1 if labels == "hard" else 0.05,
        loss="cross-entropy" if labels == "hard" else "squared",
        leading=0,
    )
    theory = predict(task, learner, 1.0)
    runs = train(task, learner, dim=dim, alpha=1.0, seeds=3, method=Method(test_samples=4000)).runs
    for name in ("test_error", "train_loss", "q", "m"):
        found, expected = np.array([getattr(run, name) for run in runs]), getattr(theory, name)
        allowed = 3.0 * found.std(ddof=1) / np.sqrt(3.0) + 3.0 / dim * expected
        assert abs(found.mean() - expected) <= allowed, name


@pytest.mark.parametrize(("attention", "mask"), [("tied", CYCLE), ("cross", PREFIX), ("self", "011/001/000")])
def test_message_passing_reaches_the_minimum(attention, mask):
    task = Task(attention=attention, mask=mask)
    one, other = (
        train(task, LEARNER, dim=16, alpha=1.0, method=Method(optimiser=name, test_samples=100)).runs[0]
        for name in ("amp", "lbfgs")
    )
    assert one.train_loss == pytest.approx(other.train_loss, rel=1e-4)
    # the iteration ends where a step changes the map by little, of tied heads at a relative 1e-2 from the minimum
    assert one.q == pytest.approx(other.q, rel=1e-2)
