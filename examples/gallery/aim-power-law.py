import numpy as np

import onehead as oh

task, axes = oh.aim.Task(oh.aim.PowerLaw(gamma=0.75, dim=200)), None
for decay in ("1/d", 1.0, "sqrt(d)"):
    law = oh.aim.scaling(task, oh.aim.Learner(weight_decay=decay, leading=0), np.geomspace(500, 100_000, 12))
    axes = oh.plot.scaling(law, quantity="excess_error", label=f"weight decay {decay}", ax=axes)
oh.plot.save(axes, "aim-power-law.png")
