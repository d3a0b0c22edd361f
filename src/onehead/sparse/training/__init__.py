"""The protocol on finite samples: samplers, minimisers, message passing, and the comparison with theory.

Predictions without finite samples are in `verbs`.
"""
