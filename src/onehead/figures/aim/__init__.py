"""Figures of arXiv 2509.24914 (attention-indexed model), one module each with a function ``draw``."""
