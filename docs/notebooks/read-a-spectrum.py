# %% [markdown]
# # What does the trained map look like?
#
# The eigenvalues of the trained query-key map have a law: zeros that weight decay made, a bulk of noise, and learned features.

# %%
import onehead as oh

task = oh.aim.Task(target=oh.aim.Spikes(spikes=(9.0, 4.5, 2.7), dim=200), noise=0.5)
head = oh.aim.Learner(weight_decay=0.02)
law = oh.aim.spectrum(oh.aim.predict(task, head, alpha=0.4))
oh.plot.spectrum(law)

# %% [markdown]
# Each feature with its learned size, and how well its direction was found:

# %%
for feature in law.outliers:
    print(f"target {feature.target:4.1f}   learned {feature.position:5.2f}   squared overlap {feature.overlap:.3f}")

# %% [markdown]
# The same from a trained head:

# %%
import numpy as np

runs = oh.aim.train(task, head, dim=200, alpha=0.4, seeds=1)
print("largest trained eigenvalues", np.sort(runs.eigenvalues)[::-1][:4].round(2))
print(f"zero eigenvalues: {np.mean(runs.eigenvalues < 1e-3 * runs.eigenvalues.max()):.1%} trained, {law.zero_mass:.1%} in theory")
