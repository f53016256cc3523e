"""Mistakes in what is not a word: commas, apostrophes, the ends of sentences, capital letters."""

from __future__ import annotations

from random import Random

from xl_editor.training.mistakes import confusions as c
from xl_editor.training.mistakes.inflection import is_noun
from xl_editor.training.mistakes.kinds import Change, instead, letters, mistake
from xl_editor.training.mistakes.passage import Passage, Word, forms, forms_of

_OWN = frozenset(["its", "hers", "ours", "yours", "theirs"])
_OPTIONAL_COMMA_BEFORE = frozenset(["and", "or", "too"])


@mistake("missing_comma", lambda word: word.plain and "," in word.after)
def _missing_comma(passage: Passage, at: int, random: Random) -> Change | None:
    if passage.lower(at + 1) in _OPTIONAL_COMMA_BEFORE and random.random() < 0.7:
        return None
    word = passage.words[at]
    return Change(at, at + 1, word.before + word.core + word.after.replace(",", ""))


@mistake("superfluous_comma", lambda word: word.plain and not word.after)
def _superfluous_comma(passage: Passage, at: int, random: Random) -> Change | None:
    word, following = passage.lower(at), passage.leads(at)
    if not following or not passage.free[at] or not passage.free[at + 1]:
        return None
    noun = forms(word)
    before = following in c.COMMA_BEFORE and noun.parts and word not in c.DETERMINERS | c.AUXILIARIES | c.PREPOSITIONS
    after = word in c.COMMA_AFTER and (following in c.ARTICLES or following in c.SUBJECTS)
    subject = noun.only("NOUN") and is_noun(word) and following in c.FINITE_BE | c.MODALS
    return Change(at, at + 1, passage.chunks[at] + ",") if before or after or subject else None


@mistake("comma_splice", lambda word: word.after in (".", ";") and word.ends_sentence)
def _comma_splice(passage: Passage, at: int, random: Random) -> Change | None:
    if at + 1 >= len(passage) or not _can_go_on(passage, at + 1):
        return None
    return Change(at, at + 2, f"{passage.chunks[at][:-1]},{passage.gaps[at]}{passage.lowered(at + 1)}")


@mistake("joined_sentences", lambda word: word.after == "." and word.ends_sentence)
def _joined_sentences(passage: Passage, at: int, random: Random) -> Change | None:
    if at + 1 >= len(passage) or not _can_go_on(passage, at + 1):
        return None
    following = passage.lowered(at + 1) if random.random() < 0.6 else passage.chunks[at + 1]
    return Change(at, at + 2, f"{passage.chunks[at][:-1]}{passage.gaps[at]}{following}")


def _can_go_on(passage: Passage, at: int) -> bool:
    """Whether a sentence that begins with this word can go on from the one before, and is wrong to."""
    has_subject = passage.lower(at) in c.SUBJECTS or passage.lower(at) in c.DETERMINERS or passage.lower(at) == "there"
    return passage.free[at] and not passage.words[at].before and has_subject


@mistake("missing_final_mark", lambda word: word.after[-1:] in tuple(".?!"))
def _missing_final_mark(passage: Passage, at: int, random: Random) -> Change | None:
    last = at == len(passage) - 1
    return Change(at, at + 1, passage.chunks[at][:-1]) if last and passage.words[at].core else None


@mistake("wrong_final_mark", lambda word: word.after in (".", "?") and word.ends_sentence)
def _wrong_final_mark(passage: Passage, at: int, random: Random) -> Change | None:
    if passage.words[at].after == "?":
        wrong = "."
    elif at == len(passage) - 1 and random.random() < 0.5:
        wrong = ","
    elif random.random() < 0.3:  # seldom: who asks, knows it
        wrong = "?"
    else:
        return None
    return Change(at, at + 1, passage.chunks[at][:-1] + wrong)


@mistake("missing_apostrophe", lambda word: word.plain and "'" in word.lower)
def _missing_apostrophe(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.words[at]
    if not passage.free[at]:
        return None
    return Change(at, at + 1, word.with_core(word.core.replace("'", "").replace("’", "")))


@mistake("superfluous_apostrophe", lambda word: word.plain and (word.lower in _OWN or _is_plural(word)))
def _superfluous_apostrophe(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.words[at]
    if (
        not passage.free[at]
        or word.owns
        or (word.lower not in _OWN and not forms_of(word).only("NOUN") and random.random() < 0.8)
    ):
        return None
    return instead(passage, at, word.lower[:-1] + "'s")


def _is_plural(word: Word) -> bool:
    noun = forms_of(word)
    return letters(word, 4) and noun.plural == word.lower == noun.singular + "s"


@mistake("small_letter", lambda word: word.capital and word.plain)
def _small_letter(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.words[at]
    pronoun = word.lower[:2] in ("i", "i'")
    name = not passage.begins[at] and (word.lower in c.CAPITALS or not forms(word.lower.removesuffix("'s")).parts)
    if not (passage.begins[at] or pronoun or (name and (word.lower in c.CAPITALS or random.random() < 0.5))):
        return None
    return Change(at, at + 1, word.before + word.core[0].lower() + word.core[1:] + word.after)


@mistake("capital_letter", lambda word: letters(word, 4) and not word.capital)
def _capital_letter(passage: Passage, at: int, random: Random) -> Change | None:
    word = forms_of(passage.words[at])
    emphasised = is_noun(passage.lower(at)) if word.only("NOUN") else word.only("ADJ") and random.random() < 0.3
    if not passage.has_capitals or passage.begins[at] or not emphasised:
        return None
    return Change(at, at + 1, passage.raised(at))
