"""Checks that take longer than `make test` may: random sweeps, mutants, coverage without compilation, other
versions.
"""
