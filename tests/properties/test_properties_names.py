"""Every public name of the two theories is held to something over a range: which test does it, and does that test exist?"""

import ast
from pathlib import Path

import pytest

from onehead import aim, sparse

TESTS = Path(__file__).parents[1]
AIM, LIMITS, SPARSE, ROOMS = (
    f"properties/test_properties_{room}.py" for room in ("aim", "aim_limits", "sparse", "rooms")
)

AIM_NAMES = {
    "AmpResult": (AIM, "test_measured_columns_have_theory_beside_them"),
    "Atoms": (AIM, "test_scale_of_the_target_and_temperature_are_one"),
    "Channel": (LIMITS, "test_two_tokens_are_a_case_of_many"),
    "Comparison": (AIM, "test_measured_columns_have_theory_beside_them"),
    "CrossEntropy": (ROOMS, "test_proximal_points_of_a_convex_loss_never_move_apart"),
    "Curve": (AIM, "test_curve_does_not_know_the_order_of_its_points"),
    "Decomposition": (AIM, "test_scaling_and_phases_are_predictions"),
    "Feature": (AIM, "test_features_emerge_from_large_to_small"),
    "Learner": (AIM, "test_every_variant_is_bounded_and_agrees_with_its_spectrum"),
    "MarchenkoPastur": (AIM, "test_thresholds_are_in_order_and_move_the_right_way"),
    "Method": (AIM, "test_training_stays_within_what_any_head_can_do"),
    "NuclearEquivalence": (AIM, "test_factors_and_product_reach_the_same_minimum"),
    "PhaseDiagram": (AIM, "test_scaling_and_phases_are_predictions"),
    "Plateau": (AIM, "test_plateau_shrinks_with_noise"),
    "PowerLaw": (AIM, "test_scaling_and_phases_are_predictions"),
    "Prediction": (AIM, "test_every_variant_is_bounded_and_agrees_with_its_spectrum"),
    "Scaling": (AIM, "test_scaling_and_phases_are_predictions"),
    "Spectrum": (LIMITS, "test_interpolating_limit_solves_its_equations"),
    "Spikes": (LIMITS, "test_many_atoms_act_as_the_law_they_are_drawn_from"),
    "Squared": (LIMITS, "test_two_tokens_are_a_case_of_many"),
    "Target": (AIM, "test_every_variant_is_bounded_and_agrees_with_its_spectrum"),
    "Task": (AIM, "test_every_variant_is_bounded_and_agrees_with_its_spectrum"),
    "Thresholds": (AIM, "test_thresholds_are_in_order_and_move_the_right_way"),
    "TrainingResult": (AIM, "test_training_stays_within_what_any_head_can_do"),
    "Tuned": (AIM, "test_the_best_weight_decay_does_better_with_more_samples"),
    "Variant": (AIM, "test_training_stays_within_what_any_head_can_do"),
    "amp": (AIM, "test_measured_columns_have_theory_beside_them"),
    "compare": (AIM, "test_measured_columns_have_theory_beside_them"),
    "curve": (AIM, "test_curve_does_not_know_the_order_of_its_points"),
    "decompose": (AIM, "test_scaling_and_phases_are_predictions"),
    "features": (AIM, "test_features_emerge_from_large_to_small"),
    "nuclear_equivalence": (AIM, "test_factors_and_product_reach_the_same_minimum"),
    "phase_diagram": (AIM, "test_scaling_and_phases_are_predictions"),
    "plateau": (AIM, "test_plateau_shrinks_with_noise"),
    "predict": (LIMITS, "test_vanishing_noise"),
    "scaling": (AIM, "test_scaling_and_phases_are_predictions"),
    "softmax": (AIM, "test_softmax_is_a_probability_and_knows_differences_only"),
    "spectrum": (LIMITS, "test_interpolating_limit_solves_its_equations"),
    "thresholds": (AIM, "test_thresholds_without_noise"),
    "train": (AIM, "test_training_stays_within_what_any_head_can_do"),
    "tune": (AIM, "test_the_best_weight_decay_does_better_with_more_samples"),
}

