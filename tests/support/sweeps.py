"""Sweeps of the calls that only tests make."""

import onehead


def swept(call, axes, **words):
    return onehead.sweep(f"tests.support.sweep_calls:{call}", axes, **words)
