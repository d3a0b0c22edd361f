"""Targets: the spectra of maps that a head can learn.

`base` holds the abstract class, `limiting` the limiting laws of random matrices, `discrete` targets given by d
eigenvalues. Laws that do not describe a target belong to `onehead.spectra`.
"""

from onehead.aim.targets.base import Target, target_from_document
from onehead.aim.targets.discrete import Atoms, Discrete, PowerLaw, Spikes
from onehead.aim.targets.limiting import MarchenkoPastur, Product

__all__ = ["Atoms", "Discrete", "MarchenkoPastur", "PowerLaw", "Product", "Spikes", "Target", "target_from_document"]
