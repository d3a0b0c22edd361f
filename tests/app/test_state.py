"""The state of the page: its address, the bounds of its knobs, and the sentences of refused values."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead.app import VIEWS, read_state
from onehead.app.knobs import KNOBS
from onehead.app.presets import PRESETS


def test_every_knob_of_a_view_exists_and_every_knob_is_used():
    used = {name for view in VIEWS.values() for name in view.knobs}
    assert used == set(KNOBS)


def test_defaults_are_allowed():
    for view in VIEWS:
        state, wrong = read_state({"view": view})
        assert wrong == {}
        assert state.view == view


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_presets_are_allowed(preset):
    state, wrong = read_state({"view": preset.view, **preset.values})
    assert wrong == {}
    assert all(state[name] == value for name, value in preset.values.items())
    assert set(preset.values) <= set(VIEWS[preset.view].knobs)


@pytest.mark.parametrize(
    ("raw", "knob", "sentence"),
    [
        ({"noise": "-1"}, "noise", "Noise Δ must be at least 0 and at most 1,000 (you entered -1)."),
        ({"kappa0": "0"}, "kappa0", "Target width κ₀ must be at least 0.001 and at most 1,000 (you entered 0)."),
        ({"tokens": "1"}, "tokens", "Tokens T must be a whole number, at least 2 and at most 100,000 (you entered 1)."),
        (
            {"tokens": "2.5"},
            "tokens",
            "Tokens T must be a whole number, at least 2 and at most 100,000 (you entered 2.5).",
        ),
        (
            {"weight_decay": "-1"},
            "weight_decay",
            "Weight decay λ must be greater than 0 and at most 1,000,000, or 0+ (you",
        ),
        ({"alpha": "nan"}, "alpha", "Sample ratio α must be greater than 0 and at most 1,000,000 (you entered nan)."),
        ({"loss": "hinge"}, "loss", "Loss must be squared or cross-entropy (you entered hinge)."),
        ({"mask": "100/110/011"}, "mask", "Mask must be none or causal or strict (you entered 100/110/011)."),
        (
            {"alpha_from": "2", "alpha_to": "1"},
            "alpha_to",
            "Axis to α must be between 1.2 and 10,000 times the left end, 2 (you entered 1).",
        ),
        ({"signal_tokens": "11"}, "signal_tokens", "Signal tokens R must be at most Length L = 10 (you entered 11)."),
        (
            {"train_dim": "5000"},
            "train_dim",
            "Dimension d must be a whole number, at least 10 and at most 200 (you entered 5000).",
        ),
        ({"dim": "2000"}, "dim", "Dimension d must be at most 1,000 in the explorer (you entered 2000)."),
        ({"eta_q": "-2000"}, "eta_q", "Query rate η_q must be at least -1,000 in the explorer (you entered -2000)."),
        ({"strength": "-1"}, "strength", "Strength θ must be at least 0 (you entered -1)."),
        ({"view": "none"}, "view", "There is no view “none”; the views are head, curve, "),
        ({"kappa0": "9" * 400}, "kappa0", "Target width κ₀ must be at most 40 characters long"),
        ({"samples": "1 000"}, "samples", 'Samples n: cannot read "1 000"; write 1000.'),
        ({"weight_decay": "none"}, "weight_decay", 'Weight decay λ: cannot read "none"; write a number or 0+.'),
        ({"direct": "maybe"}, "direct", "Direct training S must be true or false (you entered maybe)."),
    ],
)
def test_a_refused_value_gives_one_sentence_and_a_valid_state(raw, knob, sentence):
    state, wrong = read_state(raw)
    assert wrong[knob].startswith(sentence)
    assert "\n" not in wrong[knob]
    assert read_state(state.values | {"view": state.view})[1] == {}


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([*KNOBS, "view", "x"]), st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)))  # fmt: skip
def test_any_input_gives_a_valid_state_and_sentences(raw):
    state, wrong = read_state(raw)
    assert all(isinstance(text, str) and text for text in wrong.values())
    assert read_state(state.values | {"view": state.view})[1] == {}
    assert all(not isinstance(v, float) or math.isfinite(v) for v in state.values.values())
