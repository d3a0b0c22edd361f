"""Measurements that are too slow or too noisy for tests: ``python -m benchmarks``."""
