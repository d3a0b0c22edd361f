import matplotlib.pyplot as plt
import numpy as np

import onehead as oh

cosines = np.linspace(0.0, 0.95, 9)
plans = [oh.sparse.Protocol(cos_query=cosine, sharpness=3.0, ridge=0.1) for cosine in cosines]
_, axes = plt.subplots()
for model in ("attention", "pooled"):
    axes.plot(
        cosines, [oh.sparse.predict(oh.sparse.Task(), plan, model=model).test_error for plan in plans], label=model
    )
axes.legend()
oh.plot.save(axes, "sparse-crossing.png")
