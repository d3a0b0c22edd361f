"""A checkpoint: which heads learned something, sorted by strength, and what changed since the last step?"""

import numpy as np

import onehead as oh

rng = np.random.default_rng(0)
names = [f"encoder.layer.{layer}.attention.self.{side}.weight" for layer in (0, 1) for side in ("query", "key")]
before = {name: rng.standard_normal((96, 96)) for name in names}  # yours: model.state_dict(), or the path of a file
after = {name: matrix.copy() for name, matrix in before.items()}
for name in names[:2]:  # one head has found a direction
    after[name][40, 7] += 120.0

if __name__ == "__main__":
    survey = oh.weights.survey(after, head_count=3)
    print(survey.explain())

    table = survey.to_frame().sort_values("strength", ascending=False)
    print(table[["layer", "head", "verdict", "strength", "symmetric_share"]].to_string(index=False))
    table.to_csv("heads.csv", index=False)

    change = oh.weights.compare([before, after], head_count=3)
    print(change.explain())

    strongest = max(survey, key=lambda head: head.strength)
    print(strongest.explain())
    oh.plot.save(oh.plot.head_spectrum(strongest), "head.png")
