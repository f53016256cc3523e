"""Mistakes in spelling: of a word, and of where words end."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from xl_editor.training.mistakes import confusions as c
from xl_editor.training.mistakes.kinds import Change, instead, letters, mistake
from xl_editor.training.mistakes.passage import Passage, forms, is_known


@lru_cache(maxsize=1)
def misspellings() -> dict[str, tuple[str, ...]]:
    """Codespell's dictionary the other way round: for a right word, how it gets misspelt."""
    from importlib.resources import files

    wrongs: dict[str, list[str]] = {}
    for line in files("codespell_lib").joinpath("data/dictionary.txt").read_text("utf-8").splitlines():
        wrong, _, right = line.partition("->")
        if right.isalpha() and wrong.isalpha() and len(right) >= 4:  # several right words have a comma between them
            wrongs.setdefault(right.lower(), []).append(wrong.lower())
    return {right: tuple(spelt) for right, spelt in wrongs.items()}


@mistake("misspelling", lambda word: word.plain and word.lower in misspellings())
def _misspelling(passage: Passage, at: int, random: Random) -> Change | None:
    wrong = random.choice(misspellings()[passage.lower(at)])
    return None if is_known(wrong) or not passage.free[at] else instead(passage, at, wrong)


def _slip(word: str, random: Random) -> str:
    at = random.randrange(1, len(word)) if random.random() < 0.9 else 0
    letter, how = word[at], random.random()
    if how < 0.25:
        return word[:at] + random.choice(c.NEIGHBOURS.get(letter, letter)) + word[at + 1 :]
    if how < 0.5:
        return word[:at] + word[at + 1 :]
    if how < 0.65:
        return word[:at] + letter + word[at:]
    if how < 0.9:
        at = max(at, 1)
        return word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
    return word[:at] + random.choice(c.NEIGHBOURS.get(letter, letter)) + word[at:]


@mistake("typing_slip", lambda word: letters(word, 3) and is_known(word.lower))
def _typing_slip(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    if not passage.free[at] or (len(word) < 4 and random.random() < 0.7):
        return None
    wrong = _slip(word, random)
    return None if wrong == word or is_known(wrong) else instead(passage, at, wrong)


@mistake("spelt_by_sound", lambda word: letters(word, 5) and is_known(word.lower))
def _spelt_by_sound(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    sounds = _sounds(word)
    if not sounds or not passage.free[at]:
        return None
    sound, where = random.choice(sounds)
    wrong = word[:where] + random.choice(c.SOUNDS[sound]) + word[where + len(sound) :]
    return None if is_known(wrong) else instead(passage, at, wrong)


@lru_cache(maxsize=1 << 16)
def _sounds(word: str) -> tuple[tuple[str, int], ...]:
    """Where each sound stands in the word; the first letter is hardly ever mistaken.

    Single letters only where there is nothing longer.
    """
    found = [(sound, word.find(sound, 1)) for sound in c.SOUNDS if sound in word[1:]]
    long = [pair for pair in found if len(pair[0]) > 1]
    return tuple(long or found)


@mistake("joined_words", lambda word: word.plain and len(word.lower) <= 8 and not word.before)
def _joined_words(passage: Passage, at: int, random: Random) -> Change | None:
    if not passage.joined(at):
        return None
    first, second = passage.words[at], passage.words[at + 1]
    usual = f"{first.lower}_{second.lower}" in c.JOINED
    short = min(len(first.core), len(second.core)) <= 3 and random.random() < 0.06
    if second.capital or not (usual or (short and not is_known(first.lower + second.lower))):
        return None
    return Change(at, at + 2, first.core + second.core + second.after)


@mistake("split_word", lambda word: word.plain and (word.lower in c.SPLIT or _compound(word.lower) != ""))
def _split_word(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    return instead(passage, at, c.SPLIT.get(word) or _compound(word)) if passage.free[at] else None


def _compound(word: str) -> str:
    """A long word as the two words that it is made of, or nothing."""
    if len(word) < 9 or not word.isalpha():
        return ""
    halves = ((word[:at], word[at:]) for at in range(4, len(word) - 3))
    return next((f"{a} {b}" for a, b in halves if forms(a).singular == a and forms(b).only("NOUN")), "")


@mistake("hyphen", lambda word: word.plain and "-" in word.core and is_known(word.lower))
def _hyphen(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.words[at]
    if not passage.free[at] or any(len(part) < 2 for part in word.core.split("-")):
        return None
    return Change(at, at + 1, word.with_core(word.core.replace("-", " " if random.random() < 0.8 else "")))
