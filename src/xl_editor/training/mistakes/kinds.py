"""The kinds of mistakes: for each, which words it may befall, and what it makes of one of them.

A maker gets a passage, the index of a word that suits it and a random generator, and gives the change, or None where
the context does not allow it. It looks for a context in which the result is wrong: what is only different from the
right text, but as good, would teach to nag.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from random import Random

from xl_editor.training.mistakes.passage import Passage, Word


@dataclass(frozen=True)
class Change:
    """`wrong` stands instead of the words first..last−1. If these are none, it is put in before the word `first`."""

    first: int
    last: int
    wrong: str  # empty where words are missing


Maker = Callable[[Passage, int, Random], Change | None]


@dataclass(frozen=True)
class Mistake:
    suits: Callable[[Word], bool]  # of the word alone; asked once for each word of the language
    make: Maker


MISTAKES: dict[str, Mistake] = {}


def mistake(kind: str, suits: Callable[[Word], bool]) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        MISTAKES[kind] = Mistake(suits, make)
        return make

    return register


# -- What makers have in common


def instead(passage: Passage, at: int, wrong: str) -> Change:
    """Another word in the place of this one, with its marks and its capital letter."""
    return Change(at, at + 1, passage.words[at].with_core(passage.spelt(at, wrong)))


def one_of(passage: Passage, at: int, wrongs: tuple[str, ...], random: Random) -> Change | None:
    """One of these instead, if it is an ordinary word that they are for and any of them is another."""
    wrongs = tuple(wrong for wrong in wrongs if wrong and wrong != passage.words[at].lower)
    return instead(passage, at, random.choice(wrongs)) if wrongs and passage.free[at] else None


def without(passage: Passage, at: int) -> Change | None:
    """The word is missing. Where it began the sentence, the next one does."""
    if not passage.words[at].bare or at + 1 >= len(passage) or passage.words[at + 1].before:
        return None
    if passage.begins[at] and passage.words[at].capital:
        if passage.words[at + 1].capital or not passage.words[at + 1].plain:
            return None
        return Change(at, at + 2, passage.raised(at + 1))
    return Change(at, at + 1, "")


def within(table: Container[str]) -> Callable[[Word], bool]:
    return lambda word: word.plain and word.lower in table


def letters(word: Word, least: int) -> bool:
    return word.plain and len(word.lower) >= least and word.lower.isalpha()
