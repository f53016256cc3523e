"""The geometry against the paper: φ written out literally, the figure's distances, and the properties of slots."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xl_editor.geometry import (
    END_OF_INSERTION,
    PADDING,
    Places,
    Relation,
    batched_insertion_places,
    correction_places,
    insertion_distance,
    insertion_places,
    plain_distance,
    plain_places,
    relate,
    stack,
    visible,
)


def phi(a: int, b: int, i: int, j: int) -> int | None:
    """φ_{a,b}(i, j), case by case as printed in the paper; None where it is unspecified (never attended)."""
    if (i < a and j < a) or (i > b and j > b):
        return 0
    if i < a and j > b:
        return b - a
    if i > b and j < a:
        return b - a
    if a <= i <= b and j <= i:
        return 0
    if a <= i <= b < j:
        return b - i - 1
    return None


def paper_distance(a: int, b: int, i: int, j: int) -> int | None:
    sign = (i > j) - (i < j)
    shift = phi(a, b, i, j)
    return None if shift is None else i - j - sign * shift


@pytest.mark.parametrize("size", range(1, 13))
def test_distance_and_visibility_are_the_papers_phi_for_every_slot(size):
    for a in range(size):
        for b in range(a, size):  # z[a..b] = y ⊕ END
            content, queries = insertion_places(size - 1, [(a, b)])  # END is predicted, but is nobody's key
            index_in_z = [*range(b), *range(b + 1, size)]  # of the content tokens
            relation = relate(content, queries)
            rows = [*index_in_z, *range(a, b + 1)]
            for row, i in enumerate(rows):
                is_query = row >= len(index_in_z)
                for key, j in enumerate(index_in_z):
                    expected = paper_distance(a, b, i, j)
                    inserted_key = a <= j <= b
                    sees = expected is not None and not (is_query and i == j)
                    sees = sees and not (inserted_key and not a <= i <= b)
                    assert bool(relation.visible[row, key]) == sees, (a, b, i, j)
                    if sees:
                        assert int(relation.distance[row, key]) == expected, (a, b, i, j)


@pytest.mark.parametrize("length", [2, 3])
def test_distances_of_the_papers_figure(length):
    """x_l ↓ x_r: R1 from y1 to x_l, R-2 from y1 to x_r; R2, R1, R-2 from y2 to x_l, y1, x_r; any length."""
    content, queries = insertion_places(length + 2, [(1, 1 + length)])
    distance = insertion_distance(queries, content)
    x_l, y1, x_r = 0, 1, length + 1
    assert distance[0, [x_l, x_r]].tolist() == [1, -2]
    assert distance[1, [x_l, y1, x_r]].tolist() == [2, 1, -2]


def test_plain_figure_gives_the_length_away():
    """The same figure for XLNet: from y1 to x_r it is R-3 with |y| = 3 and R-2 with |y| = 2."""
    for length in (2, 3):
        places = plain_places(length + 2, [(1, 1 + length)])
        assert int(plain_distance(places, places)[1, length + 1]) == -length


slots = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(1, 4), min_size=n + 1, max_size=n + 1),  # context between the slots
        st.lists(st.integers(0, 4), min_size=n, max_size=n),  # lengths of the inserted sequences
    )
)


def intervals_of(gaps: list[int], lengths: list[int]) -> tuple[int, list[tuple[int, int]]]:
    intervals, at = [], 0
    for gap, length in zip(gaps, lengths, strict=False):
        at += gap
        intervals.append((at, at + length))
        at += length
    return at + gaps[-1], intervals


@given(slots)
def test_every_slot_is_one_token_wide_for_everybody_else(case):
    gaps, lengths = case
    size, intervals = intervals_of(gaps, lengths)
    content, queries = insertion_places(size, intervals)
    # The same context with every slot shut to a single placeholder token, in plain geometry.
    context = content[content.slot < 0]
    boundaries, position = [], 0
    for index, gap in enumerate(gaps):
        boundaries += list(range(position, position + gap))
        position += gap + (index < len(lengths))
    assert context.position.tolist() == boundaries
    for index, length in enumerate(lengths):
        of_slot = queries[queries.slot == index]
        assert len(of_slot) == length + 1
        at = sum(gaps[: index + 1]) + index
        distance = insertion_distance(of_slot, context)
        for k in range(length + 1):
            for key, p in enumerate(boundaries):
                assert int(distance[k, key]) == (at + k - p if p < at else at - 1 - p)


@given(slots)
def test_an_inserted_sequence_sees_the_context_and_itself_only(case):
    gaps, lengths = case
    size, intervals = intervals_of(gaps, lengths)
    content, queries = insertion_places(size, intervals)
    for rows, itself in ((content, True), (queries, False)):
        sees = visible(rows, content, itself=itself)
        for r in range(len(rows)):
            for c in range(size):
                same = rows.slot[r] == content.slot[c]
                reach = content.offset[c] < rows.offset[r] + itself
                expected = content.slot[c] == -1 or bool(same and reach and rows.slot[r] >= 0)
                assert bool(sees[r, c]) == expected


def test_padding_is_seen_by_nobody():
    short, long = insertion_places(3, [(1, 2)])[0], insertion_places(6, [(2, 5)])[0]
    content = stack([short, long])
    assert content.slot[0].tolist() == [-1, 0, -1, PADDING, PADDING, PADDING]
    assert not visible(content, content, itself=True)[0, :, 3:].any()


@pytest.mark.parametrize("intervals", [[(4, 6)], [(-1, 2)], [(3, 2)], [(0, 3), (2, 4)], [(3, 4), (0, 1)]])
def test_a_slot_outside_the_text_is_refused(intervals):
    with pytest.raises(ValueError, match="not a slot of a text of 5 tokens"):
        insertion_places(5, intervals)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="one shape"):
        Places(torch.zeros(3), torch.zeros(3), torch.zeros(2))
    with pytest.raises(ValueError, match=r"Relation\.visible has shape"):
        Relation(torch.zeros(1, 2, 3, dtype=torch.long), torch.ones(1, 2, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="must be boolean"):
        Relation(torch.zeros(1, 2, 3, dtype=torch.long), torch.ones(1, 2, 3))


@given(st.lists(slots, min_size=1, max_size=4))
def test_a_batch_is_what_its_texts_are_one_by_one(cases):
    texts = [intervals_of(gaps, lengths) for gaps, lengths in cases]
    most = max(len(intervals) for _, intervals in texts)
    starts, ends = torch.zeros(2, len(texts), most, dtype=torch.long)
    for row, (_, intervals) in enumerate(texts):
        for index, (start, end) in enumerate(intervals):
            starts[row, index], ends[row, index] = start, end
    sizes = torch.tensor([size for size, _ in texts])
    counts = torch.tensor([len(intervals) for _, intervals in texts])
    content, queries, target = batched_insertion_places(sizes, starts, ends, counts)
    plain, plain_queries, plain_target = batched_insertion_places(sizes, starts, ends, counts, plain=True)
    for row, (size, intervals) in enumerate(texts):
        expected, expected_queries = insertion_places(size, intervals)
        n_queries = len(expected_queries)
        wanted = [t for s, e in intervals for t in (*range(s, e), END_OF_INSERTION)]
        assert target[row, :n_queries].tolist() == wanted
        assert set(target[row, n_queries:].tolist()) <= {PADDING}
        pairs = [
            (content[row, :size], expected),
            (queries[row, :n_queries], expected_queries),
            (plain[row, :size], plain_places(size, intervals)),
        ]
        for found, one_by_one in pairs:
            for name in ("position", "slot", "offset"):
                assert getattr(found, name).tolist() == getattr(one_by_one, name).tolist()
        covered = [t for s, e in intervals for t in range(s, e)]
        n_plain = len(covered)
        assert plain_target[row, :n_plain].tolist() == covered
        assert plain_queries.position[row, :n_plain].tolist() == covered


@pytest.mark.parametrize("seed", range(8))
def test_corrections_have_a_slot_behind_every_word(seed):
    """The same distances and visibility as the text with all its insertions in place, slot by slot."""
    random = np.random.default_rng(seed)
    n_tokens = random.integers(1, 4, random.integers(1, 7)).tolist()
    lengths = random.integers(0, 4, len(n_tokens) + 1).tolist()  # of what is inserted into each slot
    intervals, context, inserted = [], [], []
    at = 0
    for slot, length in enumerate(lengths):
        intervals.append((at, at + length))
        inserted += range(at, at + length)
        at += length
        size = n_tokens[slot] if slot < len(n_tokens) else 1  # the right end
        context += range(at, at + size)
        at += size
    whole, whole_queries = insertion_places(at, intervals)
    content, queries = correction_places(n_tokens, list(enumerate(lengths)), 1)
    expected = relate(whole, whole_queries)
    order = torch.tensor([*context, *inserted])
    rows = torch.cat([order, torch.arange(at, at + len(whole_queries))])
    found = relate(content, queries)
    assert torch.equal(found.distance, expected.distance[rows][:, order])
    assert torch.equal(found.visible, expected.visible[rows][:, order])
    # Slots that nobody asks about stay one token wide: asking about some changes nothing for these.
    some = [pair for pair in enumerate(lengths) if pair[0] % 2]
    few, few_queries = correction_places(n_tokens, some, 1)
    n_context = len(context)
    assert torch.equal(few.position[:n_context], content.position[:n_context])
    chosen = torch.isin(queries.slot, torch.tensor([slot for slot, _ in some]))
    assert torch.equal(few_queries.position, queries.position[chosen])
    # Two insertions into one slot stand at the same place, and do not see each other.
    twice, twice_queries = correction_places(n_tokens, [(1, 2), (1, 2)], 1)
    assert torch.equal(twice_queries.position[:3], twice_queries.position[3:])
    seen = relate(twice, twice_queries).visible
    assert not seen[-3:, -4:-2].any()
    assert seen[-3:, :n_context].all()
