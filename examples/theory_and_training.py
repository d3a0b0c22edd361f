"""A prediction compared with a trained head of finite size: the same task and the same learner."""

import onehead as oh

task = oh.aim.Task(noise=0.5)
head = oh.aim.Learner(weight_decay=0.01)

if __name__ == "__main__":
    for alpha in (0.3, 1.0):
        predicted = oh.aim.predict(task, head, alpha)
        runs = oh.aim.train(task, head, dim=40, alpha=alpha, seeds=3)
        error = runs.spread["test_error_err"]
        print(
            f"alpha {alpha}: predicted {predicted.test_error:.4f}, trained at d = 40 {runs.test_error:.4f} +- "
            f"{error:.4f}"
        )
