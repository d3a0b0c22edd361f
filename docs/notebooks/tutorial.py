# %% [markdown]
# # Tutorial: thirty minutes with one attention head
#
# You will predict a learning curve, check it against real training, choose a weight decay, read the spectrum of a
# trained map, and ask how much better any learner could be. Each part ends with an exercise; its solution is folded
# below it. You need Python and nothing else; no GPU.
#
# **The setting.** A *teacher* is an attention head with a fixed map $S^\star$. It labels sequences of T tokens of
# dimension d with its attention matrix, after adding noise of variance Δ to its logits. A *learner* is trained on
# $n = \alpha d^2$ such sequences, with weight decay λ. The map has $d^2$ entries, so α counts samples per unknown. For
# large d the result does not depend on the sampled data any more, and the theory computes it.

# %% [markdown]
# ## 1. A prediction
#
# A *task* is what is to be learned, a *learner* is what learns it.

# %%
import numpy as np

import onehead as oh

task = oh.aim.Task(target=oh.aim.MarchenkoPastur(kappa0=0.5), noise=0.5, tokens=2)
head = oh.aim.Learner(weight_decay=0.01)
point = oh.aim.predict(task, head, alpha=0.5)
print(f"test error {point.test_error:.4f}, rank {point.rank:.3f}, {point.status}")

# %% [markdown]
# `test_error` is measured on fresh sequences with noisy labels; `rank` is the share of eigenvalues of the trained map
# that are not zero. Every number has an error, and the certificate says what kind of truth the theory is:

# %%
print(point.errors["test_error"], point.certificate.kind)

# %% [markdown]
# **Exercise 1.** The labels are noisy, so even a perfect learner has a test error above zero. Which part of the test
# error at α = 0.5 is due to the noise? (Look for the error on labels without noise.)

# %% solution
print(f"with noise {point.test_error:.4f}, without {point.test_error_clean:.4f}")

# %% [markdown]
# ## 2. A learning curve, and training over it

# %%
curve = oh.aim.curve(task, head, alphas=np.geomspace(0.05, 3.0, 14))
runs = oh.aim.train(task, head, dim=40, alpha=0.5, seeds=4)
axes = oh.plot.learning_curve(curve, quantity="test_error")
oh.plot.training_points(runs, quantity="test_error", ax=axes)

# %% [markdown]
# The marker is the mean of four heads of dimension 40, trained by L-BFGS on sampled sequences; its bar is the standard
# error. Theory and training take the same task and learner, so that both use the same conventions.

# %%
for line in runs.against(point):
    print(f"{line.quantity:18s} trained {line.measured:8.4f} ± {line.standard_error:.4f}   theory {line.predicted:8.4f}")

# %% [markdown]
# **Exercise 2.** Dimension 40 is far from infinity. Train at d = 20 as well. Does the difference to the theory shrink
# as d grows?

# %% solution
for dim in (20, 40):
    trained = oh.aim.train(task, head, dim=dim, alpha=0.5, seeds=4)
    print(f"d = {dim}: trained {trained.test_error:.4f}, theory {point.test_error:.4f}")

# %% [markdown]
# ## 3. How much weight decay?

# %%
best = oh.aim.tune(task, head, alpha=0.5)
print(f"best weight decay {best.weight_decay:.3g}, test error {best.test_error:.4f} instead of {point.test_error:.4f}")

# %% [markdown]
# Weight decay multiplies the trace of the map while the loss is a sum over samples: per sample, the best weight decay
# falls with α; in these units it rises.
#
# **Exercise 3.** Find the best weight decay for α = 0.2 and for α = 1. By which factor does it change, and by which
# factor does it change per sample?

# %% solution
few, many = (oh.aim.tune(task, head, alpha=alpha).weight_decay for alpha in (0.2, 1.0))
print(f"{few:.3g} and {many:.3g}: a factor {many / few:.2f}, per sample {many / few / 5.0:.2f}")

# %% [markdown]
# ## 4. What the weights look like
#
# Weight decay on the factors of S = WᵀW is a penalty on its trace: small eigenvalues become exactly zero, the others
# shrink. The law of the eigenvalues follows from the same solution:

# %%
law = oh.aim.spectrum(oh.aim.predict(task.changed(target=oh.aim.MarchenkoPastur(kappa0=0.2)), head, alpha=1.0))
oh.plot.spectrum(law)

# %% [markdown]
# **Exercise 4.** The teacher has rank 0.2 d. Which share of eigenvalues of the trained map is not zero, and how many
# of them belong to features of the teacher? (`law.edges` lists the bulks.)

# %% solution
print(f"not zero: {1.0 - law.zero_mass:.3f}; bulks {[tuple(round(x, 2) for x in edge) for edge in law.edges]}")

# %% [markdown]
# ## 5. How far from the best possible?
#
# The Bayes-optimal learner knows how the data were generated, but not the teacher. No learner has a lower error.

# %%
possible = oh.aim.bayes(task, alpha=0.5)
print(f"best possible {possible.test_error:.4f}, tuned head {best.test_error:.4f}")

# %% [markdown]
# **Exercise 5.** How many samples does the best possible learner need for the error that the tuned head reaches at
# α = 0.5?

# %% solution
needed = oh.aim.data_for(task, best.test_error)
print(f"alpha = {needed:.3f}: the tuned head needs {0.5 / needed:.2f} times as many")

# %% [markdown]
# ## Where next?
#
# - The head that transformers train is untied, causal and has hard labels: *Which head do I have?*
# - Your own checkpoint: *Real checkpoints*. A weak signal in a few of many tokens: *Sparse tokens*.
# - Sliders in place of code: `onehead app`.
