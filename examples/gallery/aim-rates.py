import onehead as oh

task = oh.aim.Task(oh.aim.PowerLaw(gamma=0.75, dim=200))
axes = oh.plot.phases(oh.aim.phase_diagram(task))
oh.plot.save(axes, "aim-rates.png")
