"""The equations of a head: order parameters, state evolution, and what builds them from a task and a learner."""
