"""Does the law of the tokens matter? Five laws against the theory of Gaussian tokens."""

from dataclasses import replace

from onehead.figures.agreement import compare
from onehead.figures.drawing import ALPHA, line, marks, shared_grid, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import THEORY, finish, panels
from onehead.sweep import Table

LAWS = ("gaussian", "rademacher", "sphere", "heavy-tailed", "sparse")


def draw(lab: Lab) -> Drawing:
    """Test error, and its ratio to theory."""
    measured = lab.pick((0.1, 0.3, 1.0), (0.1, 0.2, 0.5, 1.0))
    size = {"dim": lab.pick(60, 100), "seeds": lab.pick(4, 8), "starts": 1}
    theory = lab.theory("theory", "aim.predict", {"alpha": sorted({*shared_grid(lab, 0.07, 1.5), *measured})})
    runs = lab.train("trained", "aim.train", {"token_law": list(LAWS), "alpha": measured}, size)
    predicted = {row["alpha"]: row["test_error"] for row in where(theory)}

    picture, (left, right) = panels(1, 2, width=4.6)
    line(left, theory, "alpha", "test_error", "theory, Gaussian tokens")
    right.axhline(1.0, color=THEORY, lw=1.8, label="theory")
    for k, law in enumerate(LAWS):
        rows, shift = where(runs, token_law=law), 0.035 * (k - 2)
        ratio = [
            {
                "alpha": row["alpha"],
                **{key: row[key] / predicted[row["alpha"]] for key in ("test_error", "test_error_err")},
            }
            for row in rows
        ]
        marks(left, rows, "alpha", "test_error", f"{law} tokens", k, shift=shift)
        marks(right, ratio, "alpha", "test_error", None, k, shift=shift)
    finish(left, ALPHA, "test error", "κ₀ = 0.5, Δ = 0.5, λ = 0.01", log="x", ylim=(0.0, None))
    finish(right, ALPHA, "training over theory", f"d = {size['dim']}", log="x", legend="upper right")
    caption = f"""Heads trained on tokens with Gaussian entries, random signs, points on a sphere, heavy tails (Student, 5
        degrees of freedom) and nine zeros in ten, over the theory of Gaussian tokens (markers are moved apart to be seen).
        Universality has a limit: a logit of a token with itself has variance 2 Tr S²/d + (kurtosis - 3)(Tr S/d)², so that laws
        with another kurtosis see the trace of the map differently at any d. Signs (kurtosis 1) and the sphere do not see it and
        err alike, more than Gaussian tokens; heavy tails (9) and sparse tokens (30) see it better. κ₀ = 0.5, Δ = 0.5, T = 2,
        λ = 0.01; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = [
        replace(pair, where=f"{law} tokens, {pair.where}")
        for law in LAWS
        for pair in compare(theory, Table(where(runs, token_law=law), lambda _: {}), ("alpha",))
    ]
    return Drawing(picture=picture, caption=caption, pairs=pairs)
