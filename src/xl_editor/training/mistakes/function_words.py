"""Mistakes with articles, determiners, prepositions and pronouns."""

from __future__ import annotations

from random import Random

from xl_editor.training.mistakes import confusions as c
from xl_editor.training.mistakes.inflection import is_noun
from xl_editor.training.mistakes.kinds import Change, mistake, one_of, within, without
from xl_editor.training.mistakes.passage import Passage, Word, forms, forms_of


@mistake("missing_article", within(c.ARTICLES))
def _missing_article(passage: Passage, at: int, random: Random) -> Change | None:
    return without(passage, at) if passage.leads(at) else None


@mistake("superfluous_article", lambda word: word.plain and len(word.lower) > 3)
def _superfluous_article(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.words[at]
    if passage.follows(at) not in c.ARTICLE_AFTER:
        return None
    if not passage.free[at]:  # in the London
        alone = not passage.leads(at) or not passage.words[at + 1].capital
        name = passage.follows(at) in c.PREPOSITIONS and alone and not word.lower.endswith(("s", "'s"))
        return Change(at, at, "the") if name and random.random() < 0.3 else None
    noun = forms_of(word)
    compound = "NOUN" in forms(passage.leads(at)).parts and passage.leads(at) not in c.DETERMINERS
    if not noun.only("NOUN") or not is_noun(word.lower) or passage.follows(at) == "to" or compound:
        return None
    if noun.plural == word.lower and noun.singular != noun.plural:
        return Change(at, at, random.choice(("a", "the"))) if word.lower not in c.NOT_PLURAL else None
    return Change(at, at, random.choice(("the", "the", _a_or_an(word.lower))))


def _a_or_an(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


@mistake("wrong_article", within(c.ARTICLES))
def _wrong_article(passage: Passage, at: int, random: Random) -> Change | None:
    """A or an instead of the, where only the can stand; the instead of a in a few set phrases."""
    word, following = passage.lower(at), passage.leads(at)
    if word == "the":
        noun = forms(following)
        plural = noun.plural == following != noun.singular and "ADJ" not in noun.parts
        one_only = following in ("same", "first", "only", "best", "most", "last", "next", "world", "internet")
        wrong = _a_or_an(following) if (plural and following not in c.NOT_PLURAL) or one_only else ""
        return one_of(passage, at, (wrong,), random)
    wrong = "the" if following in ("lot", "few", "bit", "little", "good", "great", "kind", "variety") else ""
    return one_of(passage, at, (wrong or random.choice(("the", "", "")),), random)


@mistake("a_or_an", within(frozenset(["a", "an"])))
def _wrong_a_or_an(passage: Passage, at: int, random: Random) -> Change | None:
    return one_of(passage, at, ("an" if passage.lower(at) == "a" else "a",), random) if passage.leads(at) else None


@mistake("determiner", within(c.DETERMINERS_CONFUSED))
def _determiner(passage: Passage, at: int, random: Random) -> Change | None:
    word, noun = passage.lower(at), forms(passage.leads(at))
    if "NOUN" not in noun.parts and "ADJ" not in noun.parts:
        return None
    if word == "this" and ("VERB" in noun.parts or noun.singular != passage.leads(at)):
        return None  # "this works"
    return one_of(passage, at, c.DETERMINERS_CONFUSED[word], random)


@mistake("missing_preposition", within(c.PREPOSITIONS))
def _missing_preposition(passage: Passage, at: int, random: Random) -> Change | None:
    if passage.begins[at] or not passage.follows(at) or not passage.leads(at):
        return None
    return without(passage, at)


@mistake("superfluous_preposition", lambda word: word.plain and (_takes_none(word) or word.lower in c.NEEDLESS_BEFORE))
def _superfluous_preposition(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    if word in c.NEEDLESS_BEFORE:
        fits = forms(passage.follows(at)).verb and passage.follows(at) not in c.AUXILIARIES
        return Change(at, at, random.choice(c.NEEDLESS_BEFORE[word])) if fits else None
    following = passage.leads(at)
    takes_object = following in c.DETERMINERS or following in ("him", "her", "them", "me", "us", "it")
    if not takes_object or passage.follows(at) in c.DETERMINERS or not passage.free[at]:
        return None
    return Change(at + 1, at + 1, random.choice(c.NEEDLESS_AFTER[_lemma(word)]))


def _lemma(word: str) -> str:
    return forms(word).verb.get("VB", word)


def _takes_none(word: Word) -> bool:
    return _lemma(word.lower) in c.NEEDLESS_AFTER


@mistake("wrong_preposition", within(c.PREPOSITIONS_CONFUSED))
def _wrong_preposition(passage: Passage, at: int, random: Random) -> Change | None:
    following = forms(passage.leads(at))
    infinitive = passage.lower(at) == "to" and "VB" in following.verb_tags
    if not passage.leads(at) or (infinitive and random.random() < 0.7):
        return None
    return one_of(passage, at, c.PREPOSITIONS_CONFUSED[passage.lower(at)], random)


@mistake("wrong_pronoun", within(c.PRONOUNS_CONFUSED))
def _wrong_pronoun(passage: Passage, at: int, random: Random) -> Change | None:
    return one_of(passage, at, c.PRONOUNS_CONFUSED[passage.lower(at)], random)


@mistake("missing_pronoun", within(c.SUBJECTS | frozenset(["there"])))
def _missing_pronoun(passage: Passage, at: int, random: Random) -> Change | None:
    following = passage.leads(at)
    verb = following in c.AUXILIARIES or bool(forms(following).verb)
    subject = verb and not passage.begins[at] and passage.follows(at) not in ("and", "but", "or", "")
    return without(passage, at) if subject else None
