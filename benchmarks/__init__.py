"""Speed, memory and growth of cost, with the accuracy beside: ``python -m benchmarks``; see docs/benchmarks.md."""
