"""Locate, Infill and Delete, measured for any model that `xl-editor train` makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from xl_editor.engine import DECIMALS, Context, Ids
from xl_editor.operations import Span
from xl_editor.text import Codec

from .bleu import Interval, bleu_of_statistics, corpus_bleu, middle_95_percent, resampling_weights, sentence_statistics
from .kept import KeptAnswers
from .news_rules import Blank, Rules
from .news_tasks import DeleteTask, InfillTask, LocateTask, NewsTasks, Task

ANSWERS = "news-answers"  # in the directory of what is kept
TASKS_AT_ONCE = 200
TOKENIZE = "13a"  # sacrebleu's default: what is compared is text as people write it


@dataclass(frozen=True)
class Measured:
    """A share of right answers in per cent, or corpus BLEU; with the middle 95 % of a bootstrap over the instances."""

    value: float
    samples: NDArray[np.float64] = field(compare=False, repr=False)  # of that bootstrap, which draws alike for all

    @property
    def interval(self) -> Interval:
        return middle_95_percent(self.samples)

    def __sub__(self, other: Measured) -> Measured:
        """How far one is ahead of the other, both asked the same."""
        return Measured(self.value - other.value, self.samples - other.samples)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.interval.low:.1f}, {self.interval.high:.1f}]"

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value, "interval": asdict(self.interval)}


@dataclass(frozen=True)
class NewsScores:
    """How a model does at the three tasks.

    The `rank` ones choose by the perplexity of the whole text ("+ rank"); `delete_information`, which is ours, by what
    a sentence and the rest tell about each other.
    """

    locate: Measured
    infill: Measured | None  # if it was asked
    delete: Measured
    infill_rank: Measured | None  # if the model has a choice
    delete_rank: Measured
    delete_information: Measured
    infilled: tuple[str, ...]  # what was put in, for people to look at
    infilled_rank: tuple[str, ...]  # empty where the model has nothing to choose from

    def to_dict(self) -> dict[str, Any]:
        return {name: found.to_dict() if isinstance(found, Measured) else found for name, found in vars(self).items()}

    def render(self) -> str:
        ranked = f", + rank {self.infill_rank}" if self.infill_rank else ""
        return (
            f"Locate {self.locate} (chance 20)   Infill BLEU {self.infill or '–'}{ranked}   "
            f"Delete {self.delete}, + rank {self.delete_rank}, by information {self.delete_information} (chance 33.33)"
        )


def evaluate_news(
    rules: Rules, tasks: NewsTasks, kept_in: Path | None = None, *, with_infill: bool = True, progress: bool = True
) -> NewsScores:
    """Ask all, some at a time; answers that are kept in a directory are not asked for again."""
    asked_of = [type(rules).__name__, rules.codec.fingerprint, asdict(tasks)]
    kept = KeptAnswers(kept_in, asked_of, rules.weights) if kept_in else None

    def answers_to(asked: Sequence[Task], answer: Callable[[Rules, Any], Any], name: str) -> list[Any]:
        found = []
        starts = range(0, len(asked), TASKS_AT_ONCE)
        for first in track(starts, description=name, console=Console(stderr=True), disable=not progress):
            make = partial(answer, rules, asked[first : first + TASKS_AT_ONCE])
            found += kept(f"{name} from {first}", make) if kept else make()
        return found

    located = np.array(answers_to(tasks.locate, _locate, "Locate"))
    filled = answers_to(tasks.infill, _infill, "Infill, bounded") if with_infill else []
    deleted = np.array(answers_to(tasks.delete, _delete, "Delete"))
    answers = [task.answer for task in tasks.infill]
    plain, ranked = [texts[0] for texts in filled], [texts[1] for texts in filled if texts[1] is not None]
    return NewsScores(
        locate=measured_share(located),
        infill=_measured_bleu(plain, answers) if plain else None,
        delete=measured_share(deleted[:, 0]),
        infill_rank=_measured_bleu(ranked, answers) if ranked else None,
        delete_rank=measured_share(deleted[:, 1]),
        delete_information=measured_share(deleted[:, 2]),
        infilled=tuple(plain),
        infilled_rank=tuple(ranked),
    )


def _locate(rules: Rules, tasks: Sequence[LocateTask]) -> list[bool]:
    asked = []
    for task in tasks:
        encoded = rules.codec.encode(" ".join(task.words))
        asked.append((encoded.ids, [encoded.slot_at(len(" ".join(task.words[:gap])) + 1) for gap in task.gaps]))
    return [_lowest(found) == task.answer for found, task in zip(rules.needs(asked), tasks, strict=True)]


def _infill(rules: Rules, tasks: Sequence[InfillTask]) -> list[tuple[str, str | None]]:
    """What is put in, as text; and what "+ rank" puts in."""
    codec = rules.codec
    encoded = [codec.encode(f"{task.left} {task.right}") for task in tasks]
    slots = [text.slot_at(len(task.left) + 1) for text, task in zip(encoded, tasks, strict=True)]
    blanks = [
        Blank(Context.around(text.ids, slot, slot), len(codec.encode(task.answer).ids))
        for text, slot, task in zip(encoded, slots, tasks, strict=True)
    ]
    found = []
    for text, slot, filled in zip(encoded, slots, rules.fill(blanks), strict=True):

        def written(ids: Ids, text: Any = text, slot: int = slot) -> str:
            applied = codec.apply(text, [(slot, slot, ids)])
            start, end = applied.changes[0].inserted
            return applied.text[start:end].strip()

        found.append((written(filled.plain), None if filled.ranked is None else written(filled.ranked)))
    return found


def _delete(rules: Rules, tasks: Sequence[DeleteTask]) -> list[list[bool]]:
    """Whether the right sentence is found by perplexity ratio, by the perplexity of the rest, and by information."""
    found = []
    asked = [candidates(rules.codec, task) for task in tasks]
    for misfits, task in zip(rules.misfits(asked), tasks, strict=True):
        measures = zip(*((-np.log(m.ratio), np.log(m.perplexity_without), m.information) for m in misfits), strict=True)
        found.append([_lowest(measure) + 1 == task.answer for measure in measures])
    return found


def candidates(codec: Codec, task: DeleteTask) -> tuple[Ids, list[Span]]:
    """The tokens of the text, and the sentences of it that may be the wrong one."""
    encoded = codec.encode(" ".join(task.sentences))
    chars = np.cumsum([0, *(len(sentence) + 1 for sentence in task.sentences)])
    return encoded.ids, list(pairwise(encoded.slot_at(int(char)) for char in chars))[1:-1]


def _lowest(values: Sequence[float]) -> int:
    """The index of the lowest value; of values that are equal to `DECIMALS`, the first."""
    return int(np.round(values, DECIMALS).argmin())


def measured_share(right: NDArray[np.bool_]) -> Measured:
    samples = 100 * resampling_weights(len(right)) @ right / len(right)
    return Measured(100 * float(right.mean()), samples)


def _measured_bleu(outputs: Sequence[str], answers: Sequence[str]) -> Measured:
    statistics = sentence_statistics(outputs, answers, TOKENIZE)
    samples = bleu_of_statistics(resampling_weights(len(outputs)) @ statistics)
    return Measured(corpus_bleu(outputs, answers, TOKENIZE).score, samples)


# --- What needs no model ---------------------------------------------------------------------------------------


def random_choices(tasks: NewsTasks, seed: int = 0) -> tuple[Measured, Measured]:
    """Locate and Delete by throwing dice."""
    random = Random(seed)
    located = [random.randrange(len(task.gaps)) == task.answer for task in tasks.locate]
    deleted = [random.randrange(1, len(task.sentences) - 1) == task.answer for task in tasks.delete]
    return measured_share(np.array(located)), measured_share(np.array(deleted))


def heuristics(tasks: NewsTasks) -> dict[str, float]:
    """How often, in points above chance, rules are right that know nothing of language: all should be near 0."""

    def of_locate(choose: Any) -> float:
        return 100 * float(np.mean([choose(task) == task.answer for task in tasks.locate])) - 100 / 5

    def of_delete(choose: Any) -> float:
        return 100 * float(np.mean([choose(task) == task.answer for task in tasks.delete])) - 100 / 3

    def by_length(task: DeleteTask) -> list[int]:
        return sorted((1, 2, 3), key=lambda i: len(task.sentences[i].split()))

    return {
        **{f"Locate, gap {i + 1}": of_locate(lambda task, i=i: i) for i in range(5)},
        **{f"Delete, sentence {i + 1}": of_delete(lambda task, i=i: i) for i in (1, 2, 3)},
        "Delete, the longest sentence": of_delete(lambda task: by_length(task)[-1]),
        "Delete, the shortest sentence": of_delete(lambda task: by_length(task)[0]),
    }
