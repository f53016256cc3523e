"""Which words of a corrected text stand in the place of which words of the old one.

    old       I  go    school  every  day  .
    new       I  went  to  school  every  day  .
    aligned   I  go → went to   school …

The rule. Both texts are read from the left. Where they differ, a block goes on until three words in a row agree again
(or both texts end). Within a block the cheapest alignment is taken: a word costs 1 to leave out and 1 to put in, and
from 0.1 (only its case differs) to 1.8 (not a letter in common) to become another one; joining two words, or cutting
one in two, costs 0.5. Of equally cheap ones the one that leaves out, or puts in, the later words. What is put in
belongs to the old word before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

AGREEING = 3  # words in a row that end a block
LEFT_OUT = PUT_IN = 1.0
JOINED_OR_CUT = 0.5
OTHER_CASE = 0.1


def align(old: Sequence[str], new: Sequence[str]) -> list[list[int]]:
    """For each slot of the old text the words of the new one, by index, that belong there.

    Slot 0 stands before the first old word; slot k takes what replaces old word k, counted from 1, and what is put in
    after it. All new words are in exactly one slot, in order.
    """
    slots: list[list[int]] = [[] for _ in range(len(old) + 1)]
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
            slots[i].append(j - 1)
            continue
        end_i, end_j = _end_of_block(old, new, i, j)
        for slot, word in _cheapest(old[i:end_i], new[j:end_j]):
            slots[i + slot].append(j + word)
        i, j = end_i, end_j
    return slots


def _end_of_block(old: Sequence[str], new: Sequence[str], i: int, j: int) -> tuple[int, int]:
    """Where, at the least distance, so many words agree again; a rest that agrees to its end will do."""
    most_old, most_new = len(old) - i, len(new) - j
    for distance in range(1, most_old + most_new):
        for skipped in range(max(0, distance - most_new), min(distance, most_old) + 1):
            a, b = i + skipped, j + distance - skipped
            following = old[a : a + AGREEING]
            if following and following == new[b : b + AGREEING]:
                at_the_end = a + len(following) == len(old) and b + len(following) == len(new)
                if len(following) == AGREEING or at_the_end:
                    return a, b
    return len(old), len(new)


def _cheapest(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """(slot, new word) for every new word of a block; slot 0 is that of the word before the block."""
    n_old, n_new = len(old), len(new)
    cost = [[0.0] * (n_new + 1) for _ in range(n_old + 1)]
    # The step that leads to each cell: how many old and new words it takes. Of equals the first one tried wins.
    step = [[(0, 0)] * (n_new + 1) for _ in range(n_old + 1)]
    for i in range(n_old + 1):
        for j in range(n_new + 1):
            ways: list[tuple[float, tuple[int, int]]] = []
            if i:
                ways.append((cost[i - 1][j] + LEFT_OUT, (1, 0)))
            if j:
                ways.append((cost[i][j - 1] + PUT_IN, (0, 1)))
            if i and j:
                ways.append((cost[i - 1][j - 1] + _becoming(old[i - 1], new[j - 1]), (1, 1)))
            if i and j > 1 and _same_letters(old[i - 1], new[j - 2] + new[j - 1]):
                ways.append((cost[i - 1][j - 2] + JOINED_OR_CUT, (1, 2)))
            if i > 1 and j and _same_letters(old[i - 2] + old[i - 1], new[j - 1]):
                ways.append((cost[i - 2][j - 1] + JOINED_OR_CUT, (2, 1)))
            if ways:
                cost[i][j], step[i][j] = min(ways, key=lambda way: round(way[0], 6))
    found = []
    i, j = n_old, n_new
    while i or j:
        n_taken, n_given = step[i][j]
        # Joined words stand in the place of the first of them.
        slot = i if n_taken < 2 else i - 1
        found += [(slot, word) for word in range(j - n_given, j)]
        i, j = i - n_taken, j - n_given
    return sorted(found, key=lambda pair: pair[1])


@lru_cache(maxsize=1 << 16)
def _becoming(old: str, new: str) -> float:
    """What it costs that one word becomes another."""
    if old == new:
        return 0.0
    if old.lower() == new.lower():
        return OTHER_CASE
    return 1 + 0.8 * (1 - SequenceMatcher(None, old.lower(), new.lower(), autojunk=False).ratio())


def _same_letters(old: str, new: str) -> bool:
    return old.replace(" ", "").lower() == new.replace(" ", "").lower()
