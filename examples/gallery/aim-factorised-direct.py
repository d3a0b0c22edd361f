import numpy as np

import onehead as oh

task, axes = oh.aim.Task(oh.aim.MarchenkoPastur(0.05), noise=0.05), None
for param in ("factorised", "direct"):
    curve = oh.aim.curve(task, oh.aim.Learner(param=param), np.geomspace(0.05, 1.0, 8), tuned=True)
    axes = oh.plot.learning_curve(curve, label=param, ax=axes)
oh.plot.save(axes, "aim-factorised-direct.png")
