"""The insertion-based relative positions: how far apart two tokens are, and who may attend to whom.

The paper's idea in one paragraph. To estimate q(y | left ↓ right), XLNet must not know how long y will be, but
its distance from a token of y to the right context gives that away. So:

* for the context, a whole inserted sequence counts as ONE token, however long it is, and is never attended to;
* for y_k, what is still to come (y_{k+1}, …, END) counts as one token, however long it is.

For z = left ⊕ y ⊕ END ⊕ right with n = |left|, that makes these distances (query minus key):

    from \\ to       left j         y_m (m ≤ k)    right r
    left, right     as if y ⊕ END were the one token at position n; y is never seen
    y_k, END        n + k − j      k − m          −(2 + r)

Tokens are described by `Places` (where they stand), two of which `relate` to a `Relation` (what the model's
attention needs to know of each pair). Everything broadcasts over leading batch dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

CONTEXT = -1  # the `slot` of a token that belongs to no inserted sequence
PADDING = -2  # the `slot` of what is no token at all
END_OF_INSERTION = -1  # what a row predicts that predicts no token of the text


@dataclass(frozen=True)
class Places:
    """Where tokens stand. Three integer tensors of one shape, (N,) or (B, N)."""

    position: Tensor  # index in the text, a slot counting as one token; an inserted token has its slot's
    slot: Tensor  # which inserted sequence it belongs to, or CONTEXT or PADDING
    offset: Tensor  # index within the inserted sequence; 0 for a context token

    def __post_init__(self) -> None:
        if not self.position.shape == self.slot.shape == self.offset.shape:
            raise ValueError(
                f"Places wants three tensors of one shape, got position {tuple(self.position.shape)}, "
                f"slot {tuple(self.slot.shape)} and offset {tuple(self.offset.shape)}."
            )

    def __len__(self) -> int:
        return self.position.shape[-1]

    def __getitem__(self, index: object) -> Places:
        return Places(self.position[index], self.slot[index], self.offset[index])  # type: ignore[index]


@dataclass(frozen=True)
class Relation:
    """What each row (a token that attends) knows of each key (a token attended to). *Shape:* (B, R, K)."""

    distance: Tensor  # integer: row minus key
    visible: Tensor  # bool: may the row attend to the key?
    other_segment: Tensor | None = None  # bool: XLNet's segment encoding; None where segments are not used

    def __post_init__(self) -> None:
        for name in ("visible", "other_segment"):
            tensor = getattr(self, name)
            if tensor is None:
                continue
            if tensor.shape != self.distance.shape:
                raise ValueError(
                    f"Relation.{name} has shape {tuple(tensor.shape)}, but distance has {tuple(self.distance.shape)}."
                )
            if tensor.dtype != torch.bool:
                raise ValueError(f"Relation.{name} must be boolean, got {tensor.dtype}.")


def insertion_places(n_tokens: int, intervals: Sequence[tuple[int, int]]) -> tuple[Places, Places]:
    """Take `intervals` of a text out of its context, to be predicted as insertions.

    Args:
        n_tokens: tokens of left ⊕ y ⊕ right, with any number of ys.
        intervals: where the ys stand, half-open, in order; (n, n) is an empty y before token n.

    Returns:
        The places of the text's tokens, in text order, and those of the predicted rows: y ⊕ END, slot by slot.

    """
    _check_intervals(n_tokens, intervals)
    position = torch.arange(n_tokens)
    slot = torch.full((n_tokens,), CONTEXT)
    offset = torch.zeros(n_tokens, dtype=torch.long)
    queries = []
    for index, (start, end) in enumerate(intervals):
        length = end - start
        slot[start:end] = index
        offset[start:end] = torch.arange(length)
        at = start + sum(1 - (e - s) for s, e in intervals[:index])  # every earlier y shrinks to one token
        position[start:end] = at
        position[end:] += 1 - length
        queries.append(inserted_places(at, range(length + 1), slot=index))
    return Places(position, slot, offset), concatenate(queries) if queries else plain_places(0)


def correction_places(n_tokens: Sequence[int], asked: Sequence[tuple[int, int]], n_end: int) -> tuple[Places, Places]:
    """A text of words with a slot at its start and one behind each word, each slot one token wide.

    Args:
        n_tokens: of each word.
        asked: what is inserted, each into one of the slots, 0 being the one at the start, with how many tokens. What is
            inserted into the same slot does not see each other either.
        n_end: tokens of the right end.

    Returns:
        The places of the content (the text, its right end, then what is inserted, slot by slot) and those of the
        predicted rows: y ⊕ END, slot by slot.

    """
    sizes = torch.tensor([0, *n_tokens])
    n_words, n_context = len(n_tokens), int(sizes.sum()) + n_end
    # Before a token of word k stand k slots; the right end stands behind all n + 1 of them.
    n_slots_before = torch.cat([torch.arange(n_words + 1).repeat_interleave(sizes), torch.full((n_end,), n_words + 1)])
    context = plain_places(n_context)
    context = replace(context, position=context.position + n_slots_before)
    slots = sizes.cumsum(0) + torch.arange(n_words + 1)  # where each slot stands
    inserted = [
        inserted_places(int(slots[slot]), range(length + 1), slot=number) for number, (slot, length) in enumerate(asked)
    ]
    content = concatenate([context, *(places[:-1] for places in inserted)])
    return content, concatenate(inserted) if inserted else plain_places(0)


def batched_insertion_places(
    sizes: Tensor, starts: Tensor, ends: Tensor, counts: Tensor, *, plain: bool = False
) -> tuple[Places, Places, Tensor]:
    """`insertion_places` of a whole batch at once; with `plain`, `plain_places` and rows for the intervals only.

    Args:
        sizes: tokens of each text, its right end included, (B,).
        starts, ends: the intervals of each text, (B, S), of which the first `counts`, (B,), are there.

    Returns:
        The places of the tokens and of the predicted rows, padded on the right, and for each predicted row the
        index of the token that it predicts, or END_OF_INSERTION, or PADDING, (B, Q).

    """
    n_slots = starts.shape[1]
    used = torch.arange(n_slots) < counts[:, None]
    lengths = torch.where(used, ends - starts, 0)
    n_queries = torch.where(used, lengths + (0 if plain else 1), 0)  # y, and END
    column = torch.arange(int(sizes.max()))[None]
    query_column = torch.arange(int(n_queries.sum(1).max()))[None]

    shape, query_shape = (len(sizes), column.shape[1]), (len(sizes), query_column.shape[1])
    position, offset = column.expand(shape), torch.zeros(shape, dtype=torch.long)
    slot = torch.where(column < sizes[:, None], CONTEXT, PADDING)
    query_position, query_offset = torch.zeros(2, *query_shape, dtype=torch.long)
    query_slot, target = torch.full((2, *query_shape), PADDING)
    shift, first_query = torch.zeros(2, len(sizes), 1, dtype=torch.long)  # by all earlier slots, each one token wide
    for index in range(n_slots):
        start, end = starts[:, index, None], ends[:, index, None]
        is_used = used[:, index, None]
        inside = is_used & (column >= start) & (column < end)
        slot = torch.where(inside, index, slot)
        offset = torch.where(inside, column - start, offset)
        k = query_column - first_query
        mine = (k >= 0) & (k < n_queries[:, index, None])
        query_slot = torch.where(mine, index, query_slot)
        query_offset = torch.where(mine, k, query_offset)
        target = torch.where(mine, torch.where(k < end - start, start + k, END_OF_INSERTION), target)
        first_query = first_query + n_queries[:, index, None]
        if plain:
            query_position = torch.where(mine, start + k, query_position)
            continue
        position = torch.where(inside, start + shift, position)
        query_position = torch.where(mine, start + shift, query_position)
        shift = shift + torch.where(is_used, 1 - (end - start), 0)
        position = torch.where(is_used & (column >= end), column + shift, position)
    return Places(position, slot, offset), Places(query_position, query_slot, query_offset), target


def inserted_places(position: int, offsets: range, *, slot: int = 0) -> Places:
    """Places within one inserted sequence, whose slot stands at `position`."""
    offset = torch.tensor(offsets, dtype=torch.long)
    return Places(torch.full_like(offset, position), torch.full_like(offset, slot), offset)


def plain_places(n_tokens: int, intervals: Sequence[tuple[int, int]] = ()) -> Places:
    """XLNet's own geometry: every token at its index. Intervals are predicted left to right, without END."""
    _check_intervals(n_tokens, intervals)
    slot = torch.full((n_tokens,), CONTEXT)
    offset = torch.zeros(n_tokens, dtype=torch.long)
    for index, (start, end) in enumerate(intervals):
        slot[start:end] = index
        offset[start:end] = torch.arange(end - start)
    return Places(torch.arange(n_tokens), slot, offset)


