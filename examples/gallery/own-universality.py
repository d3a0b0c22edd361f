import onehead as oh

task, head, axes = oh.aim.Task(), oh.aim.Learner(weight_decay=0.05), None
for law in ("gaussian", "rademacher", "sphere"):
    runs = oh.aim.train(task, head, dim=40, alpha=1.0, seeds=2, variant=oh.aim.Variant(token_law=law))
    axes = oh.plot.training_points(runs, label=law, ax=axes)
oh.plot.save(axes, "own-universality.png")
