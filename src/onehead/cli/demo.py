"""``onehead demo``: the main job from start to end, with pictures."""

from pathlib import Path

import click
import numpy as np

from onehead.cli.output import note, print_json, print_rows, progress, save_figure

__all__ = ["command"]


@click.command()
@click.option("--out", default="out", show_default=True, metavar="DIR", help="Folder for the pictures.")
@click.option("--json", "as_json", is_flag=True, help="Print the paths as JSON and nothing else.")
def command(out: str, as_json: bool) -> None:
    """A learning curve, its spectra and the best weight decay of one head, in about a minute."""
    from onehead import aim, plot

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    task, learner = aim.Task(), aim.Learner(weight_decay=0.01)
    alphas = np.linspace(0.05, 2.0, 46)
    with progress("learning curve", len(alphas)) as step:
        curve = aim.curve(task, learner, alphas, progress=step)
    marks = aim.thresholds(task, learner)
    law = aim.spectrum(aim.predict(task, learner, alpha=0.5))
    paths = {"curve": str(folder / "learning_curve.png"), "spectrum": str(folder / "spectrum.png")}
    save_figure(paths["curve"], lambda: plot.learning_curve(curve, thresholds=marks))
    save_figure(paths["spectrum"], lambda: plot.spectrum(law))
    if as_json:
        print_json(paths)
        return
    rows = [point.to_dict() for point in list(curve)[::9]]
    print_rows(
        rows,
        ["alpha", "test_error", "train_loss", "rank", "residual", "status"],
        title="one attention head, no training",
    )
    note(
        f"every label can be fitted up to alpha = {marks.interpolation:.4f}; open {paths['curve']} and {paths['spectrum']}"
    )
