"""Answers for the eye, within a tenth of a second: the equations on their coarsest rule; no number of them is shown."""
