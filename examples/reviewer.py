"""Does the theory hold? Heads trained at two dimensions beside the prediction, with z-scores; the same run twice."""

import onehead as oh

if __name__ == "__main__":
    task, learner = oh.aim.Task(noise=0.5), oh.aim.Learner(weight_decay=0.05)
    table = oh.aim.compare(task, learner, alphas=[0.5, 2.0], dims=[16, 32], seeds=3)
    print(table.to_frame().to_string(index=False))

    runs = [oh.aim.train(task, learner, dim=16, alpha=0.5, seeds=2, seed=7) for _ in range(2)]
    print("same seed, same numbers:", runs[0].test_error == runs[1].test_error)

    # the minimum of the loss, by gradient norm, and what the prediction says about itself
    print("gradient norms:", [f"{run.certificate.residual:.0e}" for run in runs[0].runs])
    print(oh.aim.predict(task, learner, 0.5).explain())
