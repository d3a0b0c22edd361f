# %% [markdown]
# # How much weight decay?
#
# Too little and the head fits noise; too much and it forgets small features. Theory finds the best value without a grid of
# training runs.

# %%
import onehead as oh

task = oh.aim.Task(target=oh.aim.MarchenkoPastur(kappa0=0.2), noise=0.5)
best = oh.aim.tune(task, oh.aim.Learner(weight_decay=0.01), alpha=0.5)
best

# %% [markdown]
# `flat_from` and `flat_to` bound the values whose error is within 0.1 % of the best: there is no need to be precise.

# %%
oh.plot.tuning(best)

# %% [markdown]
# The improvement over the value we started from:

# %%
print(f"weight decay {best.weight_decay:.3g} instead of 0.01: test error {best.test_error:.4f}, {best.gain:.4f} less")
