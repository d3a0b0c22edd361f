# %% [markdown]
# # A first learning curve
#
# A head with tied queries and keys is trained with weight decay on sequences whose labels come from another head, the
# target. How well does it do on fresh sequences? The theory answers without training.

# %%
import numpy as np

import onehead as oh

task = oh.aim.Task(target=oh.aim.MarchenkoPastur(kappa0=0.5), noise=0.5, tokens=2)
head = oh.aim.Learner(weight_decay=0.01)
oh.aim.predict(task, head, alpha=0.5)

# %% [markdown]
# `alpha` is the number of samples over d². The badge says how the solve ended and what kind of truth the theory is.
# As text:

# %%
print(oh.aim.predict(task, head, alpha=0.5).explain())

# %% [markdown]
# A whole curve, with the sample ratios where behaviour changes:

# %%
curve = oh.aim.curve(task, head, alphas=np.linspace(0.05, 2.0, 16))
oh.plot.learning_curve(curve, thresholds=oh.aim.thresholds(task, head))

# %% [markdown]
# And a real head of dimension 40. A run at finite size differs from the limit by a few per cent.

# %%
runs = oh.aim.train(task, head, dim=40, alpha=0.5, seeds=4)
for line in runs.against(oh.aim.predict(task, head, alpha=0.5)):
    print(f"{line.quantity:18s} trained {line.measured:8.4f} ± {line.standard_error:.4f}   theory {line.predicted:8.4f}")
