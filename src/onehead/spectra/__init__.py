"""Spectral laws: target spectra freely convolved with a semicircle, their edges, transforms and integrals.

Every law is a `onehead.spectra.law.Law`. Targets of a task and what a learner does with a spectrum belong to
`onehead.aim`.
"""
