import numpy as np

import onehead as oh

task = oh.aim.Task(oh.aim.PowerLaw(gamma=0.75, dim=200))
learner = oh.aim.Learner(weight_decay="1/d", leading=0)
axes = oh.plot.scaling(oh.aim.scaling(task, learner, np.geomspace(500, 100_000, 16)))
oh.plot.save(axes, "aim-decomposition.png")
