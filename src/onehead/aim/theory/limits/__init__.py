"""Limits of the equations that have formulas of their own."""
