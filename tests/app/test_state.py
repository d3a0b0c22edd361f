"""The state of the page: its address, its bounds, its knobs."""

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
def test_presets_are_allowed_and_distinct(preset):
    state, wrong = read_state({"view": preset.view, **preset.values})
    assert wrong == {}
    assert all(state[name] == value for name, value in preset.values.items())
    assert set(preset.values) <= set(VIEWS[preset.view].knobs)


@pytest.mark.parametrize(
    ("raw", "knob", "sentence"),
    [
        ({"noise": "-1"}, "noise", "noise must be a number >= 0 and <= 1000; got -1.0."),
        ({"kappa0": "0"}, "kappa0", "kappa0 must be a number >= 0.001 and <= 1000; got 0.0."),
        ({"tokens": "1"}, "tokens", "tokens must be an integer >= 2 and <= 100000; got 1."),
        ({"tokens": "2.5"}, "tokens", "tokens must be an integer >= 2 and <= 100000; got 2.5."),
        ({"weight_decay": "-1"}, "weight_decay", "weight_decay must be a number > 0 and <= 1e+06, or the word 0+"),
        ({"alpha": "nan"}, "alpha", "alpha must be a number > 0 and <= 1e+06; got nan."),
        ({"loss": "hinge"}, "loss", "loss must be squared or cross-entropy; got 'hinge'."),
        (
            {"alpha_from": "2", "alpha_to": "1"},
            "alpha_to",
            "alpha_to must be between 1.2 and 10000 times alpha_from = 2",
        ),
        ({"signal_tokens": "11"}, "signal_tokens", "signal_tokens must be at most length = 10; got 11."),
        ({"train_dim": "5000"}, "train_dim", "train_dim must be an integer >= 10 and <= 200; got 5000."),
        ({"dim": "2000"}, "dim", "dim must be at most 1000 in the explorer; got 2000.0."),
        ({"eta_q": "-2000"}, "eta_q", "eta_q must be at least -1000 in the explorer; got -2000.0."),
        ({"strength": "-1"}, "strength", "strength must be a number >= 0; got -1.0."),
        ({"view": "none"}, "view", "view must be head or curve or"),
        ({"kappa0": "9" * 400}, "kappa0", "kappa0 must be at most 40 characters"),
        ({"direct": "maybe"}, "direct", "direct must be true or false; got 'maybe'."),
    ],
)
def test_a_bad_value_gets_one_sentence_and_a_state_that_is_allowed(raw, knob, sentence):
    state, wrong = read_state(raw)
    assert wrong[knob].startswith(sentence)
    assert "\n" not in wrong[knob]
    assert read_state(state.values | {"view": state.view})[1] == {}


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from([*KNOBS, "view", "x"]), st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)))  # fmt: skip
def test_anything_at_all_gives_a_state_and_sentences(raw):
    state, wrong = read_state(raw)
    assert all(isinstance(text, str) and text for text in wrong.values())
    assert read_state(state.values | {"view": state.view})[1] == {}
    assert all(not isinstance(v, float) or math.isfinite(v) for v in state.values.values())
