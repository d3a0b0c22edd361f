# %% [markdown]
# # A weak signal in one token of ten
#
# Half of the sequences hide a signal in one random token. Attention can look for it; a linear classifier on the pooled
# sequence sees it diluted, one on the whole sequence does not know where to look.

# %%
import onehead as oh

task = oh.sparse.Task(length=10, signal_tokens=1, strength=5.0, positive_rate=0.5)
plan = oh.sparse.Protocol(alpha0=1.0, alpha1=1.0, beta=8.0, ridge=1e-3)
for model in ("attention", "pooled", "vectorised"):
    print(f"{model:10s} test error {oh.sparse.predict(task, plan, model=model).test_error:.4f}")

# %% [markdown]
# Attention learns where to look in two gradient steps. How well, depends on the samples they see:

# %%
oh.sparse.align(task, plan)

# %% [markdown]
# The lowest error of each model when the signal is known:

# %%
best = oh.sparse.oracle(task)
for model in ("softmax", "hardmax", "pooled", "vectorised", "bayes"):
    print(f"{model:10s} {getattr(best, model):.4f}")
