"""What a theorist asks first: order parameters and their errors, limits, thresholds, derivatives, the law."""

import numpy as np

import onehead as oh

task = oh.aim.Task(oh.aim.MarchenkoPastur(0.5), noise=0.5)

if __name__ == "__main__":
    point = oh.aim.predict(task, oh.aim.Learner(weight_decay=0.01), 1.0)
    for name in ("q", "m", "sigma", "test_error"):
        print(f"{name} = {getattr(point, name):.6f} ± {point.errors[name]:.1e}")
    print(point.certificate.status)

    # the limit of small weight decay is the ridgeless one
    limit = oh.aim.predict(task, oh.aim.Learner(weight_decay="0+"), 1.0)
    for decay in (1e-3, 1e-4, 1e-5):
        near = oh.aim.predict(task, oh.aim.Learner(weight_decay=decay), 1.0)
        print(f"weight decay {decay:g}: {near.test_error - limit.test_error:+.2e} above the limit")

    # a derivative from the linear system of the solver, against a difference
    step = 1e-3
    beside = [oh.aim.predict(task, oh.aim.Learner(weight_decay=0.01 + sign * step), 1.0) for sign in (1.0, -1.0)]
    difference = (beside[0].test_error - beside[1].test_error) / (2.0 * step)
    print(f"derivative {point.sensitivity('weight_decay')['test_error']:.5f}, difference {difference:.5f}")

    # moments of the law of the trained map are its order parameters
    law = oh.aim.spectrum(point)
    print(f"second moment of the spectrum {law.second_moment:.6f}, q {point.q:.6f}")
    print(oh.aim.thresholds(task, oh.aim.Learner()).explain())
    np.save("density.npy", np.column_stack([law.x, law.density_values]))
