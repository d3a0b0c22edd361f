"""Universality in the law of the tokens: five laws, each compared with the theory for its kurtosis."""

from onehead.aim.training.data import Tokens
from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, marks, rows_with, shared_grid
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, GREY, THEORY, finish_panel, panels
from onehead.sweep import Table

# heavy tails come last, because their kurtosis in a sample depends on d
LAWS = {law: Tokens(law).kurtosis for law in ("gaussian", "rademacher", "sphere", "sparse", "heavy-tailed")}
GAUSSIAN = LAWS["gaussian"]


def draw(source: DataSource) -> Drawing:
    """Draw the test error, and its ratio to theory."""
    measured = source.pick((0.1, 0.3, 1.0), (0.1, 0.2, 0.5, 1.0))
    size = {"dim": source.pick(60, 100), "seeds": source.pick(4, 8), "starts": 1}
    grid = sorted({*shared_grid(source, 0.07, 1.5), *measured})
    theory = source.theory("theory", "aim.predict", {"kurtosis": sorted({*LAWS.values()}), "alpha": grid})
    runs = source.train("trained", "aim.train", {"token_law": list(LAWS), "alpha": measured}, size)
    trained = [{**row, "kurtosis": LAWS[row["token_law"]]} for row in rows_with(runs)]
    predicted = {(row["kurtosis"], row["alpha"]): row["test_error"] for row in rows_with(theory)}

    picture, (left, right) = panels(1, 2, width=4.6)
    right.axhline(1.0, color=THEORY, lw=1.8, label="theory for this kurtosis")
    drawn: set[float | None] = set()
    for k, (law, kurtosis) in enumerate(LAWS.items()):
        rows, shift = rows_with(Table(trained, lambda _: {}), token_law=law), 0.035 * (k - 2)
        ratio = [
            {
                "alpha": row["alpha"],
                **{key: row[key] / predicted[kurtosis, row["alpha"]] for key in ("test_error", "test_error_err")},
            }
            for row in rows
        ]
        if kurtosis not in drawn:
            line(left, rows_with(theory, kurtosis=kurtosis), "alpha", "test_error", f"theory, kurtosis {kurtosis:g}", k)
            gaussian = [predicted[GAUSSIAN, a] / predicted[kurtosis, a] for a in grid]
            if kurtosis != GAUSSIAN:
                label = None if drawn - {GAUSSIAN} else "theory of Gaussian tokens"
                right.plot(grid, gaussian, color=GREY, lw=1.0, ls=":", label=label)
        drawn.add(kurtosis)
        marks(left, rows, "alpha", "test_error", f"{law} tokens", k, shift=shift)
        marks(right, ratio, "alpha", "test_error", None, k, shift=shift)
    finish_panel(left, ALPHA_LABEL, "test error", "κ₀ = 0.5, Δ = 0.5, λ = 0.01", log="x", ylim=(0.0, None))
    finish_panel(
        right,
        ALPHA_LABEL,
        "ratio to theory for this kurtosis",
        f"d = {size['dim']}",
        log="x",
        legend="upper left",
        ylim=(0.85, 1.8),
    )
    caption = f"""Heads trained on tokens with Gaussian entries, random signs, points on a sphere, nine zeros in ten and
        heavy tails (Student, 5 degrees of freedom), compared with the theory for tokens of the same kurtosis (markers
        are shifted to be visible). A logit of a token with itself has variance 2 Tr S²/d + (kurtosis - 3)(Tr S/d)², so
        that at any d the kurtosis decides how the logits depend on the trace of the map: for signs (kurtosis 1) and the
        sphere they do not, and both have the same error, larger than that of Gaussian tokens; for sparse tokens (30)
        and heavy tails (9) they depend on it more strongly. Right: training over theory; dotted: the theory of Gaussian
        tokens. Tokens with heavy tails do not reach their full kurtosis in {size["dim"]} entries. κ₀ = 0.5, Δ = 0.5, T
        = 2, λ = 0.01; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, Table(trained, lambda _: {}), ("kurtosis", "alpha"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)
