"""Which intervals are taken out of which sequence, and which sequences share a batch.

There is no random generator here. Every choice is a hash of (seed, epoch, example, what is being chosen), so
the data seen does not depend on workers, on resuming or on the number of processes, and any part of an epoch
can be computed alone. Everything works on whole arrays: N sequences at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Offsets = NDArray[np.int32]  # positions within a sequence

UNITS_AT_ONCE = 1 << 22  # tokens whose word boundaries are looked at together: bounds the memory, not the result
NO_SENTENCE_MISSING = 0.5  # of the slots between sentences, how many are empty


def random_bits(examples: Ints, choice: str, *, seed: int, epoch: int) -> NDArray[np.uint64]:
    """64 random bits for each example: splitmix64, entered at a point that depends on everything else."""
    key = blake2b(f"{seed} {epoch} {choice}".encode(), digest_size=8).digest()
    bits: NDArray[np.uint64] = examples.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.frombuffer(key, "<u8")
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def uniform(examples: Ints, choice: str, *, seed: int, epoch: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each example."""
    bits = random_bits(examples, choice, seed=seed, epoch=epoch) >> np.uint64(11)
    return bits.astype(np.float64) * np.float64(2.0**-53)  # as many bits as a float64 holds exactly


@dataclass(frozen=True)
class Slots:
    """The intervals taken out of N sequences: half-open, in order, relative to the sequence's start."""

    starts: Offsets  # (N, max_slots); zero where there is no slot
    ends: Offsets  # (N, max_slots)
    counts: Offsets  # (N,) how many of them there are, at least one

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def n_tokens(self) -> Ints:
        """Tokens taken out of each sequence: the sum of |y|. *Shape:* (N,)."""
        total: Ints = (self.ends - self.starts).sum(axis=1, dtype=np.int64)
        return total

    @property
    def n_targets(self) -> Ints:
        """What is to be predicted in each sequence: every y and its END. *Shape:* (N,)."""
        return self.n_tokens + self.counts

    def intervals(self, example: int) -> list[tuple[int, int]]:
        """The slots of one sequence, as `geometry.insertion_places` takes them."""
        count = self.counts[example]
        pairs = zip(self.starts[example, :count].tolist(), self.ends[example, :count].tolist(), strict=True)
        return list(pairs)


