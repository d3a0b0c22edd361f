import numpy as np

import onehead as oh

axes = None
for loss in ("squared", "cross-entropy"):
    curve = oh.aim.curve(oh.aim.Task(), oh.aim.Learner(loss=loss), np.geomspace(0.1, 4.0, 12))
    axes = oh.plot.learning_curve(curve, quantity="test_error", label=loss, ax=axes)
oh.plot.save(axes, "own-cross-entropy.png")
