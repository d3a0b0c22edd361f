"""When attention beats a linear classifier, and how its error depends on the direction of the query."""

import onehead as oh

task = oh.sparse.Task(length=10, signal_tokens=1, strength=5.0)

if __name__ == "__main__":
    plan = oh.sparse.Protocol(alpha0=1.0, alpha1=1.0)
    for model in ("attention", "pooled", "vectorised"):
        print(f"{model:10} test error {oh.sparse.predict(task, plan, model=model).test_error:.4f}")
    print(f"the two gradient steps reach a cosine of {oh.sparse.align(task, plan).cos_query:.2f} with the signal")
    for cosine in (0.0, 0.3, 0.6, 0.9):
        given = oh.sparse.Protocol(alpha0=1.0, alpha1=1.0, cos_query=cosine, sharpness=3.0)
        print(f"  with a query of cosine {cosine}: {oh.sparse.predict(task, given).test_error:.4f}")
