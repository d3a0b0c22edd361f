import numpy as np

import onehead as oh

rng = np.random.default_rng(0)
query, key = (f"model.layers.0.self_attn.{side}_proj.weight" for side in "qk")
state = {name: rng.standard_normal((64, 64)) for name in (query, key)}  # or the path of a file
state[query][:16, 5] += 20.0
survey = oh.weights.survey(state, head_count=4)
axes = oh.plot.survey_map(survey)
oh.plot.save(axes, "own-checkpoint.png")
