"""Figures that are not in the papers, one module each with a function ``draw``."""
