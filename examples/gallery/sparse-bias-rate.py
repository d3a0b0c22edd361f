import numpy as np

import onehead as oh

axis = np.linspace(0.1, 3.0, 12)
found = oh.sparse.map(
    oh.sparse.Task(positive_rate=0.3), oh.sparse.Protocol(), x=("eta_w", axis), y=("eta_b", axis), of="cos_query"
)
axes = oh.plot.heat_map(found)
oh.plot.save(axes, "sparse-bias-rate.png")
