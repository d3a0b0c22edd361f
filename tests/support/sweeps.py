"""Sweeps over the functions of `tests.support.sweep_calls`."""

import onehead


def run_sweep(call, axes, **settings):
    """Run a sweep of a function of `tests.support.sweep_calls`."""
    return onehead.sweep(f"tests.support.sweep_calls:{call}", axes, **settings)
