import numpy as np

import onehead as oh

axes = None
for attention in ("tied", "self", "cross"):
    task = oh.aim.Task(attention=attention)
    curve = oh.aim.curve(task, oh.aim.Learner(weight_decay=0.05), np.geomspace(0.2, 4.0, 8))
    axes = oh.plot.learning_curve(curve, quantity="test_error", label=attention, ax=axes)
oh.plot.save(axes, "own-heads.png")
