import numpy as np

import onehead as oh

task, axes = oh.aim.Task(oh.aim.PowerLaw(gamma=1.25, dim=200)), None
for leading in (0, "auto"):
    learner = oh.aim.Learner(weight_decay=1.0, leading=leading)
    curve = oh.aim.curve(task, learner, np.geomspace(0.05, 2.0, 6))
    axes = oh.plot.learning_curve(curve, quantity="test_error", label=f"leading={leading!r}", ax=axes)
oh.plot.save(axes, "own-power-laws.png")
