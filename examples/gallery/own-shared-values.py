import numpy as np

import onehead as oh

axes = None
for sharing in (0.0, 0.8, 0.9):
    task = oh.aim.Task(attention="cross", heads=2, sharing=sharing)
    curve = oh.aim.curve(task, oh.aim.Learner(weight_decay=0.05), np.geomspace(0.8, 4.0, 6))
    axes = oh.plot.learning_curve(curve, quantity="test_error", label=f"ρ = {sharing:g}", ax=axes)
oh.plot.save(axes, "own-shared-values.png")
