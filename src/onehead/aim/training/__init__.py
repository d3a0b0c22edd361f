"""Training of heads of finite size, and its comparison with the theory.

Data (`data`, `instance`), objectives and parametrisations, approximate message passing, and the public functions
train(), compare(), amp() and nuclear_equivalence(). Predictions belong to `onehead.aim.verbs`.
"""
