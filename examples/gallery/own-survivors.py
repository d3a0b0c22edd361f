import matplotlib.pyplot as plt
import numpy as np

import onehead as oh

task, decays = oh.aim.Task(attention="cross", heads=2), np.geomspace(0.01, 0.1, 8)
found = [oh.aim.survivors(task, oh.aim.Learner(weight_decay=x, values="learnt"), np.inf) for x in decays]
_, axes = plt.subplots()
for head in (0, 1):
    axes.semilogx(decays, [one.trace_norms[head] for one in found], label=f"head {head + 1}")
axes.set_xlabel("λ/α")
axes.set_ylabel("mean singular value of the map")
axes.legend()
oh.plot.save(axes, "own-survivors.png")
