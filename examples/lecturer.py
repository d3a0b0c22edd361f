"""One slide with three panels, in given colours, saved as an SVG file whose text can be edited."""

import matplotlib.pyplot as plt
import numpy as np

import onehead as oh

BLUE, RED = "#0a4d8c", "#c0392b"

if __name__ == "__main__":
    plt.rcParams.update({"font.size": 11})
    fig, (curve_ax, law_ax, sparse_ax) = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")

    task, head = oh.aim.Task(oh.aim.MarchenkoPastur(0.5)), oh.aim.Learner()
    alphas = np.linspace(0.05, 2.0, 15)
    curve = oh.aim.curve(task, head, alphas, bayes=True)
    oh.plot.learning_curve(curve, quantity="test_error", label="weight decay 0.01", color=BLUE, ax=curve_ax)
    oh.plot.learning_curve(
        oh.aim.curve(task, head, alphas[::2], tuned=True), quantity="test_error", label="tuned", color=RED, ax=curve_ax
    )
    oh.plot.learning_curve(curve, quantity="bayes_test_error", label="best possible", color="k", ax=curve_ax)
    curve_ax.set_title("How much data?", loc="left")

    for alpha, color in ((4.0, BLUE), (0.5, RED)):
        law = oh.aim.spectrum(oh.aim.predict(task, head, alpha))
        oh.plot.spectrum(law, label=f"n = {alpha:g} d²", color=color, ax=law_ax)
    law_ax.set_title("What do the weights look like?", loc="left")

    tokens, plan = oh.sparse.Task(length=10, strength=5.0), oh.sparse.Protocol(loss="square", ridge=0.1)
    for model, color in (("attention", BLUE), ("pooled", RED)):
        found = oh.sparse.curve(tokens, plan, np.geomspace(0.3, 8.0, 9), model=model)
        oh.plot.error_curve(found, label=model, color=color, ax=sparse_ax)
    sparse_ax.set_title("Why attention?", loc="left")

    oh.plot.save(curve_ax, "slide.svg")  # the whole figure; its text stays text
    print(curve.explain())
    print(oh.cite().splitlines()[0])
