import numpy as np

import onehead as oh

task, plan = oh.sparse.Task(strength=5.0), oh.sparse.Protocol(ridge=0.1)
curve = oh.sparse.curve(task, plan, np.geomspace(0.3, 8.0, 9), bayes=True)
axes = oh.plot.error_curve(curve)
oh.plot.save(axes, "own-sparse-gap.png")
