"""`Prefix`: a toy that games style accuracy and BLEU, kept in the table as the row that a result must beat.

It prepends "excellent" or "worst" until a small classifier is sure. That classifier is the toy's own,
never the one that reports: the row shows how far mere search against one classifier gets on another.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .style_data import SystemOutputs
from .textcnn import StyleClassifier, TextCNNConfig, TrainingOptions

STRONG_WORDS = {"neg": "worst", "pos": "excellent"}
MAX_PREFIX_WORDS = 5
SURE = math.log(0.9 / 0.1)  # of p(style) > 0.9: with 0.5 the toy would be weaker than need be

# A tenth of the reporting classifier's arithmetic, and a seed that no reporting classifier uses.
SMALL_CONFIG = TextCNNConfig(widths=(1, 2, 3), n_filters=32, embedding_size=50)
SMALL_OPTIONS = TrainingOptions(seed=1000, n_steps=4_000)


def prepend_until(
    texts: Sequence[str], word: str, is_satisfied: Callable[[Sequence[str]], NDArray[np.bool_]]
) -> tuple[str, ...]:
    """Prepends `word` to each text until it satisfies, at most `MAX_PREFIX_WORDS` times."""
    prefixed = np.array(texts, dtype=object)
    open_rows = np.arange(len(texts))
    for _ in range(MAX_PREFIX_WORDS):
        open_rows = open_rows[~is_satisfied(prefixed[open_rows].tolist())]
        if not len(open_rows):
            break
        prefixed[open_rows] = f"{word} " + prefixed[open_rows]
    return tuple(prefixed.tolist())


def with_prefix(system: SystemOutputs, small_classifier: StyleClassifier) -> SystemOutputs:
    """The row `SYSTEM+Prefix`: a system's outputs after the toy."""

    def towards(style: str, texts: Sequence[str]) -> tuple[str, ...]:
        return prepend_until(texts, STRONG_WORDS[style], lambda batch: small_classifier.is_style(batch, style, SURE))

    return SystemOutputs(
        f"{system.name}+Prefix",
        neg2pos=towards("pos", system.neg2pos),
        pos2neg=towards("neg", system.pos2neg),
        edited_from=system,
    )
