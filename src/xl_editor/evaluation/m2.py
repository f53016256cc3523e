"""Edits against those of annotators, as M2 files have them: precision, recall, F0.5.

    S This are sentence .
    A 1 2|||R:VERB:SVA|||is|||REQUIRED|||-NONE-|||0
    A 2 2|||M:DET|||a|||REQUIRED|||-NONE-|||0

A corrected sentence becomes edits by this rule. Its words are aligned with the source's at the least cost: to insert or
delete a word costs 1; to replace it between 1 and 2, the less the more alike the two are in letters, and 1.5 if one has
fewer than four; to put k words, at most 4, into another order k − 1. Of equal ways, the one that replaces first counts.
Steps next to each other that change something are a block. A block that only joins or splits words is one edit
("alot" → "a lot"); of any other, each replacement and each reordering is one, and so are insertions next to each other,
and deletions.

An edit is right if an annotator has it: the same words, the same correction. Of several annotators, the one counts who
makes the score so far the best, sentence by sentence, as ERRANT does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby
from operator import add
from pathlib import Path
from typing import Any

from xl_editor.errors import RequestError

from .style_data import read_lines

BETA = 0.5  # precision weighs twice as much as recall
MAX_REORDERED = 4  # words
MIN_COMPARED = 4  # letters of words that are told apart by them
NOTHING = "-NONE-"
NO_EDIT = ("noop", "UNK")  # nothing is wrong, or something is that the annotator could not put right

Words = Sequence[str]


@dataclass(frozen=True, order=True)
class WordEdit:
    """Words [start, end) of the source are replaced; where there are none, words were missing."""

    start: int
    end: int
    words: tuple[str, ...]

    @property
    def is_missing_word(self) -> bool:
        return self.start == self.end


@dataclass(frozen=True)
class GoldEdit:
    """What an annotator says: any one of the corrections is right."""

    start: int
    end: int
    corrections: frozenset[tuple[str, ...]]

    def __contains__(self, edit: WordEdit) -> bool:
        return (edit.start, edit.end) == (self.start, self.end) and edit.words in self.corrections


@dataclass(frozen=True)
class AnnotatedSentence:
    words: tuple[str, ...]
    annotations: tuple[tuple[GoldEdit, ...], ...]  # of each annotator; one of none if there is nobody


@dataclass(frozen=True)
class Counts:
    right: int = 0  # edits that an annotator has, too
    wrong: int = 0  # edits that he has not
    missed: int = 0  # his that were not made

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(add, vars(self).values(), vars(other).values()))

    @property
    def precision(self) -> float:
        """Of the edits made, the share that is right; 1 if none was made."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    @property
    def f_score(self) -> float:
        weighed = BETA**2 * self.precision + self.recall
        return (1 + BETA**2) * self.precision * self.recall / weighed if weighed else 0.0

    def to_dict(self) -> dict[str, Any]:
        scores = {"precision": self.precision, "recall": self.recall, "f0.5": self.f_score}
        return {**vars(self), **{name: 100 * score for name, score in scores.items()}}

    def __str__(self) -> str:
        return f"{100 * self.precision:.1f} / {100 * self.recall:.1f} / {100 * self.f_score:.1f}"


@dataclass(frozen=True)
class EditScores:
    edits: Counts
    missing_words: Counts  # of these, the ones that put in words where the source has none

    def to_dict(self) -> dict[str, Any]:
        return {"edits": self.edits.to_dict(), "missing_words": self.missing_words.to_dict()}


def read_m2(path: Path) -> list[AnnotatedSentence]:
    """The sentences of an M2 file, with what each annotator wants of them."""
    sentences = []
    numbered = enumerate(read_lines(path), start=1)
    for has_text, block in groupby(numbered, key=lambda numbered: bool(numbered[1])):
        if has_text:
            sentences.append(_read_sentence(path, block))
    if not sentences:
        raise RequestError(f"{path} holds no sentences.")
    return sentences


def _read_sentence(path: Path, block: Iterable[tuple[int, str]]) -> AnnotatedSentence:
    words: tuple[str, ...] | None = None
    by_annotator: dict[str, list[GoldEdit]] = {}
    for number, line in block:
        kind, _, content = line.partition(" ")
        if kind == "S" and words is None:
            words = tuple(content.split())
            continue
        try:
            if kind != "A" or words is None:
                raise ValueError
            place, error, correction, _, _, annotator = content.split("|||")
            start, end = map(int, place.split())
            edits = by_annotator.setdefault(annotator, [])
            if error in NO_EDIT or start < 0:
                continue
            if not start <= end <= len(words):
                raise ValueError
        except ValueError:
            raise RequestError(f"{path} has in line {number} no line of an M2 file, or not where it belongs.") from None
        wanted = ("" if option == NOTHING else option for option in correction.split("||"))
        edits.append(GoldEdit(start, end, frozenset(tuple(option.split()) for option in wanted)))
    assert words is not None  # a block has lines, and its first is no other
    return AnnotatedSentence(words, tuple(map(tuple, by_annotator.values())) or ((),))


