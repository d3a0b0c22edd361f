"""Query-key spectra of real checkpoints, laid beside the predicted law of a trained head."""

from onehead.weights.chain import LawFit
from onehead.weights.edge import bulk_edge, power_tail
from onehead.weights.law import fit_laws
from onehead.weights.layouts import LAYOUTS
from onehead.weights.reader import BadFile, Checkpoint, open_checkpoint
from onehead.weights.report import HeadReport, head_report
from onehead.weights.survey import Survey, plan, run, survey

__all__ = [
    "LAYOUTS",
    "BadFile",
    "Checkpoint",
    "HeadReport",
    "LawFit",
    "Survey",
    "bulk_edge",
    "fit_laws",
    "head_report",
    "open_checkpoint",
    "plan",
    "power_tail",
    "run",
    "survey",
]
