"""A user-defined loss in one small class: the Kullback-Leibler divergence of the output from the label."""

import numpy as np

from onehead.aim import Learner, Loss, Task, predict, softmax


class ReverseKL(Loss):
    """sum_b p_b log(p_b / y_b) with p the softmax of the logits: it penalises mass where the label has none."""

    name = "reverse-kl"

    @staticmethod
    def row(logits, label, gradient, hessian):
        T = logits.shape[0]
        p, r = np.empty(T), np.empty(T)
        softmax(logits, p)
        value = 0.0
        for b in range(T):
            r[b] = np.log(p[b]) - np.log(label[b])
            value += p[b] * r[b]
        for b in range(T):
            gradient[b] = p[b] * (r[b] - value)
            for k in range(T):
                same = 1.0 if b == k else 0.0
                hessian[b, k] = p[b] * (same - p[k]) * (r[b] - value + 1.0) - p[b] * p[k] * (r[k] - value)
        return value


if __name__ == "__main__":
    for loss in ("squared", "cross-entropy", ReverseKL()):
        point = predict(Task(), Learner(weight_decay=0.01, loss=loss), alpha=0.5)
        print(f"{loss!s:14} test error {point.test_error:.4f}  rank {point.rank:.3f}  {point.status} ({point.kind})")
