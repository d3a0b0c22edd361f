import onehead as oh

lengths, axes = [100, 200, 400, 800], None
tasks = [oh.sparse.Task(length=length, strength=6.0) for length in lengths]
for eta_b in (0.5, 4.0):
    found = [oh.sparse.align(task, oh.sparse.Protocol(alpha0=10.0, eta_b=eta_b), dim=400) for task in tasks]
    if axes is None:
        axes = oh.plot.alignment(found, lengths, "length", quantity="cos_query", label="query, d → ∞")
    axes.plot(lengths, [point.cos_query_mean for point in found], "o", label=f"mean at d = 400, bias rate {eta_b:g}")
axes.legend()
oh.plot.save(axes, "own-long-alignment.png")