def insertion_distance(rows: Places, keys: Places) -> Tensor:
    """The paper's i − j − sign(i − j) φ(i, j), for every pair that may attend. *Shape:* (…, R, K)."""
    i, j = _pairs(rows.position, keys.position)
    k, m = _pairs(rows.offset, keys.offset)
    # To the left (and within y) every token of y counts; to the right all that is still to come counts as one.
    return i - j + torch.where(j <= i, k - m, -(rows.slot >= 0).long().unsqueeze(-1))


def plain_distance(rows: Places, keys: Places) -> Tensor:
    """XLNet's i − j. *Shape:* (…, R, K)."""
    i, j = _pairs(rows.position, keys.position)
    return i - j


def visible(rows: Places, keys: Places, *, itself: bool) -> Tensor:
    """Who may attend to whom: everybody to the context, y_k to y_m with m < k, or m ≤ k if `itself`.

    A content row sees itself, a query row does not: it is to predict that token. *Shape:* (…, R, K).
    """
    row_slot, key_slot = _pairs(rows.slot, keys.slot)
    k, m = _pairs(rows.offset, keys.offset)
    earlier = m <= k if itself else m < k
    return (key_slot == CONTEXT) | ((key_slot == row_slot) & (row_slot >= 0) & earlier)


def relate(content: Places, queries: Places, keys: Places | None = None, *, plain: bool = False) -> Relation:
    """The relation of content rows, then query rows, to the keys (the content itself, unless given)."""
    keys = content if keys is None else keys
    measure = plain_distance if plain else insertion_distance
    sees = torch.cat([visible(content, keys, itself=True), visible(queries, keys, itself=False)], dim=-2)
    distance = torch.cat([measure(content, keys), measure(queries, keys)], dim=-2)
    # Distances that nobody uses are zeroed, so that the range of distances stays that of the text.
    return Relation(distance.masked_fill(~sees, 0), sees)


def concatenate(parts: Sequence[Places]) -> Places:
    """One after the other, along the last dimension."""
    return Places(*(torch.cat([getattr(p, f) for p in parts], dim=-1) for f in ("position", "slot", "offset")))


def stack(batch: Sequence[Places]) -> Places:
    """A batch of places, padded on the right to the longest. *Shape:* (B, N)."""
    size = max(len(places) for places in batch)

    def padded(places: Places) -> Places:
        missing = size - len(places)
        pad = plain_places(missing)
        return concatenate([places, replace(pad, slot=torch.full((missing,), PADDING))])

    rows = [padded(places) for places in batch]
    return Places(*(torch.stack([getattr(p, f) for p in rows]) for f in ("position", "slot", "offset")))


def _pairs(rows: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    return rows.unsqueeze(-1), keys.unsqueeze(-2)


def _check_intervals(n_tokens: int, intervals: Sequence[tuple[int, int]]) -> None:
    previous = 0
    for start, end in intervals:
        if not previous <= start <= end <= n_tokens:
            raise ValueError(
                f"The interval ({start}, {end}) is not a slot of a text of {n_tokens} tokens: intervals must be "
                f"in order, not overlap, and lie within 0..{n_tokens}."
            )
        previous = end
