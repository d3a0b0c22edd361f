import numpy as np

import onehead as oh

task, alphas = oh.aim.Task(), np.geomspace(0.05, 4.0, 10)
curve = oh.aim.curve(task, oh.aim.Learner(), alphas, tuned=True, bayes=True)
axes = oh.plot.learning_curve(curve)
oh.plot.save(axes, "own-best-possible.png")
