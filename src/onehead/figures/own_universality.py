"""Does the law of the tokens matter? Five laws, each against the theory of its kurtosis."""

from onehead.aim.training.data import Tokens
from onehead.figures.agreement import compare
from onehead.figures.drawing import ALPHA, line, marks, shared_grid, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import GREY, THEORY, finish, panels
from onehead.sweep import Table

# heavy tails last: what they show of their kurtosis depends on d
LAWS = {law: Tokens(law).kurtosis for law in ("gaussian", "rademacher", "sphere", "sparse", "heavy-tailed")}
GAUSSIAN = LAWS["gaussian"]


def draw(lab: Lab) -> Drawing:
    """Test error, and its ratio to theory."""
    measured = lab.pick((0.1, 0.3, 1.0), (0.1, 0.2, 0.5, 1.0))
    size = {"dim": lab.pick(60, 100), "seeds": lab.pick(4, 8), "starts": 1}
    grid = sorted({*shared_grid(lab, 0.07, 1.5), *measured})
    theory = lab.theory("theory", "aim.predict", {"kurtosis": sorted({*LAWS.values()}), "alpha": grid})
    runs = lab.train("trained", "aim.train", {"token_law": list(LAWS), "alpha": measured}, size)
    trained = [{**row, "kurtosis": LAWS[row["token_law"]]} for row in where(runs)]
    predicted = {(row["kurtosis"], row["alpha"]): row["test_error"] for row in where(theory)}

    picture, (left, right) = panels(1, 2, width=4.6)
    right.axhline(1.0, color=THEORY, lw=1.8, label="theory of this kurtosis")
    drawn: set[float | None] = set()
    for k, (law, kurtosis) in enumerate(LAWS.items()):
        rows, shift = where(Table(trained, lambda _: {}), token_law=law), 0.035 * (k - 2)
        ratio = [
            {
                "alpha": row["alpha"],
                **{key: row[key] / predicted[kurtosis, row["alpha"]] for key in ("test_error", "test_error_err")},
            }
            for row in rows
        ]
        if kurtosis not in drawn:
            line(left, where(theory, kurtosis=kurtosis), "alpha", "test_error", f"theory, kurtosis {kurtosis:g}", k)
            gaussian = [predicted[GAUSSIAN, a] / predicted[kurtosis, a] for a in grid]
            if kurtosis != GAUSSIAN:
                label = None if drawn - {GAUSSIAN} else "theory of Gaussian tokens"
                right.plot(grid, gaussian, color=GREY, lw=1.0, ls=":", label=label)
        drawn.add(kurtosis)
        marks(left, rows, "alpha", "test_error", f"{law} tokens", k, shift=shift)
        marks(right, ratio, "alpha", "test_error", None, k, shift=shift)
    finish(left, ALPHA, "test error", "κ₀ = 0.5, Δ = 0.5, λ = 0.01", log="x", ylim=(0.0, None))
    finish(
        right,
        ALPHA,
        "over theory of this kurtosis",
        f"d = {size['dim']}",
        log="x",
        legend="upper left",
        ylim=(0.85, 1.8),
    )
    caption = f"""Heads trained on tokens with Gaussian entries, random signs, points on a sphere, nine zeros in ten and heavy tails
        (Student, 5 degrees of freedom), over the theory of tokens of their kurtosis (markers are moved apart to be seen). A logit of a
        token with itself has variance 2 Tr S²/d + (kurtosis - 3)(Tr S/d)², so that laws with another kurtosis see the trace of the map
        differently at any d: signs (kurtosis 1) and the sphere do not see it and err alike, more than Gaussian tokens; sparse tokens
        (30) and heavy tails (9) see it better. Right: training over theory; dotted, what the theory of Gaussian tokens would say. Heavy
        tails do not show all of their kurtosis in {size["dim"]} entries. κ₀ = 0.5, Δ = 0.5, T = 2, λ = 0.01; training with
        d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, Table(trained, lambda _: {}), ("kurtosis", "alpha"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
