import numpy as np

import onehead as oh

head, axes = oh.aim.Learner(loss="cross-entropy", weight_decay=0.01), None
for tokens in (4, 32, 256):
    task = oh.aim.Task(attention="cross", tokens=tokens)
    curve = oh.aim.curve(task, head, np.geomspace(0.3, 3.0, 5) / tokens)
    axes = oh.plot.learning_curve(curve, quantity="rank", label=f"{tokens} tokens", ax=axes)
oh.plot.save(axes, "own-many-tokens.png")