def score_edits(sentences: Sequence[AnnotatedSentence], outputs: Sequence[str]) -> EditScores:
    """Scores corrected sentences, tokenised as the annotated ones are and in the same order."""
    if len(sentences) != len(outputs):
        raise RequestError(f"There are {len(outputs)} outputs for {len(sentences)} annotated sentences.")
    total = missing = Counts()
    for sentence, output in zip(sentences, outputs, strict=True):
        made = word_edits(sentence.words, output.split())
        compared = [(compare(made, gold), gold) for gold in sentence.annotations]
        counts, gold = max(compared, key=lambda found: _preference(total, found[0]))
        total += counts
        missing += compare([e for e in made if e.is_missing_word], [g for g in gold if g.start == g.end])
    return EditScores(total, missing)


def compare(made: Sequence[WordEdit], gold: Sequence[GoldEdit]) -> Counts:
    right = sum(any(edit in wanted for wanted in gold) for edit in made)
    missed = sum(not any(edit in wanted for edit in made) for wanted in gold)
    return Counts(right, len(made) - right, missed)


def _preference(so_far: Counts, counts: Counts) -> tuple[float, int, int, int]:
    return (so_far + counts).f_score, counts.right, -counts.wrong, -counts.missed


def word_edits(source: Words, output: Words) -> list[WordEdit]:
    """What was done to the source's words, by the rule above."""
    edits = []
    for changes, run in groupby(_aligned(source, output), key=lambda step: step.operation != "keep"):
        if not changes:
            continue
        block = list(run)
        if _letters(source[block[0].start : block[-1].end]) == _letters(output[block[0].first : block[-1].last]):
            groups = [block]
        else:
            groups = []
            for operation, same in groupby(block, key=lambda step: step.operation):
                steps = list(same)
                groups += [steps] if operation in ("insert", "delete") else [[step] for step in steps]
        for group in groups:
            words = tuple(output[group[0].first : group[-1].last])
            edits.append(WordEdit(group[0].start, group[-1].end, words))
    return edits


@dataclass(frozen=True)
class _Step:
    """Of an alignment: source words [start, end) become output words [first, last)."""

    operation: str
    start: int
    end: int
    first: int
    last: int


def _aligned(source: Words, output: Words) -> list[_Step]:
    """The cheapest way from the source to the output; of several, the one that keeps words as early as possible."""
    n, m = len(source), len(output)
    folded = [word.casefold() for word in source], [word.casefold() for word in output]
    # costs[i][j]: from source[i:] to output[j:]
    costs = [[float(n - i + m - j) for j in range(m + 1)] for i in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            if source[i] == output[j]:
                costs[i][j] = costs[i + 1][j + 1]
                continue
            replaced = costs[i + 1][j + 1] + _replacing(source[i], output[j])
            reordered = (costs[i + k][j + k] + k - 1 for k in _reordered(*folded, i, j))
            costs[i][j] = min(replaced, costs[i][j + 1] + 1, costs[i + 1][j] + 1, *reordered)
    steps = []
    i = j = 0
    while i < n or j < m:
        cost = costs[i][j]
        if i < n and j < m and source[i] == output[j]:
            step = _Step("keep", i, i + 1, j, j + 1)
        elif i < n and j < m and cost == costs[i + 1][j + 1] + _replacing(source[i], output[j]):
            step = _Step("replace", i, i + 1, j, j + 1)
        elif k := next((k for k in _reordered(*folded, i, j) if cost == costs[i + k][j + k] + k - 1), 0):
            step = _Step("reorder", i, i + k, j, j + k)
        elif j < m and cost == costs[i][j + 1] + 1:
            step = _Step("insert", i, i, j, j + 1)
        else:
            step = _Step("delete", i, i + 1, j, j)
        steps.append(step)
        i, j = step.end, step.last
    return steps


def _reordered(source: Words, output: Words, i: int, j: int) -> Iterator[int]:
    """How many words from source[i] and output[j] on are the same in another order, which differs at once."""
    most = min(len(source) - i, len(output) - j, MAX_REORDERED)
    if most > 1 and source[i] != output[j] and source[i] in output[j + 1 : j + most]:
        for k in range(2, most + 1):
            if sorted(source[i : i + k]) == sorted(output[j : j + k]):
                yield k


@lru_cache(maxsize=100_000)
def _replacing(old: str, new: str) -> float:
    """What it costs to replace one word by another."""
    if old == new:
        return 0.0
    if old.casefold() == new.casefold():
        return 1.0
    if min(len(old), len(new)) < MIN_COMPARED:  # "are" has more letters of "a" than of "is"
        return 1.5
    return 2.0 - SequenceMatcher(None, old.lower(), new.lower(), autojunk=False).ratio()


def _letters(words: Words) -> str:
    return "".join(character for character in "".join(words).casefold() if character.isalnum())
