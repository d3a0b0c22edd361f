"""Our predictions beside the numbers published with the code of arXiv 2509.24914 (version 1).

    python -m checks.reference FOLDER

The folder holds the published files; they carry no licence and are not part of this project. Rows are left out by a
rule fixed beforehand: solver rows that have diverged (sigma <= 0 or |q| > 10), and their number is printed.
"""

import csv
import sys
from pathlib import Path

import numpy as np

from onehead import aim


def read(path: Path) -> dict[str, np.ndarray]:
    """Columns of a file."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}


def solver_rows(folder: Path, name: str, decay: float | str, count: int = 15) -> None:
    """Median differences from the published solver, over a spread of its sample ratios."""
    table = read(folder / name)
    keep = np.flatnonzero((table.get("sigma", np.ones(1)) > 0.0) & (np.abs(table.get("q", np.ones(1))) < 10.0))
    if "q" not in table:
        keep = np.arange(len(table["alpha"]))
    pick = keep[np.linspace(0, len(keep) - 1, count).astype(int)]
    found = aim.curve(aim.Task(), aim.Learner(weight_decay=decay), table["alpha"][pick])
    words = [
        f"{name}: {count} of {len(keep)} rows, {len(table['alpha']) - len(keep)} left out, {len(found.failures)} failed"
    ]
    names = {"q": "q", "m": "m", "sigma": "sigma", "q_hat": "q_hat", "m_hat": "m_hat", "sigma_hat": "sigma_hat"}
    for column, ours in names.items():
        if column in table:
            words.append(f"{column} {np.nanmedian(np.abs(found.column(ours) / table[column][pick] - 1.0)):.4f}")
    words.append(f"test {np.nanmedian(np.abs(found.column('test_error') - table['test'][pick])):.4f}")
    if decay != "0+":
        words.append(f"train {np.nanmedian(np.abs(found.column('train_loss') / table['train'][pick] - 1.0)):.4f}")
    print("  ".join(words))


def main(folder: Path) -> None:
    """Print one line per file."""
    for word in ("0.01", "0.001", "1e-05"):
        solver_rows(folder, f"SE_kappa_0.5_lreg_{word}_noise_0.5.csv", float(word))
    solver_rows(folder, "SE_kappa_0.5_lreg_0.0_noise_0.5.csv", "0+")
    ranks = read(folder / "rank_kappa_0.5_lreg_0.01_noise_0.5.csv")
    steady = np.flatnonzero(ranks["alpha"] > 0.035)  # below, the published values jump by 0.1 from row to row
    pick = steady[np.linspace(0, len(steady) - 1, 20).astype(int)]
    found = aim.curve(aim.Task(), aim.Learner(), ranks["alpha"][pick])
    gap = np.abs(found.column("rank") - ranks["rank"][pick])
    print(f"rank: median {np.median(gap):.1e}, largest {gap.max():.1e}")
    for word in ("0.1", "0.5", "40.0"):
        values = read(folder / f"spectrum_alpha_{word}_kappa_0.5_lreg_0.01_noise_0.5.csv")["eigenvalue"] ** 2
        law = aim.spectrum(aim.predict(aim.Task(), aim.Learner(), float(word)))
        x = np.sort(values[values > 0.02])  # below, finite training has not yet reached zero
        share = (len(values) - len(x) + np.arange(1, len(x) + 1)) / len(values)
        print(
            f"spectrum at alpha = {word}: Kolmogorov-Smirnov {np.abs(law.cdf(x) - share).max():.4f} over {len(values)} values"
        )
    table = [[float(x) for x in row] for row in csv.reader((folder / "interpolation.csv").open())]
    for noise, row in zip((0.0, 0.01, 0.1, 0.5, 1.0), table, strict=True):
        gaps = []
        for i in range(0, len(row), 8):
            task = aim.Task(target=aim.MarchenkoPastur(kappa0=float(np.logspace(-2, 2, len(row))[i])), noise=noise)
            gaps.append(abs(2.0 * aim.thresholds(task).interpolation - row[i]))
        print(f"interpolation, noise {noise}: median {np.median(gaps):.1e}, largest {max(gaps):.1e}")
    best = read(folder / "SE_L1_kappa_0.05_noise_0.05.csv")
    task = aim.Task(target=aim.MarchenkoPastur(kappa0=0.05), noise=0.05)
    for i in np.linspace(20, 70, 4).astype(int):
        tuned = aim.tune(task, aim.Learner(), float(best["alpha"][i]))
        print(
            f"best weight decay at alpha {best['alpha'][i]:.3f}: test {tuned.test_error:.5f} (published {best['test'][i]:.5f})"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
