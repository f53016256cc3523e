"""Which part of a long text a question is asked in: the sentences around it.

A model knows what it was trained on, a few sentences at a time, and the cost of a question grows with its context. So
what is asked about a place is asked in a window: the sentence that holds it, a neighbour on either side, and further
ones, the nearest first, as long as all have no more than so many tokens. A text that has no more is one window, whole.
The questions about a text then cost as much each, however long it is: locating and deleting are linear in its length.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xl_editor.sentences import split_sentences
from xl_editor.text import EncodedText, Span

WINDOW_TOKENS = 128  # some three or four sentences; the models for running text are trained on one to five


@dataclass(frozen=True)
class Windows:
    """The windows of a text, made of its pieces: sentences, or parts of very long ones."""

    bounds: Sequence[int]  # of the pieces: tokens [bounds[i], bounds[i + 1])

    @classmethod
    def of(cls, encoded: EncodedText) -> Windows:
        starts = (first for first, _ in sentence_spans(encoded))
        return cls(sorted({0, *starts, len(encoded.ids)}))

    def around(self, first: int, last: int, most_tokens: int = WINDOW_TOKENS) -> Span:
        """The tokens of the window in which tokens [first, last), or the gap before `first`, are asked about."""
        n_pieces = len(self.bounds) - 1
        if n_pieces < 1:
            return first, last
        low = min(bisect_right(self.bounds, first) - 1, n_pieces - 1)
        high = max(low + 1, bisect_left(self.bounds, last))
        low, high = max(0, low - 1), min(n_pieces, high + 1)
        grown = True
        while grown:
            grown = False
            for before, after in ((1, 0), (0, 1)):
                a, b = low - before, high + after
                if a >= 0 and b <= n_pieces and self.bounds[b] - self.bounds[a] <= most_tokens:
                    low, high, grown = a, b, True
        return self.bounds[low], self.bounds[high]


def correction_windows(encoded: EncodedText, words: Sequence[Span]) -> list[Span]:
    """Words [low, high) of the windows in which a text is corrected: whole sentences, as many as fit, none twice."""
    firsts = [first for first, _ in words]
    bounds = sorted({bisect_left(firsts, first) for first, _ in sentence_spans(encoded)} | {0, len(words)})
    windows: list[Span] = []
    for low, high in pairwise(bounds):
        if windows and words[high - 1][1] - words[windows[-1][0]][0] <= WINDOW_TOKENS:
            windows[-1] = windows[-1][0], high
        else:
            windows.append((low, high))
    return windows


def sentence_spans(encoded: EncodedText) -> list[Span]:
    """The tokens of each sentence; one that is longer than a window comes in parts of half a window, of whole words."""
    sentences = (encoded.covering(start, end) for start, end in split_sentences(encoded.text))
    return [part for sentence in sentences for part in _parts(encoded, sentence)]


def _parts(encoded: EncodedText, sentence: Span) -> Iterable[Span]:
    first, last = sentence
    if last - first <= WINDOW_TOKENS:
        return [sentence]
    bounds = [first]
    for word in encoded.words[bisect_left(encoded.words, first, key=lambda word: word.first) :]:
        if word.first >= last:
            break
        if word.last - bounds[-1] > WINDOW_TOKENS // 2 and word.first > bounds[-1]:
            bounds.append(word.first)
    return pairwise([*bounds, last])
