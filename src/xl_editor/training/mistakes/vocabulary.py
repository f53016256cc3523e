"""Mistakes with whole words: confused, missing, doubled, superfluous, in the wrong order."""

from __future__ import annotations

from random import Random

from xl_editor.training.mistakes import confusions as c
from xl_editor.training.mistakes.kinds import Change, letters, mistake, one_of, within, without
from xl_editor.training.mistakes.passage import Passage, Word, forms, forms_of


@mistake("confused_word", within(c.CONFUSED))
def _confused_word(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    if (word in c.PREPOSITIONS or word in c.DETERMINERS) and random.random() < 0.9:
        return None  # else "to", "of" and "by" would be most of it
    return one_of(passage, at, c.CONFUSED[word], random)


@mistake("confused_phrase", lambda word: word.plain and word.lower in _FIRST_OF_PHRASE)
def _confused_phrase(passage: Passage, at: int, random: Random) -> Change | None:
    for phrase in _FIRST_OF_PHRASE[passage.lower(at)]:
        last = at + len(phrase) - 1
        there = tuple(passage.lower(k) for k in range(at, last + 1)) == phrase
        if there and all(passage.joined(k) for k in range(at, last)):
            wrong = random.choice(c.PHRASES_CONFUSED[" ".join(phrase)])
            return Change(at, last + 1, passage.words[at].before + passage.spelt(at, wrong) + passage.words[last].after)
    return None


_FIRST_OF_PHRASE: dict[str, list[tuple[str, ...]]] = {}
for _phrase in c.PHRASES_CONFUSED:
    _FIRST_OF_PHRASE.setdefault(_phrase.split()[0], []).append(tuple(_phrase.split()))


@mistake("missing_word", lambda word: word.plain and (word.lower in c.MISSABLE or letters(word, 4)))
def _missing_word(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    if not passage.free[at] or passage.begins[at] or not passage.follows(at) or not passage.leads(at):
        return None
    if word not in c.MISSABLE:  # of other words seldom, and only of nouns and verbs that something depends on
        depended = passage.follows(at) in c.ARTICLES | c.MODALS and not forms(passage.leads(at)).parts
        if not depended or random.random() < 0.5:
            return None
    return without(passage, at)


@mistake("doubled_word", lambda word: word.plain and word.lower not in ("had", "that", "very", "so"))
def _doubled_word(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.words[at]
    if not passage.free[at] or (word.lower not in c.DOUBLED and random.random() < 0.9):
        return None
    core = word.core if word.lower[:2] in ("i", "i'") else word.core.lower()
    return Change(at, at + 1, f"{word.before}{word.core} {core}{word.after}")


@mistake("superfluous_word", lambda word: word.plain)
def _superfluous_word(passage: Passage, at: int, random: Random) -> Change | None:
    before, word = passage.follows(at), passage.lower(at)
    if not before or not passage.free[at] or not passage.free[at - 1] or passage.begins[at]:
        return None
    verb = forms_of(passage.words[at])
    finite = word in c.FINITE_BE | c.MODALS or (verb.only("VERB") and "VBD" in verb.verb_tags)
    if finite and before not in c.AUXILIARIES:
        return Change(at, at, random.choice(c.LEFT_OVER_PREPOSITIONS))
    if word in c.PREPOSITIONS and forms(before).parts and before not in c.PREPOSITIONS | c.AUXILIARIES:
        extra = random.choice(c.LEFT_OVER_VERBS + c.LEFT_OVER_WORDS)
        return Change(at, at, extra) if before not in c.SUBJECTS else None
    if before in c.ARTICLES and random.random() < 0.2:
        return Change(at, at, random.choice(c.LEFT_OVER_PREPOSITIONS + c.LEFT_OVER_VERBS))
    return None


@mistake("word_order", lambda word: word.plain)
def _word_order(passage: Passage, at: int, random: Random) -> Change | None:
    if not passage.joined(at) or passage.lower(at) == passage.lower(at + 1):
        return None
    first, second = passage.words[at], passage.words[at + 1]
    if not (_question(passage, at) or _adverb_and_verb(first, second) or _adjective_and_noun(first, second)):
        fixed = first.lower in c.ARTICLES | c.PREPOSITIONS or second.lower in c.ARTICLES | c.PREPOSITIONS
        if not fixed or random.random() < 0.9:
            return None
    one, other = passage.lowered(at), second.core
    other = other[0].upper() + other[1:] if first.capital and passage.begins[at] else other
    return Change(at, at + 2, f"{other} {one}{second.after}")


def _question(passage: Passage, at: int) -> bool:
    """What is it → what it is."""
    asks = passage.follows(at) in c.QUESTION_WORDS and at > 0 and passage.begins[at - 1]
    return asks and passage.lower(at) in c.AUXILIARIES and passage.lower(at + 1) in c.SUBJECTS


def _adverb_and_verb(first: Word, second: Word) -> bool:
    """Always goes → goes always."""
    return first.lower in c.FREQUENCY_ADVERBS and forms_of(second).only("VERB")


def _adjective_and_noun(first: Word, second: Word) -> bool:
    return forms_of(first).only("ADJ") and forms_of(second).only("NOUN")
