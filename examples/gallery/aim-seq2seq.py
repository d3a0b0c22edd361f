import onehead as oh

task, head = oh.aim.Task(), oh.aim.Learner(weight_decay=0.01)
axes = None
for output in ("label", "sequence"):
    runs = oh.aim.train(task, head, dim=40, alpha=1.0, seeds=2, variant=oh.aim.Variant(output=output))
    axes = oh.plot.training_points(runs, label=output, ax=axes)
oh.plot.save(axes, "aim-seq2seq.png")
