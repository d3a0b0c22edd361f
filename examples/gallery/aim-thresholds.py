import matplotlib.pyplot as plt
import numpy as np

import onehead as oh

kappas = np.linspace(0.1, 1.0, 10)
found = [oh.aim.thresholds(oh.aim.Task(oh.aim.MarchenkoPastur(kappa), noise=0.0)) for kappa in kappas]
_, axes = plt.subplots()
for name in ("interpolation", "recovery", "bayes_optimal"):
    axes.plot(kappas, [getattr(row, name) for row in found], label=name)
axes.legend()
oh.plot.save(axes, "aim-thresholds.png")
