import onehead as oh

found = oh.aim.amp(oh.aim.Task(), oh.aim.Learner(weight_decay=0.05), dim=60, alpha=1.0, iterations=30)
axes = oh.plot.message_passing(found)
oh.plot.save(axes, "aim-amp.png")
