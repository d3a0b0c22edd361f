import onehead as oh

axes = oh.plot.tuning(oh.aim.tune(oh.aim.Task(), oh.aim.Learner(), alpha=0.5, bayes=True))
oh.plot.save(axes, "own-best-decay.png")
