"""Spectrum of the trained map: its law, sampled eigenvalues, and a picture."""

import numpy as np

import onehead as oh

if __name__ == "__main__":
    point = oh.aim.predict(oh.aim.Task(), oh.aim.Learner(weight_decay=0.01), alpha=0.5)
    law = oh.aim.spectrum(point)
    sampled = law.sample(np.random.default_rng(0), 100_000)
    print(
        f"{law.zero_mass:.0%} of the eigenvalues are exactly zero, the others lie in {np.round(law.edges, 2).tolist()}"
    )
    print(
        f"second moment {law.second_moment:.4f} from the law, {np.mean(sampled**2):.4f} from a sample, {point.q:.4f} "
        f"from q"
    )
    axes = oh.plot.spectrum(law)
    oh.plot.save(axes, "spectrum.png")
    print("wrote spectrum.png")
