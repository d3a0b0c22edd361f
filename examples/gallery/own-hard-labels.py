import numpy as np

import onehead as oh

head, axes = oh.aim.Learner(loss="cross-entropy", weight_decay=0.01), None
for labels in ("soft", "hard"):
    task = oh.aim.Task(attention="cross", labels=labels)
    curve = oh.aim.curve(task, head, np.geomspace(0.2, 6.0, 10))
    axes = oh.plot.learning_curve(curve, quantity="test_error", label=f"{labels} labels", ax=axes)
oh.plot.save(axes, "own-hard-labels.png")
