import numpy as np

import onehead as oh

axes = None
for beta in (0.5, 1.0, 2.0):
    task, head = oh.aim.Task(beta0=beta), oh.aim.Learner(weight_decay=0.01, beta=beta)
    curve = oh.aim.curve(task, head, np.geomspace(0.1, 4.0, 16))
    axes = oh.plot.learning_curve(curve, quantity="test_error", label=f"temperature {1 / beta:g}", ax=axes)
oh.plot.save(axes, "aim-temperatures.png")
