"""Arrays in, arrays out: a target from a matrix of one's own, curves as arrays, and the samples of a training run."""

import numpy as np

import onehead as oh

if __name__ == "__main__":
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((40, 10))
    matrix = factors @ factors.T / 40.0  # any symmetric matrix
    target = oh.aim.Atoms(eigenvalues=np.linalg.eigvalsh(matrix))
    task, learner = oh.aim.Task(target), oh.aim.Learner(weight_decay=0.02)

    alphas = np.geomspace(0.1, 4.0, 8)
    curve = oh.aim.curve(task, learner, alphas)
    print(np.round(np.column_stack([alphas, curve.test_error, curve.rank]), 4))
    np.savez("curve.npz", alpha=alphas, **{name: np.asarray(getattr(curve, name)) for name in ("test_error", "q", "m")})

    sample = oh.aim.sample(oh.aim.Task(), dim=20, alpha=0.5, seed=rng)
    print(sample.tokens.shape, sample.labels.shape, sample.target.shape)

    tokens = oh.sparse.draw(oh.sparse.Task(length=6), rng, samples=100, dim=30)
    print(tokens.tokens.shape, tokens.label.mean())
