"""Figures of arXiv 2509.25153 (sparse tokens), one module each with a function ``draw``."""
