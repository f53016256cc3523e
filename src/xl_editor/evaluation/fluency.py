"""Fluency: the perplexity of texts under a 5-gram model with interpolated modified Kneser-Ney smoothing.

No editing method here is trained with it or searches with it. Chen and Goodman (1999) describe the smoothing.
Everything is an array: an n-gram is known by its row among the sorted n-grams of its order, where its key is
(row of its first n − 1 words) × (size of the vocabulary) + (id of its last word). So a 5-gram model of four
million words is counted in seconds, saved as counts, and looked up by binary search.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from xl_editor.errors import RequestError
from xl_editor.files import write_whole

from .words import UNKNOWN, frequent_words, split_words

ORDER = 5
MIN_COUNT = 2  # words seen once in training stand for all the words that were never seen

START, END = "<s>", "</s>"
START_ID, END_ID, UNKNOWN_ID = 0, 1, 2
NOT_SEEN = -1

# For counts 0, 1, 2 and ≥ 3, where the data are too few to estimate discounts from.
FALLBACK_DISCOUNTS = (0.0, 0.5, 1.0, 1.5)

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class NgramCounts:
    """What a model is made from: for each order, the sorted keys of the n-grams seen, and their counts.

    The counts are Kneser-Ney's: how often an n-gram was seen, for the highest order and for n-grams that open
    a line; how many different words were seen before it, for all others. Unigrams are the whole vocabulary.
    """

    vocabulary: tuple[str, ...]  # the three special words first
    n_unknown_types: int  # how many different words the unknown word stands for
    keys: tuple[Rows, ...]
    counts: tuple[NDArray[np.int64], ...]


class NgramModel:
    """An interpolated n-gram model in back-off form.

    An n-gram that was seen has its interpolated probability; one that was not has the back-off weight of its
    context times its probability under the context without the first word.
    """

    def __init__(self, counts: NgramCounts) -> None:
        self.counts = counts
        self._word_ids = _word_ids(counts.vocabulary)
        self._logprobs: list[NDArray[np.float32]] = []  # of each n-gram, an array an order
        self._log_backoffs: list[NDArray[np.float32]] = []  # of each context of that order's n-grams
        self._estimate()

    @classmethod
    def train(cls, lines: Sequence[str]) -> "NgramModel":
        """Estimates the model on tokenised lines."""
        return cls(count_ngrams(lines))

    def _estimate(self) -> None:
        n_words = len(self.counts.vocabulary)
        # Below the unigrams: all words are equally likely (the start of a line is not one).
        shorter = np.array([1 / (n_words - 1)])
        suffixes = list(_suffix_rows(self.counts.keys, n_words))
        for keys, counts, suffix in zip(self.counts.keys, self.counts.counts, suffixes, strict=True):
            context = keys // n_words
            discounts = _discounts(counts)[np.minimum(counts, 3)]
            total = np.bincount(context, weights=counts, minlength=len(shorter))
            withheld = np.bincount(context, weights=discounts, minlength=len(shorter))
            backoff = np.divide(withheld, total, out=np.ones_like(total), where=total > 0)
            probability = (counts - discounts) / total[context] + backoff[context] * shorter[suffix]
            self._logprobs.append(np.log(probability).astype(np.float32))
            self._log_backoffs.append(np.log(backoff).astype(np.float32))
            shorter = probability

    def word_logprobs(self, texts: Sequence[str]) -> list[NDArray[np.float64]]:
        """The log-probability of every word of every text, and of its end."""
        ids, places = _flatten([_ids(text, self._word_ids) for text in texts])
        n_words = len(self.counts.vocabulary)
        rows = ids  # of the n-gram that ends at each place; a unigram's row is its id
        logprobs = self._logprobs[0][ids].astype(np.float64)
        for order in range(2, len(self.counts.keys) + 1):
            # No n-gram reaches over the start of a line: none has it anywhere but in first place.
            context = np.concatenate([[NOT_SEEN], rows[:-1]])
            rows = _find(self.counts.keys[order - 1], context, ids, n_words)
            seen, backs_off = rows != NOT_SEEN, (rows == NOT_SEEN) & (context != NOT_SEEN)
            logprobs[seen] = self._logprobs[order - 1][rows[seen]]
            logprobs[backs_off] += self._log_backoffs[order - 1][context[backs_off]]
        # An unknown word is one of many: without this, a rare word would pass for a likely one.
        logprobs[ids == UNKNOWN_ID] -= np.log(max(1, self.counts.n_unknown_types))
        starts = np.flatnonzero(places == 0)
        return [line[1:] for line in np.split(logprobs, starts[1:])] if texts else []

    def perplexities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The perplexity per word of each text, its end included."""
        return np.array([np.exp(-logprobs.mean()) for logprobs in self.word_logprobs(texts)])

    def median_perplexity(self, texts: Sequence[str]) -> float:
        """The median over texts: a few odd ones cannot move it."""
        if not texts:
            raise RequestError("There is no text to take the median perplexity of.")
        return float(np.median(self.perplexities(texts)))

    def save(self, path: Path) -> None:
        """Writes the counts; probabilities are computed from them when they are loaded."""
        path.parent.mkdir(parents=True, exist_ok=True)
        vocabulary = np.frombuffer("\n".join(self.counts.vocabulary).encode(), dtype=np.uint8)
        arrays = {"vocabulary": vocabulary, "n_unknown_types": np.array(self.counts.n_unknown_types)}
        for order, (keys, counts) in enumerate(zip(self.counts.keys, self.counts.counts, strict=True), start=1):
            arrays[f"key_steps_{order}"] = _smallest(np.diff(keys, prepend=0))  # sorted keys: small steps
            arrays[f"counts_{order}"] = _smallest(counts)
        packed = io.BytesIO()
        np.savez_compressed(packed, allow_pickle=False, **arrays)
        write_whole(path, packed.getvalue())

    @classmethod
    def load(cls, path: Path) -> "NgramModel":
        """Reads what `save` wrote."""
        if not path.is_file():
            raise FileNotFoundError(f"No n-gram model at {path}.")
        with np.load(path, allow_pickle=False) as arrays:
            orders = range(1, sum(name.startswith("counts_") for name in arrays.files) + 1)
            return cls(
                NgramCounts(
                    vocabulary=tuple(arrays["vocabulary"].tobytes().decode().split("\n")),
                    n_unknown_types=int(arrays["n_unknown_types"]),
                    keys=tuple(np.cumsum(arrays[f"key_steps_{n}"], dtype=np.int64) for n in orders),
                    counts=tuple(arrays[f"counts_{n}"].astype(np.int64) for n in orders),
                )
            )


