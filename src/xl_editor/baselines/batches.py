"""What both baselines need to ask many questions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from xl_editor.engine import Insertion
from xl_editor.training.objectives import Examples
from xl_editor.training.sampling import Slots

ROWS_AT_ONCE = 8192  # tokens and predicted rows of a batch

Question = TypeVar("Question")
Answer = TypeVar("Answer")


def answer_in_batches(
    questions: Sequence[Question], n_rows: Callable[[Question], int], ask: Callable[[list[Question]], list[Answer]]
) -> list[Answer]:
    """Answer questions, those of about the same size together; the answers come in the order of the questions."""
    answers: dict[int, Answer] = {}
    for batch in _batches([n_rows(question) for question in questions]):
        answers.update(zip(batch, ask([questions[index] for index in batch]), strict=True))
    return [answers[index] for index in range(len(questions))]


def _batches(sizes: Sequence[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda index: sizes[index]):
        if batch and (len(batch) + 1) * sizes[index] > ROWS_AT_ONCE:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def as_examples(insertions: Sequence[Insertion]) -> Examples:
    """The questions as training has them: whole texts, with what is taken out of each."""
    tokens = [np.array([*i.context.parts[0], *i.inserted, *i.context.parts[1]], np.int64) for i in insertions]
    starts = np.array([[len(i.context.parts[0])] for i in insertions], np.int32)
    ends = starts + np.array([[len(i.inserted)] for i in insertions], np.int32)
    return Examples(tokens, Slots(starts, ends, np.ones(len(insertions), np.int32)), [None] * len(insertions))
