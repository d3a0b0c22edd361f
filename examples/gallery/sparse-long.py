import onehead as oh

lengths = (10, 30, 100, 300, 1000)
found = [oh.sparse.oracle(oh.sparse.Task(length=length, strength=4.0)) for length in lengths]
axes = oh.plot.oracle(found, lengths)
oh.plot.save(axes, "sparse-long.png")
