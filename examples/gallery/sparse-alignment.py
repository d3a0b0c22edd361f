import numpy as np

import onehead as oh

task, ratios = oh.sparse.Task(), np.geomspace(0.1, 20.0, 16)
found = [oh.sparse.align(task, oh.sparse.Protocol(alpha0=alpha0)) for alpha0 in ratios]
axes = oh.plot.alignment(found, ratios)
oh.plot.save(axes, "sparse-alignment.png")
