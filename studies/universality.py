"""Tokens of another kurtosis: trained heads compared with the theory that treats the trace of the map explicitly.

``python -m studies.universality FOLDER [dim seeds]`` writes the table of the documentation (page "When logits are not
Gaussian", P11): heads with κ₀ = Δ = 0.5, λ = 0.01 and two tokens, trained on five laws of tokens, and the prediction
for their kurtosis.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from checks import tool

from onehead import aim

LAWS = ("gaussian", "rademacher", "sphere", "heavy-tailed", "sparse")
ALPHAS = (0.1, 0.3, 1.0)
SEED = 77
HEAD = ["tokens", "kurtosis", "α", "trained", "theory", "q", "theory", "Tr S/d", "theory", "τ_eff/τ*"]


def row(law: Any, alpha: float, dim: int, seeds: int) -> list[str]:
    """Return a row of the table: heads trained on these tokens, and their prediction."""
    variant, method = aim.Variant(token_law=law), aim.Method(starts=1)
    runs = aim.train(
        aim.Task(), aim.Learner(), dim=dim, alpha=alpha, seeds=seeds, seed=SEED, variant=variant, method=method
    )
    task, learner, ratio = runs.trained
    theory = aim.predict(task, learner, ratio)
    tau = float(np.mean([np.trace(run.map) / dim for run in runs.runs]))
    effective = theory.directions[0].effective / theory.directions[0].target if theory.directions else 1.0
    cells = [f"{runs.test_error:.4f} ± {runs.spread['test_error_err']:.4f}", f"{theory.test_error:.4f}"]
    cells += [f"{value:.3f}" for value in (runs.q, theory.q, tau, aim.spectrum(theory).mean, effective)]
    return [law, f"{task.kurtosis:g}", f"{alpha:g}", *cells]


def main() -> None:
    """Write the table for all laws and sample ratios."""
    folder, (dim, seeds) = Path(sys.argv[1]), (int(size) for size in sys.argv[2:] or ("60", "6"))
    lines = []
    for law in LAWS:
        for alpha in ALPHAS:
            lines.append(row(law, alpha, dim, seeds))
            print(*lines[-1], flush=True)
    (folder / "universality.md").write_text(tool.table(HEAD, lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
