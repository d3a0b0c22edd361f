"""Presets: named settings, among them those of the papers' figures and of some common kinds of heads."""

from typing import NamedTuple

from onehead.app.knobs import Value


class Preset(NamedTuple):
    """A named setting: a view and the knobs that differ from their defaults."""

    name: str
    view: str
    values: dict[str, Value]


# two heads that add to one output; with this weight decay the solver converges along the whole axis
TWO_HEADS: dict[str, Value] = {
    "attention": "cross", "aim_heads": 2, "weight_decay": 0.1, "alpha": 1.0, "alpha_from": 0.1, "alpha_to": 8.0,
}  # fmt: skip
# rates and ridges at which joint descent of the default task has its lowest error after nine steps
JOINT: dict[str, Value] = {"eta_b": 3.0, "ridge": 0.1, "ridge_query": 0.03}
# figures of arXiv:2509.24914 (attention-indexed model) and 2509.25153 (sparse tokens); parameters that the papers do
# not give are at their defaults
PRESETS = (
    Preset("Figure 1: learning curve (κ₀ 0.5, Δ 0.5, λ 0.01)", "curve", {}),
    Preset("Figure 1: a narrow head (κ 0.75)", "curve", {"width": 0.75, "kappa0": 0.5}),
    Preset(
        "Interpolation peak (Δ 1, λ 0.001)",
        "curve",
        {"weight_decay": 1e-3, "noise": 1.0, "alpha": 0.28, "direct": False},
    ),
    Preset("Figure 2: factorised against direct at the best λ", "curve", {"best": True, "kappa0": 0.3}),
    Preset("Noiseless: perfect recovery (Δ 0)", "curve", {"noise": 0.0, "weight_decay": 1e-3, "kappa0": 0.3}),
    Preset("A sharper learner (β 2, β₀ 1)", "curve", {"beta": 2.0}),
    Preset("Three tokens (T 3)", "curve", {"tokens": 3, "alpha": 0.2, "alpha_to": 2.0}),
    Preset("A head with separate query and key", "curve", {"attention": "self", "mask": "causal", "alpha_to": 8.0}),
    Preset(
        "Next-token labels (hard, causal)",
        "curve",
        {
            "attention": "cross",
            "mask": "causal",
            "labels": "hard",
            "loss": "cross-entropy",
            "weight_decay": 0.1,
            "alpha": 2.0,
            "alpha_from": 0.3,
            "alpha_to": 20.0,
        },
    ),
    Preset(
        "Two heads that share values (H 2, ρ 0.8)",
        "curve",
        {**TWO_HEADS, "sharing": 0.8},
    ),
    Preset("Figure 1: spectrum below interpolation", "spectrum", {"alpha": 0.1}),
    Preset("Figure 1: spectrum above interpolation", "spectrum", {"alpha": 0.5}),
    Preset("The bulk splits (κ₀ 0.1, α 0.5)", "spectrum", {"alpha": 0.5, "kappa0": 0.1}),
    Preset(
        "Singular values fade (λ 0.3)", "time", {"attention": "cross", "weight_decay": 0.3, "alpha": 1.0, "time": 9.0}
    ),
    Preset("Best weight decay (κ₀ 0.05, Δ 0.05)", "decay", {"kappa0": 0.05, "noise": 0.05, "alpha": 0.15}),
    Preset("Figure 4: power law, excess error (λ 1)", "scaling", {"weight_decay": 1.0}),
    Preset("Power law: parts of the error", "scaling", {"scaling_panel": "decomposition", "weight_decay": 0.01}),
    Preset("Figure 5: rate diagram", "scaling", {"scaling_panel": "phase"}),
    Preset("Sparse: test error against α", "sparse", {"ridge": 1e-5}),
    Preset(
        "Sparse: alignment of the query (L 10, R 3, θ 6, π 0.2)",
        "sparse",
        {"sparse_panel": "alignment", "signal_tokens": 3, "strength": 6.0, "positive_rate": 0.2, "sparse_beta": 1.0},
    ),
    Preset("Sparse: capacity", "sparse", {"sparse_panel": "capacity"}),
    Preset("Sparse: tuning (α 2)", "sparse", {"sparse_panel": "tuning"}),
    Preset(
        "Sparse: hard phase (L 300, θ 8)",
        "sparse",
        {"sparse_panel": "hard-phase", "length": 300, "strength": 8.0, "alpha0": 0.0125, "alpha1": 0.0125},
    ),
    Preset("Sparse: train it jointly, and stop in time (α 2)", "sparse", {"sparse_panel": "descent", **JOINT}),
    Preset("Sparse: split, reuse or joint (α 2)", "sparse", {"sparse_panel": "protocols", **JOINT}),
    Preset("Map: samples against weight decay", "map", {}),
    Preset("Map: noise against width of the target", "map", {"map_x": "kappa0", "map_y": "noise"}),
)
