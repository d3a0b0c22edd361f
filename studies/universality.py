"""Tokens of another kurtosis: does the exact average over the trace of the map explain what trained heads show?

``python -m studies.universality FOLDER [dim seeds]`` writes the table of the documentation (page "When logits are not Gaussian").

A logit of a token with itself is (x' S x - Tr S)/sqrt d. With S = τ I + S', τ = Tr S/d, its part from S' is Gaussian whatever the law
of the entries of x, and that from the identity is τ g, g of variance kurtosis - 1 instead of 2; on the sphere g is zero. So the
identity is a direction that is told apart (P11): with η its part of the coordinates,

    u* = τ* η + r,   v = τ η + (m'/Q') r + w,   R = Sigmahat τ + 2 α E[pull.η]/Sigma,   τ_eff = R/mhat,

and all eigenvalues of the blurred target move by τ_eff - τ*, which is a threshold 2λ/mhat - (τ_eff - τ*).
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from checks import tool

from onehead import aim
from onehead.aim.equations.averages import sliced
from onehead.aim.equations.kernels import pair_sums
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import Hats
from onehead.numerics.gaussian import sobol

LAWS = {"gaussian": 3.0, "rademacher": 1.0, "sphere": 1.0, "heavy-tailed": 9.0, "sparse": 30.0}
ALPHAS = (0.1, 0.3, 1.0)
SEED = 77
DAMPING, STEPS, CLOSE = 0.5, 200, 1e-6


def predicted(kurtosis: float, alpha: float) -> dict[str, float]:
    """The head of the figure (kappa0 = noise = .5, λ = .01, T = 2) on tokens of this kurtosis, by damped turns from Gaussian ones."""
    task, learner = aim.Task(), aim.Learner()
    problem, near = StateEvolution.of(task, learner), aim.predict(task, learner, alpha)
    (block,), rule = problem.output.geometry.blocks, sobol(7, log2_points=15, seed=1)
    told, label = task.target.mean, problem.label_power - task.target.mean**2
    state = np.array([near.q, near.m, aim.spectrum(near).mean, near.sigma])
    eta = np.sqrt(kurtosis - 1.0) * rule.nodes[:, 4:6] - rule.nodes[:, 6:]
    r = np.sqrt(label) * rule.nodes[:, :2] @ block.root.T
    u, points = np.ascontiguousarray(r + told * eta), np.empty(r.shape)
    for _ in range(STEPS):
        q, m, tau, sigma = state.tolist()
        rest, shared = q - tau**2, m - tau * told
        spare = np.sqrt(max(rest - shared**2 / label, 1e-12)) * rule.nodes[:, 2:4] @ block.root.T
        own = shared / label * r + spare
        v = np.ascontiguousarray(own + tau * eta)
        before = (problem.output.loss.compiled_pair, block.metric, block.row_fits)
        nodes, how = (u, v, rule.weights, points), (1.0, 0.0, 1.0, sigma, 0, 1, 1)
        distance = float(sliced(pair_sums, 9, 64, before, nodes, how).sum(axis=0)[0])
        pull = rule.weights[:, None] * ((points - v) @ block.metric)
        along = {name: float(np.sum(pull * part)) for name, part in (("r", r), ("own", own), ("eta", eta))}
        area = sigma * (label * rest - shared**2)
        m_hat = 2.0 * alpha * (rest * along["r"] - shared * along["own"]) / area  # Stein forms of the rest
        sigma_hat = -2.0 * alpha * (label * along["own"] - shared * along["r"]) / area
        seen = (sigma_hat * tau + 2.0 * alpha * along["eta"] / sigma) / m_hat
        threshold = 2.0 * learner.decay / m_hat - (seen - told)
        moved = replace(problem.input, decay=0.5 * threshold * m_hat)
        found = moved.overlaps(Hats(2.0 * alpha * distance / sigma**2, m_hat, sigma_hat))
        new = np.array([found.q, found.m, found.tau, found.sigma])
        if np.max(np.abs(new / state - 1.0)) < CLOSE:
            break
        state *= (new / state) ** DAMPING
    else:
        return {"test_error": np.nan, "q": np.nan, "m": np.nan, "tau": np.nan, "seen": np.nan}
    error = float(rule.weights @ np.sum((np.tanh(0.5 * u) - np.tanh(0.5 * v)) ** 2, axis=1)) / 2.0
    return {"test_error": error, "q": q, "m": m, "tau": tau, "seen": seen / told}


def measured(law: Any, alpha: float, dim: int, seeds: int) -> dict[str, float]:
    """Heads trained on these tokens."""
    method = aim.Method(starts=1)
    variant = aim.Variant(token_law=law)
    runs = aim.train(
        aim.Task(), aim.Learner(), dim=dim, alpha=alpha, seeds=seeds, seed=SEED, variant=variant, method=method
    )
    tau = float(np.mean([np.trace(run.map) / dim for run in runs.runs]))
    numbers = {name: getattr(runs, name) for name in ("test_error", "q", "m")}
    return {**numbers, "error": runs.spread["test_error_err"], "tau": tau}


def main() -> None:
    """Both, side by side."""
    folder, (dim, seeds) = Path(sys.argv[1]), (int(size) for size in sys.argv[2:] or ("60", "6"))
    head = ["tokens", "kurtosis", "α", "trained", "theory", "q", "theory", "Tr S/d", "theory", "τ_eff/τ*"]
    lines = []
    for law, kurtosis in LAWS.items():
        for alpha in ALPHAS:
            run, theory = measured(law, alpha, dim, seeds), predicted(kurtosis, alpha)
            shown = [f"{run['test_error']:.4f} ± {run['error']:.4f}", f"{theory['test_error']:.4f}"]
            shown += [f"{side[name]:.3f}" for name in ("q", "tau") for side in (run, theory)]
            lines.append([law, f"{kurtosis:g}", f"{alpha:g}", *shown, f"{theory['seen']:.3f}"])
            print(*lines[-1], flush=True)
    (folder / "universality.md").write_text(tool.table(head, lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
