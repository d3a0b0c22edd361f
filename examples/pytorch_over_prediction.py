"""Training of one's own in PyTorch, laid over the predicted curve: the same tokens and labels as `aim.train`."""

import numpy as np

import onehead as oh

try:
    import torch
except ImportError:  # only this example uses PyTorch
    torch = None

task, head = oh.aim.Task(tokens=2, noise=0.5), oh.aim.Learner(weight_decay=0.05)
dim, seeds, alphas = 100, 4, (0.5, 1.5)


def attention(weights, tokens):
    """Attention matrices of a head with tied query and key: softmax of (x_a'S x_b - δ_ab Tr S)/sqrt d."""
    S = weights.T @ weights / (len(weights) * dim) ** 0.5
    logits = tokens @ S @ tokens.transpose(1, 2) - torch.eye(task.tokens) * torch.trace(S)
    return torch.softmax(logits / dim**0.5, dim=-1)


def trained_error(alpha, run):
    """Test error of one training run: a sum of squares plus λ |W|², minimised by L-BFGS."""
    data, fresh = (oh.aim.sample(task, dim, alpha, run=run, part=part) for part in ("train", "test"))
    tokens, labels = torch.tensor(data.tokens), torch.tensor(data.labels)
    weights = torch.randn(dim, dim, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=500, line_search_fn="strong_wolfe")

    def objective():
        optimiser.zero_grad()
        loss = ((attention(weights, tokens) - labels) ** 2).sum() + head.weight_decay * (weights**2).sum()
        loss.backward()
        return loss

    optimiser.step(objective)
    with torch.no_grad():
        errors = (attention(weights, torch.tensor(fresh.tokens)) - torch.tensor(fresh.labels)) ** 2
    return float(errors.sum(dim=(1, 2)).mean())


if __name__ == "__main__":
    if torch is None:
        raise SystemExit("this example needs PyTorch: pip install torch")
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    axes = oh.plot.learning_curve(oh.aim.curve(task, head, np.linspace(0.3, 2.0, 12)), quantity="test_error")
    for alpha in alphas:
        errors = [trained_error(alpha, run) for run in range(seeds)]
        mean, bar = np.mean(errors), np.std(errors, ddof=1) / np.sqrt(seeds)
        predicted = oh.aim.predict(task, head, alpha).test_error
        print(f"alpha {alpha}: PyTorch {mean:.4f} ± {bar:.4f}, predicted {predicted:.4f}")
        axes.errorbar(alpha, mean, yerr=bar, fmt="o", color="tab:orange")
    oh.plot.save(axes, "pytorch.png")
