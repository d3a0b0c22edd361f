import onehead as oh

task = oh.sparse.Task(length=10, strength=5.0)
plan = oh.sparse.Protocol(beta=1.0, eta_w=0.5, eta_b=3.0, ridge=0.1, ridge_query=0.03)
axes = oh.plot.descent([oh.sparse.descend(task, plan, steps=20)])
oh.plot.save(axes, "own-joint-steps.png")
