"""The paper's operations, over token ids: which questions to ask the engine, and what the answers mean.

Each is a plan (see `questions`), so that many can be carried out together, whatever they are.
"""

from .correct import CorrectionRules, Option, Replacement, correct
from .editing import (
    Alternative,
    FilledChain,
    Measure,
    Omission,
    Span,
    Track,
    infill,
    locate,
    omissions,
    replacements,
    shared_information,
)
from .questions import (
    Memory,
    Ongoing,
    Plan,
    Progress,
    ToClassify,
    ToDecode,
    ToPredict,
    ToScore,
    advance,
    carry_out,
    outcome,
    remembering,
    together,
)

__all__ = [
    "Alternative",
    "CorrectionRules",
    "FilledChain",
    "Measure",
    "Memory",
    "Omission",
    "Ongoing",
    "Option",
    "Plan",
    "Progress",
    "Replacement",
    "Span",
    "ToClassify",
    "ToDecode",
    "ToPredict",
    "ToScore",
    "Track",
    "advance",
    "carry_out",
    "correct",
    "infill",
    "locate",
    "omissions",
    "outcome",
    "remembering",
    "replacements",
    "shared_information",
    "together",
]
