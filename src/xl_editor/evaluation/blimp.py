"""BLiMP (Warstadt et al. 2020): of two sentences that differ in one point of grammar, is the right one likelier?

A model is right about a pair if log q(good | ε ↓ ε) > log q(bad | ε ↓ ε): whole sentences, END included, no
normalisation by length. A group's figure is the mean over its paradigms, as it was published.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.progress import track

from xl_editor.editor import Call, Editor
from xl_editor.errors import RequestError
from xl_editor.files import unpacked

from .kept import KeptAnswers

ANSWERS = "blimp-answers"  # in the directory of what is kept
PAIRS_AT_ONCE = 100
FIELDS = ("sentence_good", "sentence_bad", "field", "linguistics_term", "UID")


@dataclass(frozen=True)
class MinimalPair:
    good: str
    bad: str
    field: str  # morphology, syntax, semantics …
    term: str  # of linguistics: island_effects, binding …
    paradigm: str


@dataclass(frozen=True)
class BlimpScores:
    """Per cent of the pairs that are judged right: in all, and by group in the order of the file."""

    n_pairs: int
    accuracy: float
    fields: Mapping[str, float]
    terms: Mapping[str, float]
    paradigms: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        groups = {"fields": self.fields, "terms": self.terms, "paradigms": self.paradigms}
        groups["in all"] = {f"{self.n_pairs:,} pairs": self.accuracy}
        width = max(len(name) for group in groups.values() for name in group)
        lines: list[str] = []
        for heading, group in groups.items():
            lines += [heading, *(f"  {name:<{width}} {accuracy:6.2f}" for name, accuracy in group.items())]
        return "\n".join(lines)


def read_pairs(path: Path, most: int | None = None) -> list[MinimalPair]:
    """The pairs of a JSONL file, packed or not; of each paradigm, the first `most`."""
    pairs: list[MinimalPair] = []
    seen: dict[str, int] = defaultdict(int)
    with unpacked(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                good, bad, field, term, paradigm = map(json.loads(line).__getitem__, FIELDS)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise RequestError(f"{path} has no pair in line {number}: {', '.join(FIELDS)} are wanted.") from None
            seen[paradigm] += 1
            if most is None or seen[paradigm] <= most:
                # One paradigm of the published file writes the field of the others otherwise.
                pairs.append(MinimalPair(good, bad, field.replace("/", "_"), term, paradigm))
    if not pairs:
        raise RequestError(f"{path} holds no pairs.")
    return pairs


def evaluate_blimp(
    editor: Editor, pairs: Sequence[MinimalPair], kept_in: Path | None = None, *, progress: bool = True
) -> BlimpScores:
    """Judge all pairs, some at a time; answers that are kept in a directory are not asked for again."""
    kept = None
    if kept_in:
        kept = KeptAnswers(kept_in, ["blimp", editor.codec.fingerprint], editor.model.state_dict().values())
    margins: list[float] = []
    starts = range(0, len(pairs), PAIRS_AT_ONCE)
    for first in track(starts, description="BLiMP", console=Console(stderr=True), disable=not progress):
        portion = pairs[first : first + PAIRS_AT_ONCE]
        make = partial(log_odds, editor, portion)
        margins += kept(_digest(portion), make) if kept else make()
    return scores_of(pairs, [margin > 0 for margin in margins])


def log_odds(editor: Editor, pairs: Sequence[MinimalPair]) -> list[float]:
    """The log-odds of the good sentence: log q(good | ε ↓ ε) − log q(bad | ε ↓ ε) of each pair."""
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    found = editor.answer_all([Call("score", {"left": "", "inserted": text, "right": ""}) for text in texts])
    for answer in found:
        if isinstance(answer, ValueError):
            raise answer
    return [good.logprob - bad.logprob for good, bad in zip(found[::2], found[1::2], strict=True)]


def scores_of(pairs: Sequence[MinimalPair], right: Sequence[bool]) -> BlimpScores:
    of_paradigm: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for pair, judged in zip(pairs, right, strict=True):
        of_paradigm[pair.field, pair.term, pair.paradigm].append(judged)
    shares = {names: 100 * mean(judged) for names, judged in of_paradigm.items()}

    def by(place: int) -> dict[str, float]:
        groups: dict[str, list[float]] = defaultdict(list)
        for names, share in shares.items():
            groups[names[place]].append(share)
        return {name: mean(of_group) for name, of_group in groups.items()}

    return BlimpScores(len(pairs), mean(shares.values()), by(0), by(1), by(2))


def _digest(pairs: Sequence[MinimalPair]) -> str:
    """What a portion of the pairs is known by, whatever else is asked: with more pairs, its answers are used again."""
    sentences = [[pair.good, pair.bad] for pair in pairs]
    return f"{pairs[0].paradigm} {hashlib.sha256(json.dumps(sentences).encode()).hexdigest()[:16]}"
