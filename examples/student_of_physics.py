"""How noise changes the learning curve, theory compared with training, and a map with the best weight decay."""

import matplotlib.pyplot as plt
import numpy as np

import onehead as oh

head = oh.aim.Learner(weight_decay=0.01)
alphas = np.geomspace(0.05, 3.0, 15)

if __name__ == "__main__":
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4))

    # three labelled curves on the same axes, and trained heads for one of them
    for noise in (0.1, 0.5, 1.0):
        curve = oh.aim.curve(oh.aim.Task(noise=noise), head, alphas)
        oh.plot.learning_curve(curve, quantity="test_error", label=f"noise {noise}", ax=left)
        print(
            f"noise {noise}: test error {curve.test_error[0]:.3f} with few samples, {curve.test_error[-1]:.3f} with "
            f"many"
        )
    runs = [oh.aim.train(oh.aim.Task(), head, dim=24, alpha=alpha, seeds=3) for alpha in (0.3, 2.0)]
    oh.plot.training_points(runs, quantity="test_error", label="trained, d = 24", color="tab:orange", ax=left)
    for run in runs:
        print(run.against(oh.aim.predict(oh.aim.Task(), head, run.alpha))[0].verdict)

    # test error over two parameters, with the best weight decay as a line
    found = oh.aim.map(oh.aim.Task(), head, x=("alpha", alphas[::2]), y=("weight_decay", np.geomspace(1e-3, 1, 9)))
    oh.plot.heat_map(found, lines=found.lines(), ax=right)
    print(found.to_frame()[["alpha", "weight_decay", "test_error"]].sort_values("test_error").head(3))

    fig.savefig("student.pdf")
