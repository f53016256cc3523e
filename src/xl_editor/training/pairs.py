"""Pairs of texts, what was written and what should have been written, as files → as the stream takes them.

JSONL has a pair a line, with `source` and `target`; or the two sides are plain files, a text a line, line by line.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from xl_editor.training.corpus import HOLD_OUT_EVERY, CorpusError, Source, read_lines
from xl_editor.training.corrections import Reader, correct_slots
from xl_editor.training.recipe import SIDES
from xl_editor.training.sampling import Bools, Ints


@dataclass(frozen=True)
class Pairs:
    """Pairs that can be aligned word by word (see `corrections`)."""

    texts: list[tuple[str, str]]  # source, target
    lengths: Ints  # (N,) tokens of the sources
    n_skipped: int = 0  # that are different texts, or too long

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.texts).encode()).hexdigest()[:24]

    def hold_out(self) -> tuple[Pairs, Pairs]:
        """The pairs in two parts, for training and development: every 50th pair is held out."""
        n = len(self)
        if n < 2:
            raise CorpusError("A single pair cannot be split into training and development parts.")
        held_out = np.arange(n) % HOLD_OUT_EVERY == min(HOLD_OUT_EVERY, n) - 1
        return self._choose(~held_out), self._choose(held_out)

    def _choose(self, chosen: Bools) -> Pairs:
        texts = [self.texts[i] for i in np.flatnonzero(chosen).tolist()]
        return Pairs(texts, self.lengths[chosen], self.n_skipped)


NO_PAIRS = Pairs([], np.zeros(0, np.int64))


def load_pairs(
    files: Sequence[Source], reader: Reader, max_tokens: int, progress: Callable[[int], None] = lambda _: None
) -> Pairs:
    """Read pairs; those that cannot be aligned, or are longer than this, are counted and skipped."""
    texts, lengths, n_read = [], [], 0
    for n_read, pair in enumerate(read_pairs(files), 1):
        if n_read % 1000 == 0:
            progress(n_read)
        slots = correct_slots(reader, *pair)
        if slots is None or not slots[0]:
            continue
        length = max(sum(map(len, side)) for side in slots)
        if length <= max_tokens:
            texts.append(pair)
            lengths.append(length)
    if not texts:
        raise CorpusError(f"{files[0].path} holds no pair that can be aligned, of {n_read:,}.")
    return Pairs(texts, np.array(lengths, np.int64), n_read - len(texts))


def read_pairs(files: Sequence[Source]) -> Iterator[tuple[str, str]]:
    sides = [[file for file in files if file.style == side] for side in SIDES]
    for source, target in zip(*sides, strict=True):
        for number, (wrong, right) in enumerate(zip_longest(_lines(source), _lines(target)), 1):
            if wrong is None or right is None:
                shorter = source.path if wrong is None else target.path
                raise CorpusError(f"{shorter} ends before line {number}: both sides of pairs have as many lines.")
            if wrong.strip() and right.strip():
                yield wrong.strip(), right.strip()
    for file in files:
        if file.style is None:
            for number, line in enumerate(_lines(file), 1):
                if line.strip():
                    yield parse_pair(line, f"{file.path}, line {number}")


def parse_pair(line: str, place: str) -> tuple[str, str]:
    """The two sides of a pair, from a line of JSON."""
    try:
        entry = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise CorpusError(f"{place}: not valid JSON ({error}).") from None
    given = [entry.get(side) for side in SIDES] if isinstance(entry, dict) else ["", ""]
    source, target = (text.strip() if isinstance(text, str) else "" for text in given)
    if not source or not target:
        raise CorpusError(f"{place}: expected a JSON object with `source` and `target`, two texts.")
    return source, target


def _lines(file: Source) -> Iterator[str]:
    for _, line in read_lines(file.path, Counter(), skip_bad_lines=False):
        yield line
