import onehead as oh

task, learner = oh.aim.Task(attention="cross"), oh.aim.Learner(weight_decay=0.3)
law = oh.aim.training_time(oh.aim.predict(task, learner, 1.0), 2.2, start=0.09)
run = oh.aim.gradient_descent(task, learner, dim=20, alpha=1.0, times=[2.2], start=0.09)
axes = oh.plot.fading(law, trained=run)
oh.plot.save(axes, "own-training-time.png")
