import numpy as np

import onehead as oh

task, alphas, axes = oh.aim.Task(), np.geomspace(0.05, 4.0, 20), None
for width in (0.75, 1.0):
    curve = oh.aim.curve(task, oh.aim.Learner(weight_decay=0.01, width=width), alphas)
    axes = oh.plot.learning_curve(curve, label=f"width {width}", ax=axes)
runs = oh.aim.train(task, oh.aim.Learner(weight_decay=0.01), dim=40, alpha=0.5, seeds=2)
oh.plot.training_points(runs, ax=axes)
oh.plot.save(axes, "aim-learning-curve.png")
