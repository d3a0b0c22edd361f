"""How much data, and how much weight decay? Answers for a head of given size, with and without tuning."""

import onehead as oh

task = oh.aim.Task(noise=0.5)
DIM = 200

if __name__ == "__main__":
    learner = oh.aim.Learner(weight_decay=0.01)
    need = oh.aim.data_for(task, learner, 0.3)
    print(f"test error 0.3 needs α = {need.alpha:.3g}, that is {need.alpha * DIM**2:,.0f} samples at d = {DIM}")

    for alpha in (0.5, 2.0):
        tuned = oh.aim.tune(task, learner, alpha)
        print(f"α = {alpha:g}: best weight decay {tuned.weight_decay:.3g}, test error {tuned.test_error:.3f}")

    # how much attention gains over pooling when one token of ten carries the signal
    tokens, plan = oh.sparse.Task(length=10, strength=5.0), oh.sparse.Protocol(alpha0=1.0, alpha1=1.0, ridge=0.1)
    for model in ("attention", "pooled"):
        print(model, round(oh.sparse.predict(tokens, plan, model=model).test_error, 3))
