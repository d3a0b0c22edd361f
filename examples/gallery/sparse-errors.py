import numpy as np

import onehead as oh

task, plan = oh.sparse.Task(strength=5.0), oh.sparse.Protocol(ridge=0.1)
models = ("attention", "pooled", "vectorised")
curves = {model: oh.sparse.curve(task, plan, np.geomspace(0.3, 8.0, 9), model=model) for model in models}
axes = oh.plot.error_curve(curves)
oh.plot.save(axes, "sparse-errors.png")