def sample_intervals(
    lengths: Ints, examples: Ints, *, seed: int, epoch: int, empty_rate: float = 0.0, max_slots: int = 1
) -> Slots:
    """Choose what to take out of sequences of these lengths (in tokens, or in any other unit).

    One slot: uniform over all T(T+1)/2 non-empty intervals, or with probability `empty_rate` uniform over
    the T+1 gaps. With `max_slots` 1 and `empty_rate` 0 this is the paper's U(x). Several: their number is
    uniform in 1..max_slots, as far as the length allows; the sequence is cut at random into that many parts
    with a context unit between neighbours, and each part has its slot chosen as above.

    Args:
        lengths: T of each sequence, at least 1, (N,).
        examples: what identifies each sequence within the epoch, (N,).

    """

    def below(limit: Ints, choice: str) -> Ints:
        """Uniform in 0..limit−1, or 0 where the limit is 0."""
        return (uniform(examples, choice, seed=seed, epoch=epoch) * limit).astype(np.int64)

    counts = 1 + below(np.minimum(max_slots, (lengths + 1) // 2), "number of slots")
    part_starts, part_lengths = _cut_into_parts(lengths, counts, max_slots, below)
    starts = np.zeros((len(lengths), max_slots), dtype=np.int32)
    ends = np.zeros_like(starts)
    for slot in range(max_slots):
        length, used = part_lengths[:, slot], slot < counts
        # A non-empty interval is a pair of distinct gaps, an empty one is a single gap.
        gap = below(length + 1, f"gap of slot {slot}")
        other = below(length, f"other gap of slot {slot}")
        other += other >= gap
        empty = uniform(examples, f"is slot {slot} empty", seed=seed, epoch=epoch) < empty_rate
        other = np.where(empty, gap, other)
        starts[:, slot] = np.where(used, part_starts[:, slot] + np.minimum(gap, other), 0)
        ends[:, slot] = np.where(used, part_starts[:, slot] + np.maximum(gap, other), 0)
    return Slots(starts, ends, counts.astype(np.int32))


def _cut_into_parts(
    lengths: Ints, counts: Ints, max_slots: int, below: Callable[[Ints, str], Ints]
) -> tuple[Ints, Ints]:
    """Cut T units into m parts of at least one, with a unit left between neighbours; all ways equally likely.

    Without the m − 1 units between, T − m + 1 units remain, and m − 1 distinct cuts of their T − m inner
    boundaries make the parts. *Shape:* (N,) → starts and lengths, (N, max_slots); unused parts have length 0.
    """
    n_inner = lengths - counts
    no_cut = np.int64(np.iinfo(np.int64).max)
    cuts = np.full((len(lengths), max_slots - 1), no_cut)
    for drawn in range(max_slots - 1):
        cut = 1 + below(np.maximum(n_inner - drawn, 0), f"cut {drawn}")
        for earlier in range(drawn):  # in ascending order: step over the boundaries that are already cut
            cut += cut >= cuts[:, earlier]
        cuts[:, drawn] = np.where(drawn < counts - 1, cut, no_cut)
        cuts[:, : drawn + 1].sort(axis=1)
    edges = np.concatenate([np.zeros((len(lengths), 1), np.int64), cuts], axis=1)
    edges = np.minimum(edges, (n_inner + 1)[:, None])
    part_lengths = np.diff(edges, axis=1, append=(n_inner + 1)[:, None])
    return edges + np.arange(max_slots), part_lengths


def sample_slots(
    tokens: NDArray[np.integer],
    starts: Ints,
    ends: Ints,
    *,
    seed: int,
    epoch: int,
    empty_rate: float = 0.0,
    max_slots: int = 1,
    unit: Literal["token", "word"] = "token",
    starts_word: Bools | None = None,
    examples: Ints | None = None,
) -> Slots:
    """The slots of the sequences `tokens[starts[i]:ends[i]]`.

    Args:
        tokens: all the tokens of the corpus; memory-mapped is fine, and only read for `unit="word"`.
        examples: what identifies each sequence within the epoch: where it starts, by default.
        unit: intervals of tokens, as in the paper, or of whole words.
        starts_word: for each entry of the vocabulary, whether it begins a word (`text.starts_word`).

    """
    examples = starts if examples is None else examples
    if unit == "token":
        return sample_intervals(
            ends - starts, examples, seed=seed, epoch=epoch, empty_rate=empty_rate, max_slots=max_slots
        )
    if starts_word is None:
        raise ValueError('unit="word" needs starts_word, the table of which tokens begin a word.')
    parts = []
    for part in _pieces(ends - starts, UNITS_AT_ONCE):
        words = _Words.find(tokens, starts[part], ends[part], starts_word)
        in_words = sample_intervals(
            words.counts, examples[part], seed=seed, epoch=epoch, empty_rate=empty_rate, max_slots=max_slots
        )
        parts.append(Slots(words.to_tokens(in_words.starts), words.to_tokens(in_words.ends), in_words.counts))
    columns = ((p.starts, p.ends, p.counts) for p in parts)
    if not parts:
        return Slots(np.zeros((0, max_slots), np.int32), np.zeros((0, max_slots), np.int32), np.zeros(0, np.int32))
    all_starts, all_ends, counts = (np.concatenate(column) for column in zip(*columns, strict=True))
    return Slots(all_starts, all_ends, counts)


def sample_sentences(starts: Ints, ends: Ints, sentence_offsets: Ints, *, seed: int, epoch: int) -> Slots:
    """One slot a sequence, of whole sentences: uniform over all runs of them, or, every other time, over the gaps.

    Args:
        starts: where each sequence starts in the corpus, with a sentence, (N,).
        ends: where it ends, maybe within one, (N,).
        sentence_offsets: where the sentences of the corpus start, and the last one ends, (S + 1,).

    """
    first, last = (np.searchsorted(sentence_offsets, edges) for edges in (starts, ends))
    chosen = sample_intervals(last - first, starts, seed=seed, epoch=epoch, empty_rate=NO_SENTENCE_MISSING)

    def to_tokens(sentences: Offsets) -> Offsets:
        token = np.minimum(sentence_offsets[first + sentences[:, 0]], ends)
        return (token - starts).astype(np.int32)[:, None]

    return Slots(to_tokens(chosen.starts), to_tokens(chosen.ends), chosen.counts)


def all_of_it(lengths: Ints) -> Slots:
    """One slot a sequence, which is the whole sequence."""
    ends = lengths.astype(np.int32)[:, None]
    return Slots(np.zeros_like(ends), ends, np.ones(len(lengths), np.int32))


def mix(slots: Slots, others: Slots, examples: Ints, rate: float, choice: str, *, seed: int, epoch: int) -> Slots:
    """Instead of a sequence's slots, at this rate, its one other slot."""
    instead = uniform(examples, choice, seed=seed, epoch=epoch) < rate
    unused = ((0, 0), (0, slots.starts.shape[1] - 1))
    return Slots(
        np.where(instead[:, None], np.pad(others.starts, unused), slots.starts),
        np.where(instead[:, None], np.pad(others.ends, unused), slots.ends),
        np.where(instead, others.counts, slots.counts),
    )


@dataclass(frozen=True)
class _Words:
    """Where the words of N sequences begin."""

    beginnings: Ints  # of all words of all sequences, relative to their own sequence, one sequence after the other
    counts: Ints  # (N,) words of each sequence
    lengths: Ints  # (N,) tokens of each sequence

    @classmethod
    def find(cls, tokens: NDArray[np.integer], starts: Ints, ends: Ints, starts_word: Bools) -> _Words:
        lengths = ends - starts
        firsts = np.cumsum(lengths) - lengths  # of each sequence, when all are laid end to end
        within = np.arange(lengths.sum()) - np.repeat(firsts, lengths)
        begins = starts_word[tokens[np.repeat(starts, lengths) + within]]
        begins[firsts] = True  # whatever a sequence begins with begins a word
        return cls(within[begins], np.add.reduceat(begins, firsts, dtype=np.int64), lengths)

    def to_tokens(self, words: Offsets) -> Offsets:
        """The token at which each word begins; after the last word, the end. *Shape:* (N, max_slots)."""
        firsts = np.cumsum(self.counts) - self.counts
        inside = words < self.counts[:, None]
        index = firsts[:, None] + np.where(inside, words, 0)
        return np.where(inside, self.beginnings[index], self.lengths[:, None]).astype(np.int32)


def _pieces(sizes: Ints, limit: int) -> Iterator[slice]:
    """Slices that cover all sizes, each adding up to about `limit`."""
    which = np.cumsum(sizes) // limit
    edges = [0, *(np.flatnonzero(np.diff(which)) + 1).tolist(), len(sizes)]
    return (slice(low, high) for low, high in pairwise(edges) if high > low)


def style_dropped(examples: Ints, rate: float, *, seed: int, epoch: int) -> Bools:
    """Which sequences are shown without their style."""
    return uniform(examples, "is the style dropped", seed=seed, epoch=epoch) < rate


def carries_classifier(step: int, share: float) -> bool:
    """Whether this step, counted over all epochs, trains the classifier: `share` of them, evenly."""
    return int((step + 1) * share) > int(step * share)


@dataclass(frozen=True)
class Batches:
    """An epoch's examples in batches, in the order in which they are trained on."""

    order: Ints  # (N,) every example once, one batch after the other
    offsets: Ints  # (B + 1,) where each batch begins in `order`
    per_step: int  # batches of one optimiser step
    padding_share: float  # of all rows that the model computes

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, batch: int) -> Ints:
        if not 0 <= batch < len(self):
            raise IndexError(f"There is no batch {batch} among {len(self)}.")
        return self.order[self.offsets[batch] : self.offsets[batch + 1]]

    @property
    def n_steps(self) -> int:
        return -(-len(self) // self.per_step)


def make_batches(
    n_content: Ints,
    n_queries: Ints,
    *,
    tokens_per_batch: int,
    per_step: int = 1,
    seed: int,
    epoch: int,
    kinds: Bools | None = None,
) -> Batches:
    """Put examples of about the same size into batches whose cost stays within `tokens_per_batch`.

    The model pads content tokens and query rows separately, so a batch of n costs n × (max content + max
    queries) rows. A single example larger than the budget is a batch by itself. Batches come in random
    order, so those of a step differ in size; and their number is a multiple of `per_step`, so that no step
    is a small one.

    Args:
        n_content: content tokens of each example, the boundary token included, (N,).
        n_queries: query rows of each example, (N,).
        kinds: examples of different kinds do not share a batch, (N,); all are of one kind by default.

    """
    n = len(n_content)
    kinds = np.zeros(n, np.bool_) if kinds is None else kinds
    ties = random_bits(np.arange(n), "order of equal sizes", seed=seed, epoch=epoch)
    # Like a snake: up and down through the query rows as the content grows, so that neighbours are alike.
    snake = np.where(n_content % 2 == 0, n_queries, -n_queries)
    order = np.lexsort((ties, snake, n_content, kinds))
    spans = []
    n_first_kind = int(n - kinds.sum())
    for first, of_kind in ((0, order[:n_first_kind]), (n_first_kind, order[n_first_kind:])):
        cut = cut_into_batches(n_content[of_kind].tolist(), n_queries[of_kind].tolist(), tokens_per_batch)
        spans += [(first + start, first + end) for start, end in cut]
    _split_until_multiple(spans, per_step)

    position = random_bits(np.arange(len(spans)), "order of batches", seed=seed, epoch=epoch)
    spans = [spans[batch] for batch in np.argsort(position, kind="stable")]
    slices = [order[first:last] for first, last in spans]
    sizes = [len(batch) for batch in slices]
    rows = sum(len(b) * (int(n_content[b].max()) + int(n_queries[b].max())) for b in slices)
    return Batches(
        order=np.concatenate(slices) if slices else order,
        offsets=np.cumsum([0, *sizes]),
        per_step=per_step,
        padding_share=1 - int((n_content + n_queries).sum()) / rows if rows else 0.0,
    )


def cut_into_batches(n_content: list[int], n_queries: list[int], budget: int) -> list[tuple[int, int]]:
    """Cut sorted examples where the next one would exceed the budget."""
    spans = []
    first = most_content = most_queries = 0
    for at, (content, queries) in enumerate(zip(n_content, n_queries, strict=True)):
        most_content, most_queries = max(most_content, content), max(most_queries, queries)
        if at > first and (at + 1 - first) * (most_content + most_queries) > budget:
            spans.append((first, at))
            first, most_content, most_queries = at, content, queries
    if n_content:
        spans.append((first, len(n_content)))
    return spans


def _split_until_multiple(spans: list[tuple[int, int]], divisor: int) -> None:
    """Halve the batches with most examples until their number is a multiple, as far as there are examples."""
    for _ in range(-len(spans) % divisor):
        largest = max(range(len(spans)), key=lambda batch: spans[batch][1] - spans[batch][0])
        first, last = spans[largest]
        if last - first < 2:
            return
        middle = (first + last) // 2
        spans[largest : largest + 1] = [(first, middle), (middle, last)]
