"""Numerical methods without physics: fixed points, roots, quadrature, proximal operators, compilation and threads.

Nothing here knows of attention, tasks or learners; equations of the theories belong to `onehead.aim` and
`onehead.sparse`.
"""
