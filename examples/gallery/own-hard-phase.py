import onehead as oh

lengths = (50, 100, 300, 1000)
found = [oh.sparse.bayes(oh.sparse.Task(length=length, strength=8.0), alpha=1.0) for length in lengths]
axes = oh.plot.hard_phase(found, lengths)
oh.plot.save(axes, "own-hard-phase.png")
