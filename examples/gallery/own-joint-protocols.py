import onehead as oh

task, ratios = oh.sparse.Task(length=10, strength=5.0), [0.5, 1.0, 2.0, 4.0, 8.0]
best = [oh.sparse.bayes(task, alpha) for alpha in ratios]
axes = oh.plot.best_error(best, ratios)
for procedure in ("reuse", "descend"):
    found = [oh.sparse.tune_joint(task, oh.sparse.Protocol(), procedure, alpha=alpha) for alpha in ratios]
    axes.plot(ratios, [point.test_error for point in found], "o-", label=procedure)
axes.legend()
oh.plot.save(axes, "own-joint-protocols.png")
