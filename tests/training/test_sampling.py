"""Sampling: uniform where it says so, stateless always, and batches without waste."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xl_editor.training.sampling import (
    carries_classifier,
    make_batches,
    mix,
    sample_intervals,
    sample_sentences,
    sample_slots,
    style_dropped,
    uniform,
)

N = 60_000


def chi_square(observed: np.ndarray) -> float:
    """Of a uniform distribution, in standard deviations: |z| > 5 happens once in two million fair trials."""
    expected = observed.sum() / len(observed)
    freedom = len(observed) - 1
    return (((observed - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


def many(length: int, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    return np.full(n, length), np.arange(n)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 15])
def test_one_slot_is_uniform_over_all_non_empty_intervals(length):
    slots = sample_intervals(*many(length), seed=3, epoch=1)
    pairs, counts = np.unique(np.stack([slots.starts[:, 0], slots.ends[:, 0]], axis=1), axis=0, return_counts=True)
    assert {tuple(pair) for pair in pairs.tolist()} == {(i, j) for i in range(length) for j in range(i + 1, length + 1)}
    assert length == 1 or abs(chi_square(counts)) < 5


def test_empty_intervals_come_at_their_rate_and_are_uniform_over_gaps():
    slots = sample_intervals(*many(6), seed=0, epoch=0, empty_rate=0.3)
    empty = slots.starts[:, 0] == slots.ends[:, 0]
    assert abs(empty.mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / N)
    assert abs(chi_square(np.bincount(slots.starts[empty, 0], minlength=7))) < 5


def test_the_number_of_slots_is_uniform_and_so_are_their_parts():
    slots = sample_intervals(*many(9), seed=0, epoch=0, max_slots=3)
    assert abs(chi_square(np.bincount(slots.counts)[1:])) < 5
    # Two parts of T = 9 units with one between: 7 ways to place that unit, which the slots must leave alone.
    two = slots.counts == 2
    assert slots.ends[two, 0].max() == 7
    assert slots.starts[two, 1].min() == 2


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    max_slots=st.integers(1, 6),
    empty_rate=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=60, deadline=None)
def test_slots_lie_in_order_with_context_between_them(lengths, max_slots, empty_rate, seed):
    slots = sample_intervals(
        np.array(lengths),
        np.arange(len(lengths)),
        seed=seed,
        epoch=0,
        empty_rate=empty_rate,
        max_slots=max_slots,
    )
    for example, length in enumerate(lengths):
        intervals = slots.intervals(example)
        assert 1 <= len(intervals) <= min(max_slots, (length + 1) // 2)
        assert all(0 <= start <= end <= length for start, end in intervals)
        assert all(end < start for (_, end), (start, _) in pairwise(intervals))
        assert empty_rate > 0 or all(start < end for start, end in intervals)
        assert empty_rate < 1 or all(start == end for start, end in intervals)
        assert slots.n_targets[example] == sum(end - start + 1 for start, end in intervals)


def corpus_of(lengths: np.ndarray, vocabulary: int = 50) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum(lengths)
    tokens = np.random.default_rng(0).integers(0, vocabulary, ends[-1]).astype(np.uint16)
    return tokens, ends - lengths, ends


@pytest.mark.parametrize("unit", ["token", "word"])
def test_a_part_of_the_examples_alone_gets_the_same_slots(unit, monkeypatch):
    tokens, starts, ends = corpus_of(np.random.default_rng(1).integers(1, 30, 2000))
    settings = {
        "seed": 7,
        "epoch": 2,
        "empty_rate": 0.1,
        "max_slots": 3,
        "unit": unit,
        "starts_word": np.arange(50) % 3 == 0,
    }
    everything = sample_slots(tokens, starts, ends, **settings)
    some = np.random.default_rng(2).permutation(2000)[:300]
    monkeypatch.setattr("xl_editor.training.sampling.UNITS_AT_ONCE", 100)  # and in other pieces
    alone = sample_slots(tokens, starts[some], ends[some], **settings)
    np.testing.assert_array_equal(alone.starts, everything.starts[some])
    np.testing.assert_array_equal(alone.ends, everything.ends[some])
    np.testing.assert_array_equal(alone.counts, everything.counts[some])
    other = sample_slots(tokens, starts, ends, **{**settings, "epoch": 3})
    assert (other.starts != everything.starts).mean() > 0.3


def test_words_stay_whole_and_word_intervals_are_uniform():
    starts_word = np.array([True, False])
    sentence = [1, 1, 0, 1, 0, 0, 1]  # words begin at 0 (always), 2, 4 and 5
    tokens = np.tile(np.array(sentence, np.uint16), N)
    starts = np.arange(N) * 7
    slots = sample_slots(
        tokens, starts, starts + 7, seed=0, epoch=0, unit="word", starts_word=starts_word, empty_rate=0.2
    )
    assert set(slots.starts[:, 0].tolist()) == set(slots.ends[:, 0].tolist()) == {0, 2, 4, 5, 7}
    filled = slots.starts[:, 0] < slots.ends[:, 0]
    _, counts = np.unique(slots.starts[filled, 0] * 8 + slots.ends[filled, 0], return_counts=True)
    assert len(counts) == 10
    assert abs(chi_square(counts)) < 5


def test_word_slots_of_nothing_are_nothing():
    nothing = np.zeros(0, np.int64)
    slots = sample_slots(
        nothing, nothing, nothing, seed=0, epoch=0, unit="word", starts_word=np.ones(1, bool), max_slots=2
    )
    assert slots.starts.shape == (0, 2)


def test_choices_are_independent_of_one_another():
    examples = np.arange(N)
    draws = [
        uniform(examples, choice, seed=seed, epoch=epoch)
        for choice, seed, epoch in [("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("a", 0, 1), ("a", 0, -1)]
    ]
    correlation = np.corrcoef([*draws, np.roll(draws[0], 1)])
    assert np.abs(correlation - np.eye(6)).max() < 5 / np.sqrt(N)
    assert all(draw.min() >= 0 and draw.max() < 1 for draw in draws)


def test_the_hash_never_changes():
    """Or a run could not be resumed with a newer version."""
    assert uniform(np.array([0, 1, 123456789]), "a", seed=0, epoch=0).tolist() == [
        0.6443979996381924,
        0.03186357021557851,
        0.3636410224022404,
    ]


def test_style_dropout_comes_at_its_rate():
    assert abs(style_dropped(np.arange(N), 0.1, seed=0, epoch=0).mean() - 0.1) < 0.01
    assert not style_dropped(np.arange(N), 0.0, seed=0, epoch=0).any()


@pytest.mark.parametrize("share", [0.1, 0.25, 1 / 3, 0.9, 1.0])
def test_the_classifier_is_trained_in_its_share_of_the_steps(share):
    carries = [carries_classifier(step, share) for step in range(3000)]
    assert abs(sum(carries) - 3000 * share) <= 1
    gaps = np.diff(np.flatnonzero(carries))
    assert gaps.max() - gaps.min() <= 1


# Words a line of Yelp's training split, 1..15.
YELP_LENGTHS = [
    1478,
    8959,
    22148,
    25736,
    36386,
    39827,
    37977,
    36859,
    36455,
    36436,
    35552,
    34525,
    32502,
    30117,
    28302,
]


@pytest.mark.parametrize(("max_slots", "n"), [(1, 100_000), (3, 50_000)])
def test_yelp_batches_have_hardly_any_padding(max_slots, n):
    weights = np.array(YELP_LENGTHS) / sum(YELP_LENGTHS)
    lengths = np.random.default_rng(0).choice(np.arange(1, 16), n, p=weights)
    slots = sample_intervals(lengths, np.arange(n), seed=0, epoch=0, empty_rate=0.1, max_slots=max_slots)
    batches = make_batches(lengths + 1, slots.n_targets, tokens_per_batch=2000, per_step=2, seed=0, epoch=0)
    costs = [
        len(b) * ((lengths[b] + 1).max() + slots.n_targets[b].max()) for b in (batches[i] for i in range(len(batches)))
    ]
    assert batches.padding_share == pytest.approx(1 - (lengths + 1 + slots.n_targets).sum() / sum(costs), abs=1e-12)
    assert batches.padding_share < 0.02
    assert max(costs) <= 2000
    assert np.mean(costs) > 0.9 * 2000


@given(
    sizes=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=60),
    budget=st.integers(2, 300),
    per_step=st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_batches_hold_every_example_once_within_the_budget(sizes, budget, per_step):
    content, queries = (np.array([size[i] for size in sizes], np.int64) for i in range(2))
    batches = make_batches(content, queries, tokens_per_batch=budget, per_step=per_step, seed=0, epoch=0)
    members = [batches[i] for i in range(len(batches))]
    assert sorted(np.concatenate([*members, np.zeros(0, np.int64)]).tolist()) == list(range(len(sizes)))
    for batch in members:
        assert len(batch) == 1 or len(batch) * (content[batch].max() + queries[batch].max()) <= budget
    assert len(batches) % per_step == 0 or all(len(batch) == 1 for batch in members)
    assert (batches.n_steps - 1) * per_step < len(batches) <= batches.n_steps * per_step


def test_batches_depend_on_seed_and_epoch_and_on_nothing_else():
    lengths = np.random.default_rng(0).integers(1, 16, 3000)

    def order(seed, epoch):
        return make_batches(lengths, lengths, tokens_per_batch=500, seed=seed, epoch=epoch).order.tolist()

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1) != order(1, 0)
    with pytest.raises(IndexError, match="no batch 7"):
        make_batches(lengths[:2], lengths[:2], tokens_per_batch=500, seed=0, epoch=0)[7]


def test_padding_stays_small_where_sizes_vary():
    """Going up and down through the query rows is what does it: one way only gives 1.9 %."""
    lengths = np.clip(np.random.default_rng(0).gamma(9, 15 / 9, 80_000).astype(int), 1, 60)
    slots = sample_intervals(lengths, np.arange(80_000), seed=0, epoch=0, empty_rate=0.1)
    batches = make_batches(lengths + 1, slots.n_targets, tokens_per_batch=2000, seed=0, epoch=0)
    assert batches.padding_share < 0.015


def test_slots_of_sentences_are_uniform_over_runs_of_them_and_over_the_gaps_between():
    sentence_offsets = np.arange(0, 10 * N + 1, 5)  # of five tokens each
    starts = np.arange(N) * 10
    slots = sample_sentences(starts, starts + 10, sentence_offsets, seed=0, epoch=0)  # windows of two
    empty = slots.starts[:, 0] == slots.ends[:, 0]
    assert abs(empty.mean() - 0.5) < 5 * np.sqrt(0.25 / N)
    for kind, places in ((~empty, [(0, 5), (0, 10), (5, 10)]), (empty, [(0, 0), (5, 5), (10, 10)])):
        pairs = np.stack([slots.starts[kind, 0], slots.ends[kind, 0]], axis=1)
        found, counts = np.unique(pairs, axis=0, return_counts=True)
        assert [tuple(pair) for pair in found.tolist()] == places
        assert abs(chi_square(counts)) < 5


def test_a_window_that_was_cut_ends_where_it_was_cut():
    starts = np.arange(7, 4000, 20)
    sentence_offsets = np.sort([*range(0, 4001, 20), *range(7, 4000, 20), *range(10, 4000, 20)])
    slots = sample_sentences(starts, starts + 5, sentence_offsets, seed=0, epoch=0)
    assert set(np.unique(slots.starts)) | set(np.unique(slots.ends)) == {0, 3, 5}


def test_sentences_are_taken_at_their_rate_and_other_slots_stay_as_they_were():
    examples = np.arange(0, 10 * N, 10)
    kept = sample_intervals(np.full(N, 10), examples, seed=0, epoch=0, max_slots=3)
    others = sample_sentences(examples, examples + 10, np.arange(0, 10 * N + 1, 10), seed=0, epoch=0)
    mixed = mix(kept, others, examples, 0.3, "others", seed=0, epoch=0)
    instead = (mixed.counts != kept.counts) | (mixed.starts != kept.starts).any(1) | (mixed.ends != kept.ends).any(1)
    assert 0.25 < instead.mean() < 0.3 + 5 * np.sqrt(0.21 / N)  # some are the same by chance
    for i in np.flatnonzero(instead)[:100]:
        assert mixed.intervals(i) == others.intervals(i)
    assert mixed.n_targets.tolist() == [sum(b - a + 1 for a, b in mixed.intervals(i)) for i in range(N)]
