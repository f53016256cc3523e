"""What a model finds and puts right of errors that were made in clean text, kind by kind.

Every sentence has one error. The less probable what stands in a slot is, the more it is suspected; the bar is set so
that one slot of clean text in a hundred is suspected, too. An error is found if one of the slots that must change is
suspected, and put right if the likeliest insertion, searched greedily, is the right one in all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from xl_editor.editor import Editor
from xl_editor.engine import Context, Decoding, Ids, Insertion
from xl_editor.errors import RequestError
from xl_editor.training.corrections import Reader, correct_slots
from xl_editor.training.errors import KINDS, ErrorMaker

FALSE_ALARMS = 0.01  # the share of slots of clean text that may be suspected


@dataclass(frozen=True)
class KindFound:
    kind: str
    n: int  # sentences with such an error
    found: float  # shares of them
    put_right: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def evaluate_made_errors(
    editor: Editor,
    sentences: Sequence[str],
    per_kind: int,
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> list[KindFound]:
    """For each kind of error at most so many sentences, drawn with the seed; and for all kinds together."""
    if not editor.can_correct:
        raise RequestError("This model has not learnt to correct; name one that has.")
    reader, maker = Reader(editor.codec), ErrorMaker()
    bar = float(np.quantile(_suspicions(editor, [reader.words(text) for text in sentences]), 1 - FALSE_ALARMS))
    results = []
    for kind in KINDS:
        progress(kind)
        problems: list[tuple[list[Ids], list[Ids]]] = []
        for number in random.Random(seed).sample(range(len(sentences)), len(sentences)):
            if len(problems) == per_kind:
                break
            spoiled = maker.spoil_once(sentences[number], kind, random.Random(seed + number))
            slots = spoiled and correct_slots(reader, spoiled.text, sentences[number])
            if slots:
                problems.append(slots)
        if problems:
            results.append(_evaluate_kind(editor, kind, problems, bar))
    n = sum(one.n for one in results)
    means = [sum(one.n * getattr(one, name) for one in results) / max(1, n) for name in ("found", "put_right")]
    return [*results, KindFound("all", n, *means)]


def _evaluate_kind(editor: Editor, kind: str, problems: Sequence[tuple[list[Ids], list[Ids]]], bar: float) -> KindFound:
    wrong = [[slot for slot, right in enumerate(slots) if right != ((), *words)[slot]] for words, slots in problems]
    contexts = [
        Context.behind(tuple(words), slot)
        for (words, _), changed in zip(problems, wrong, strict=True)
        for slot in changed
    ]
    decoded = iter(editor.engine.decode(contexts, Decoding()))
    suspected = iter(np.split(_suspicions(editor, [w for w, _ in problems]), np.cumsum([len(s) for _, s in problems])))
    found = right = 0
    for (_, slots), changed in zip(problems, wrong, strict=True):
        suspicions = next(suspected)
        found += any(suspicions[slot] > bar for slot in changed)
        answers = [next(decoded)[0].ids for _ in changed]
        right += all(answer == slots[slot] for slot, answer in zip(changed, answers, strict=True))
    return KindFound(kind, len(problems), found / len(problems), right / len(problems))


def _suspicions(editor: Editor, texts: Sequence[Sequence[Ids]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """−log q(what stands there) at every slot of every text, one after the other."""
    asked = [
        Insertion(Context.behind(tuple(words), slot), standing)
        for words in texts
        for slot, standing in enumerate(((), *words))
    ]
    return -np.array([scored.logprob for scored in editor.engine.score(asked)])


def markdown_table(rows: Sequence[KindFound]) -> str:
    lines = ["| kind | sentences | found | put right |", "| --- | --- | --- | --- |"]
    lines += [f"| {row.kind} | {row.n:,} | {row.found:.1%} | {row.put_right:.1%} |" for row in rows]
    return "\n".join(lines)
