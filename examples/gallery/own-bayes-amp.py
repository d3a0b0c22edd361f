import onehead as oh

found = oh.aim.amp(oh.aim.Task(), oh.aim.Learner(), dim=60, alpha=1.0, iterations=30, method="bayes")
axes = oh.plot.message_passing(found)
oh.plot.save(axes, "own-bayes-amp.png")