SPARSE_NAMES = {
    "Alignment": (SPARSE, "test_balanced_classes_always_align"),
    "Capacity": (SPARSE, "test_capacity_is_where_training_errors_begin"),
    "Comparison": (SPARSE, "test_trained_readouts_stay_within_bounds"),
    "Curve": (SPARSE, "test_maps_curves_and_tuning_are_predictions"),
    "FiniteSize": (SPARSE, "test_maps_curves_and_tuning_are_predictions"),
    "Hinge": (SPARSE, "test_proximal_points_never_move_apart"),
    "Landscape": (SPARSE, "test_maps_curves_and_tuning_are_predictions"),
    "Logistic": (SPARSE, "test_proximal_points_never_move_apart"),
    "Loss": (SPARSE, "test_proximal_points_never_move_apart"),
    "Oracle": (SPARSE, "test_oracle_is_in_order"),
    "Prediction": (SPARSE, "test_every_readout_is_bounded"),
    "Protocol": (SPARSE, "test_balanced_classes_always_align"),
    "Square": (SPARSE, "test_proximal_points_never_move_apart"),
    "SquaredHinge": (SPARSE, "test_proximal_points_never_move_apart"),
    "Task": (SPARSE, "test_growth_keeps_what_it_promises"),
    "TrainingResult": (SPARSE, "test_trained_readouts_stay_within_bounds"),
    "Tuned": (SPARSE, "test_tuning_never_makes_it_worse"),
    "align": (SPARSE, "test_balanced_classes_always_align"),
    "capacity": (SPARSE, "test_capacity_is_where_training_errors_begin"),
    "compare": (SPARSE, "test_trained_readouts_stay_within_bounds"),
    "critical_bias_rate": (SPARSE, "test_balanced_classes_always_align"),
    "curve": (SPARSE, "test_maps_curves_and_tuning_are_predictions"),
    "draw": (SPARSE, "test_drawn_samples_have_the_form_of_the_task"),
    "finite_size": (SPARSE, "test_maps_curves_and_tuning_are_predictions"),
    "grow": (SPARSE, "test_growth_keeps_what_it_promises"),
    "landscape": (SPARSE, "test_maps_curves_and_tuning_are_predictions"),
    "misalignment_constant": (SPARSE, "test_misalignment_vanishes_as_one_over_the_samples"),
    "oracle": (SPARSE, "test_oracle_is_in_order"),
    "predict": (SPARSE, "test_every_readout_is_bounded"),
    "ridgeless": (SPARSE, "test_ridgeless_expansion_is_the_tail_of_predict"),
    "separable_share": (SPARSE, "test_finite_samples_separate_below_capacity"),
    "train": (SPARSE, "test_trained_readouts_stay_within_bounds"),
    "tune": (SPARSE, "test_tuning_never_makes_it_worse"),
}

# classes that a test meets as the answer of a verb, or as the strategy that makes its arguments, not by their own name
MET_AS = {
    "aim": {
        "Channel": "PlainSquared",
        "Curve": "aim.curve",
        "Decomposition": "aim.decompose",
        "Feature": "aim.features",
        "Learner": "learner",
        "PhaseDiagram": "aim.phase_diagram",
        "Plateau": "aim.plateau",
        "Prediction": "check_prediction",
        "Scaling": "aim.scaling",
        "Spectrum": "aim.spectrum",
        "Squared": "PlainSquared",
        "Target": "targets",
        "Thresholds": "aim.thresholds",
        "Tuned": "aim.tune",
        "CrossEntropy": "CrossEntropy",
    },
    "sparse": {},
}


def test_the_table_lists_every_public_name():
    assert sorted(AIM_NAMES) == sorted(aim.__all__)
    assert sorted(SPARSE_NAMES) == sorted(sparse.__all__)


@pytest.mark.parametrize(
    ("half", "name", "place"),
    [("aim", name, place) for name, place in AIM_NAMES.items()]
    + [("sparse", name, place) for name, place in SPARSE_NAMES.items()],
)
def test_the_test_exists_and_speaks_of_the_name(half, name, place):
    file, function = place
    source = (TESTS / file).read_text(encoding="utf-8")
    bodies = {
        node.name: "\n".join([*map(ast.unparse, node.decorator_list), ast.unparse(node)])
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }
    assert function in bodies
    assert MET_AS[half].get(name, f"{half}.{name}") in bodies[function]
