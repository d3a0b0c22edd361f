import onehead as oh

task, head = oh.aim.Task(attention="cross"), oh.aim.Learner(weight_decay=0.05)
runs = oh.aim.train(task, head, dim=60, alpha=1.0, seeds=2)
axes = oh.plot.trained_spectrum(runs, oh.aim.spectrum(oh.aim.predict(task, head, alpha=1.0)))
oh.plot.save(axes, "own-heads-spectra.png")
