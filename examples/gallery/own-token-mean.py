import numpy as np

import onehead as oh

axes = None
for unasked in (0.0, 0.5, 0.8):
    task = oh.aim.Task(attention="cross", unasked=unasked)
    curve = oh.aim.curve(task, oh.aim.Learner(weight_decay=0.05), np.geomspace(0.2, 4.0, 24))
    axes = oh.plot.learning_curve(curve, quantity="test_error", label=f"unasked share {unasked}", ax=axes)
oh.plot.save(axes, "own-token-mean.png")
