import matplotlib.pyplot as plt
import numpy as np

import onehead as oh

task, alphas = oh.aim.Task(attention="self"), np.geomspace(0.3, 4.0, 8)
points = [oh.aim.predict(task, oh.aim.Learner(weight_decay=0.05), alpha) for alpha in alphas]
_, axes = plt.subplots()
for i, name in enumerate(("symmetric", "antisymmetric")):
    axes.semilogx(alphas, [point.sectors["m"][i] for point in points], label=name)
axes.legend()
oh.plot.save(axes, "own-sectors.png")
