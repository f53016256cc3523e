"""Locate, Infill and Delete, measured: the decision rules of the paper, for a model that estimates insertions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sacrebleu.metrics.bleu import BLEU

from xl_editor.editor import Editor
from xl_editor.engine import Context, Decoding, Insertion
from xl_editor.operations import answer, omissions

from .bleu import Interval, middle_95_percent, resampling_weights
from .news_tasks import DeleteTask, InfillTask, LocateTask, NewsTasks, Task

TASKS_AT_ONCE = 200
MAX_INFILL_TOKENS = 48


@dataclass(frozen=True)
class NewsScores:
    """In per cent, with the middle 95 % of a bootstrap over the instances; Infill is corpus BLEU."""

    locate: float
    infill: float
    delete: float
    delete_rank: float
    intervals: dict[str, Interval]
    infilled: tuple[str, ...]  # what was put in, for people to look at

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        def share(name: str) -> str:
            interval = self.intervals[name]
            return f"{getattr(self, name):.2f} [{interval.low:.1f}, {interval.high:.1f}]"

        return (
            f"Locate {share('locate')} (chance 20)   Infill BLEU {self.infill:.2f}   "
            f"Delete {share('delete')}, + rank {share('delete_rank')} (chance 33.33)"
        )


def evaluate_news(editor: Editor, tasks: NewsTasks, *, progress: bool = True) -> NewsScores:
    located = np.array([right for some in _some(tasks.locate, "Locate", progress) for right in _locate(editor, some)])
    infilled = [text for some in _some(tasks.infill, "Infill", progress) for text in _infill(editor, some)]
    deleted = np.array([right for some in _some(tasks.delete, "Delete", progress) for right in _delete(editor, some)])
    answers = [task.answer for task in tasks.infill]
    shares = {"locate": located, "delete": deleted[:, 0], "delete_rank": deleted[:, 1]}
    intervals = {name: _interval_of_share(right) for name, right in shares.items()}
    means = {name: 100 * float(right.mean()) for name, right in shares.items()}
    bleu = BLEU(force=True).corpus_score(infilled, [answers]).score
    return NewsScores(infill=bleu, intervals=intervals, infilled=tuple(infilled), **means)


def _some(tasks: Sequence[Task], name: str, progress: bool) -> Iterator[Sequence[Task]]:
    starts = range(0, len(tasks), TASKS_AT_ONCE)
    for first in track(starts, description=name, console=Console(stderr=True), disable=not progress):
        yield tasks[first : first + TASKS_AT_ONCE]


def _locate(editor: Editor, tasks: Sequence[LocateTask]) -> list[bool]:
    """Whether argmin q̂(END), over the gaps on offer, is the right one."""
    asked = []
    for task in tasks:
        encoded = editor.codec.encode(" ".join(task.words))
        for gap in task.gaps:
            at = encoded.slot_at(len(" ".join(task.words[:gap])) + 1)
            asked.append(Insertion(Context.around(encoded.ids, at, at), ()))
    logprobs = np.array([scored.logprob for scored in editor.engine.score(asked)]).reshape(len(tasks), -1)
    return [bool(choice == task.answer) for choice, task in zip(logprobs.argmin(axis=1), tasks, strict=True)]


def _infill(editor: Editor, tasks: Sequence[InfillTask]) -> list[str]:
    """What greedy decoding puts in, as text."""
    encoded = [editor.codec.encode(f"{task.left} {task.right}") for task in tasks]
    slots = [text.slot_at(len(task.left) + 1) for text, task in zip(encoded, tasks, strict=True)]
    contexts = [Context.around(text.ids, slot, slot) for text, slot in zip(encoded, slots, strict=True)]
    found = editor.engine.decode(contexts, Decoding(max_length=MAX_INFILL_TOKENS))
    inserted = []
    for text, slot, (filling,) in zip(encoded, slots, found, strict=True):
        applied = editor.codec.apply(text, [(slot, slot, filling.ids)])
        start, end = applied.changes[0].inserted
        inserted.append(applied.text[start:end].strip())
    return inserted


def _delete(editor: Editor, tasks: Sequence[DeleteTask]) -> list[tuple[bool, bool]]:
    """Whether the perplexity ratio, and (+ rank) the perplexity of the rest, find the right sentence."""
    plans, answers = [], []
    for task in tasks:
        encoded = editor.codec.encode(" ".join(task.sentences))
        chars = np.cumsum([0, *(len(sentence) + 1 for sentence in task.sentences)])
        spans = list(pairwise(encoded.slot_at(int(char)) for char in chars))[1:-1]
        plans.append(omissions(encoded.ids, spans, rank=True))
        answers.append(spans[task.answer - 1])
    found = []
    for judged, right in zip(answer(editor.engine, plans), answers, strict=True):
        by_ratio = max(judged, key=lambda omission: omission.perplexity_ratio)
        found.append((by_ratio.span == right, judged[0].span == right))
    return found


def _interval_of_share(right: NDArray[np.bool_]) -> Interval:
    return middle_95_percent(100 * resampling_weights(len(right)) @ right / len(right))
