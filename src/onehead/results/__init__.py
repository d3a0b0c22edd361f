"""Results of all public functions: numbers with errors, a certificate, tables of many results, and their text.

`base` defines `Result` and `Certificate`, `tables` the results with many points; both are re-exported here. Further
modules: maps over two parameters (`grids`), means over repeated measurements (`replicates`), the gap to the
Bayes-optimal learner (`bayes_gap`) and output as text, HTML and pandas tables (`formatting`). Nothing in this folder
solves an equation.
"""

from onehead.results.base import FAILED, INTERRUPTED, Certificate, Kind, Result, plain
from onehead.results.formatting import wrap_sentences
from onehead.results.tables import Column, Failed, FailedPoint, Grid, Items, Point, Points, Rows

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "Certificate",
    "Column",
    "Failed",
    "FailedPoint",
    "Grid",
    "Items",
    "Kind",
    "Point",
    "Points",
    "Result",
    "Rows",
    "plain",
    "wrap_sentences",
]
