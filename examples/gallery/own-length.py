import matplotlib.pyplot as plt

import onehead as oh

task, plan = oh.sparse.Task(length=10), oh.sparse.Protocol(ridge=0.1)
lengths = (5, 10, 20, 40, 80)
_, axes = plt.subplots()
axes.plot(lengths, [oh.sparse.predict(task, plan, test_length=length).test_error for length in lengths], "o-")
axes.set(xlabel="length of test sequences", ylabel="test error")
oh.plot.save(axes, "own-length.png")
