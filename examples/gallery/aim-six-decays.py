import numpy as np

import onehead as oh

axes = None
for decay in ("0+", 1e-4, 1e-3, 1e-2, 1e-1, 1.0):
    curve = oh.aim.curve(oh.aim.Task(), oh.aim.Learner(weight_decay=decay), np.geomspace(0.05, 2.0, 24))
    axes = oh.plot.learning_curve(curve, quantity="test_error_clean", label=f"weight decay {decay}", ax=axes)
oh.plot.save(axes, "aim-six-decays.png")
