"""Measurements made once, whose results stand in the documentation; see README.md beside this file."""
