"""Figures of untied heads, masks and hard labels: correct labels, and only quantities that exist."""

import numpy as np
import pytest

from onehead import aim, plot
from onehead.errors import InvalidArgument

HEAD = aim.Learner(weight_decay=0.05)
HEADS = {
    "cross": (aim.Task(attention="cross"), HEAD),
    "self": (aim.Task(attention="self", mask="causal"), HEAD),
    "hard": (aim.Task(attention="cross", mask="causal", labels="hard"), HEAD.changed(loss="cross-entropy")),
}
heads = pytest.mark.parametrize("name", HEADS)


def text_of(axes):
    """Return all text of a figure."""
    axes.figure.canvas.draw()
    texts = [
        axes.get_xlabel(),
        axes.get_ylabel(),
        axes.get_title(loc="left"),
        *(text.get_text() for text in axes.texts),
    ]
    return " | ".join([*texts, *axes.get_legend_handles_labels()[1]])


@heads
def test_a_learning_curve_describes_its_head(name):
    task, head = HEADS[name]
    curve = aim.curve(task, head, [0.4, 1.2, 2.4])
    text = text_of(plot.learning_curve(curve, thresholds=aim.thresholds(task, head)))
    assert {"cross": "cross", "self": "self, causal mask", "hard": "cross, causal mask, hard labels"}[name] in text
    assert "tied" not in text
    assert ("interpolation" in text) == (name != "hard")  # separable up to 2.436, beyond the range


def test_coinciding_thresholds_are_marked_once():
    task, head = aim.Task(attention="cross", labels="hard"), HEAD.changed(loss="cross-entropy")
    for labels, name in (("hard", "separability"), ("soft", "interpolation")):
        own = task.changed(labels=labels)
        curve = aim.curve(own, head, [0.4, 0.7, 2.4])
        axes = plot.learning_curve(curve, thresholds=aim.thresholds(own, head))
        text = text_of(axes)
        assert text.count(name) == 1 and text.count("interpolation") == (labels == "soft")


@heads
def test_spectra_of_untied_heads_are_labelled_as_singular_values(name):
    task, head = HEADS[name]
    law = aim.spectrum(aim.predict(task, head, 1.2))
    runs = aim.train(task, head, dim=16, alpha=1.2, seeds=2, method=aim.Method(starts=1))
    for axes in (plot.spectrum(law), plot.trained_spectrum(runs, law)):
        assert "singular value" in text_of(axes)
        assert "eigenvalue" not in text_of(axes)
    assert "trained" in text_of(plot.training_points([runs]))


@heads
def test_scaling_draws_the_parts_that_are_defined(name):
    task, head = HEADS[name]
    task = task.changed(target=aim.PowerLaw(dim=30))
    law = aim.scaling(task, head, [500.0, 3000.0])
    text = text_of(plot.scaling(law))
    assert ("underfitting" in text) == (name != "self")
    assert "excess error" in text
    assert (law.column("underfitting") >= 0.0).all() == (name != "self")
    assert "singular value" in text_of(plot.features(aim.features(task, head, [300.0, 3000.0])))
    assert (
        "causal" in text_of(plot.phases(aim.phase_diagram(task, head, log_n=[1.5, 2.0], log_lambda=[-1.0, 0.0])))
        or name == "cross"
    )


def test_training_and_theory_are_compared_for_untied_heads():
    task = aim.Task(attention="cross")
    table = aim.compare(task, HEAD, alphas=[1.0], dims=[10, 14], seeds=2)
    assert "theory" in text_of(plot.comparison(table))
    found = aim.amp(task, HEAD.changed(loss="cross-entropy"), dim=30, alpha=1.0, iterations=3)
    assert "|S|²/d" in text_of(plot.message_passing(found))
    tuned = aim.tune(task, HEAD, 1.0)
    assert "best" in text_of(plot.tuning(tuned))


def test_a_column_that_no_point_has_is_nan():
    curve = aim.curve(*HEADS["cross"], [1.0, 2.0])
    assert curve.column("zero_one_error").tolist() == pytest.approx([float("nan")] * 2, nan_ok=True)
    with pytest.raises(InvalidArgument, match="a number of the points"):
        curve.column("zero_two_error")


def test_with_the_best_possible_learner_only_two_errors_are_drawn():
    curve = aim.curve(aim.Task(), HEAD, [0.2, 0.5], tuned=True, bayes=True)
    axes = plot.learning_curve(curve)
    assert axes.get_legend_handles_labels()[1] == ["test error (theory)", "best possible (known model)"]
    assert len(axes.collections) == 1  # the gap between them
    assert r"best $\lambda$" in axes.get_title(loc="left") and "0.05" not in axes.get_title(loc="left")


def test_recovery_is_marked_only_without_noise():
    for noise, marked in ((0.5, False), (0.0, True)):
        task = aim.Task(noise=noise)
        curve = aim.curve(task, HEAD, [0.1, 0.2, 0.4])
        assert ("recovery" in text_of(plot.learning_curve(curve, thresholds=aim.thresholds(task)))) == marked


def test_a_narrow_bulk_has_separate_histogram_bins():
    task, head = aim.Task(aim.MarchenkoPastur(0.2)), aim.Learner()
    law = aim.spectrum(aim.predict(task, head, 1.0))
    (_, low), (high, _) = law.edges  # two bulks: noise below, the target above
    runs = aim.train(task, head, dim=40, alpha=1.0, seeds=2, method=aim.Method(starts=1, test_samples=1000))
    bars = plot.trained_spectrum(runs, law).patches
    assert sum(bar.get_x() + bar.get_width() < 0.5 * (low + high) for bar in bars) >= 4
    nonzero = np.abs(runs.eigenvalues) > 1e-3 * np.abs(runs.eigenvalues).max()
    assert sum(bar.get_width() * bar.get_height() for bar in bars) == pytest.approx(nonzero.mean(), rel=1e-9)
