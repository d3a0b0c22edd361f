import numpy as np

import onehead as oh

cosines = np.linspace(0.0, 0.9, 7)
plans = [oh.sparse.Protocol(cos_query=cosine, sharpness=4.0) for cosine in cosines]
axes = oh.plot.capacity([oh.sparse.capacity(oh.sparse.Task(), plan) for plan in plans], cosines)
oh.plot.save(axes, "sparse-capacity.png")
