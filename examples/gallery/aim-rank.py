import numpy as np

import onehead as oh

curve = oh.aim.curve(oh.aim.Task(), oh.aim.Learner(weight_decay=0.01), np.geomspace(0.05, 40.0, 20))
axes = oh.plot.learning_curve(curve, quantity="rank")
oh.plot.save(axes, "aim-rank.png")
