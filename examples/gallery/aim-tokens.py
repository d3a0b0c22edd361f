import numpy as np

import onehead as oh

axes = None
for tokens in (2, 3, 5):
    logits = (tokens**2 + tokens - 2) / 2  # informative combinations of a sequence
    curve = oh.aim.curve(oh.aim.Task(tokens=tokens), oh.aim.Learner(), np.geomspace(0.2, 4.0, 6) / logits)
    axes = oh.plot.learning_curve(curve, quantity="rank", label=f"{tokens} tokens", ax=axes)
oh.plot.save(axes, "aim-tokens.png")
