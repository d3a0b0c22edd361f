import numpy as np

import onehead as oh

axes = None
for spectrum in ("isotropic", "subspace:0.5"):
    task = oh.aim.Task(attention="cross", token_spectrum=spectrum)
    curve = oh.aim.curve(task, oh.aim.Learner(weight_decay=0.05), np.geomspace(0.2, 4.0, 8))
    axes = oh.plot.learning_curve(curve, quantity="test_error", label=spectrum, ax=axes)
oh.plot.save(axes, "own-token-covariance.png")
