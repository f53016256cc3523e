"""What both baselines need to ask many questions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np
from torch import Tensor

from xl_editor.engine import Insertion, Scored
from xl_editor.training.objectives import IGNORED, Examples
from xl_editor.training.sampling import Slots, cut_into_batches

ROWS_AT_ONCE = 8192  # tokens and predicted rows of a batch
LOGITS_AT_ONCE = 256  # rows: those of a whole batch would fill the memory

Logits = Callable[[Tensor], Tensor]  # (N, d_model) → (N, vocabulary)

Question = TypeVar("Question")
Answer = TypeVar("Answer")


def answer_in_batches(
    questions: Sequence[Question],
    size: Callable[[Question], tuple[int, int]],
    ask: Callable[[list[Question]], list[Answer]],
) -> list[Answer]:
    """Answer questions, those of about the same (content tokens, predicted rows) together, each in its place."""
    answers: dict[int, Answer] = {}
    for batch in _batches([size(question) for question in questions]):
        answers.update(zip(batch, ask([questions[index] for index in batch]), strict=True))
    return [answers[index] for index in range(len(questions))]


def n_content_and_predicted(insertion: Insertion) -> tuple[int, int]:
    return sum(map(len, insertion.context.parts)) + len(insertion.inserted), len(insertion.inserted) + 1


def _batches(sizes: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    # Predicted rows differ more than content, from none to all of it, and each costs a softmax: they come first.
    order = sorted(range(len(sizes)), key=lambda index: (sizes[index][1].bit_length(), sizes[index]))
    n_content, n_rows = ([sizes[index][i] for index in order] for i in (0, 1))
    for first, last in cut_into_batches(n_content, n_rows, ROWS_AT_ONCE):
        yield order[first:last]


def scored(insertions: Sequence[Insertion], labels: Tensor, states: Tensor, logits: Logits) -> list[Scored]:
    """Log softmax at the labels of each insertion's rows. *Shape:* (B, Q), (B, Q, d_model)."""
    real = labels != IGNORED
    targets, of_targets = labels[real], states[real]
    values: list[float] = []
    for first in range(0, len(targets), LOGITS_AT_ONCE):
        chunk = slice(first, first + LOGITS_AT_ONCE)
        found = logits(of_targets[chunk])
        values += (found.gather(1, targets[chunk, None])[:, 0] - found.logsumexp(-1)).tolist()
    one_by_one = iter(values)
    counts = real.sum(1).tolist()
    return [Scored(i.inserted, tuple(islice(one_by_one, n))) for i, n in zip(insertions, counts, strict=True)]


def as_examples(insertions: Sequence[Insertion]) -> Examples:
    """The questions as training has them: whole texts, with what is taken out of each."""
    tokens = [np.array([*i.context.parts[0], *i.inserted, *i.context.parts[1]], np.int64) for i in insertions]
    starts = np.array([[len(i.context.parts[0])] for i in insertions], np.int32)
    ends = starts + np.array([[len(i.inserted)] for i in insertions], np.int32)
    return Examples(tokens, Slots(starts, ends, np.ones(len(insertions), np.int32)), [None] * len(insertions))
