"""How much weight decay and how much data? Two questions answered without training."""

import numpy as np

import onehead as oh

task = oh.aim.Task(target=oh.aim.MarchenkoPastur(kappa0=0.5), noise=0.5)
head = oh.aim.Learner(weight_decay=0.01)

if __name__ == "__main__":
    tuned = oh.aim.tune(task, head, alpha=0.5)
    print(
        f"best weight decay {tuned.weight_decay:.3g}; anything from {tuned.flat_from:.2g} to {tuned.flat_to:.2g} is "
        f"as good"
    )
    goal = 0.10
    curve = oh.aim.curve(task, tuned.point.learner, np.linspace(0.2, 2.0, 10))
    enough = curve.column("alpha")[curve.column("test_error") < goal]
    print(
        f"a test error below {goal} takes about {enough.min():.1f} d^2 samples: {enough.min() * 128**2:,.0f} for d = "
        f"128"
    )