def count_ngrams(lines: Sequence[str], order: int = ORDER, min_count: int = MIN_COUNT) -> NgramCounts:
    """Counts the n-grams of tokenised lines, up to the given order."""
    if not lines:
        raise RequestError("A language model needs at least one line to train on.")
    all_words = frequent_words(lines, at_least=1)
    special = (START, END, UNKNOWN)
    known = [word for word in frequent_words(lines, min_count) if word not in special]
    vocabulary = (*special, *known)
    n_words = len(vocabulary)
    word_ids = _word_ids(vocabulary)
    ids, places = _flatten([_ids(line, word_ids) for line in lines])
    keys, times_seen = [np.arange(n_words)], [np.bincount(ids, minlength=n_words)]
    rows = ids  # of the n-gram that ends at each place
    for n in range(2, order + 1):
        ends = np.flatnonzero(places >= n - 1)
        unique, inverse, seen = np.unique(rows[ends - 1] * n_words + ids[ends], return_inverse=True, return_counts=True)
        rows = np.full(len(ids), NOT_SEEN)
        rows[ends] = inverse
        keys.append(unique)
        times_seen.append(seen)
    counts = times_seen.copy()
    for n, suffix in enumerate(_suffix_rows(keys, n_words)):
        if n > 0:
            words_before = np.bincount(suffix, minlength=len(keys[n - 1]))
            # Nothing precedes what opens a line, and only that.
            counts[n - 1] = np.where(words_before > 0, words_before, times_seen[n - 1])
    counts[0][START_ID] = 0
    return NgramCounts(vocabulary, len(all_words) - len(known), tuple(keys), tuple(counts))


def _word_ids(vocabulary: Sequence[str]) -> dict[str, int]:
    """Ids of the words that may stand in a text: one that spells out a special word is unknown."""
    return {word: index for index, word in enumerate(vocabulary) if index > UNKNOWN_ID}


def _ids(text: str, word_ids: dict[str, int]) -> list[int]:
    """A text with its start and end."""
    return [START_ID, *(word_ids.get(word, UNKNOWN_ID) for word in split_words(text)), END_ID]


def _suffix_rows(keys: Sequence[Rows], n_words: int) -> list[Rows]:
    """For each order, the row (one order down) of each n-gram without its first word."""
    suffixes = [np.zeros(len(keys[0]), dtype=np.int64)]
    for shorter, longer in pairwise(keys):
        context, word = np.divmod(longer, n_words)
        suffixes.append(_find(shorter, suffixes[-1][context], word, n_words))
    return suffixes


def _find(keys: Rows, context: Rows, word: Rows, n_words: int) -> Rows:
    """The rows of the n-grams (context, word), or NOT_SEEN."""
    wanted = np.where(context == NOT_SEEN, NOT_SEEN, context * n_words + word)
    row = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[row] == wanted, row, NOT_SEEN)


def _discounts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Modified Kneser-Ney's discounts for counts 0, 1, 2 and ≥ 3."""
    n1, n2, n3, n4 = (float((counts == count).sum()) for count in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return np.array(FALLBACK_DISCOUNTS)
    y = n1 / (n1 + 2 * n2)
    discounts = np.array([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    proper = (discounts[1:] > 0).all() and (discounts[1:] <= (1, 2, 3)).all()
    return discounts if proper else np.array(FALLBACK_DISCOUNTS)


def _flatten(lines: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All ids of all lines in a row, and the place of each within its line."""
    lengths = np.array([len(line) for line in lines], dtype=np.int64)
    ids = np.fromiter((index for line in lines for index in line), dtype=np.int64, count=int(lengths.sum()))
    starts = np.cumsum(lengths) - lengths
    return ids, np.arange(len(ids)) - np.repeat(starts, lengths)


def _smallest(values: NDArray[np.int64]) -> NDArray[np.unsignedinteger]:
    """The same numbers in the narrowest unsigned type."""
    return values.astype(np.min_scalar_type(int(values.max())))
