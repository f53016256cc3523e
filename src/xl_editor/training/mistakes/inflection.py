"""Mistakes in the forms of words: number, agreement, tense, auxiliaries, adverbs, comparison."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from xl_editor.training.mistakes import confusions as c
from xl_editor.training.mistakes.kinds import Change, instead, letters, mistake, one_of, within, without
from xl_editor.training.mistakes.passage import Passage, Word, forms, forms_of


def determiner_of(passage: Passage, at: int) -> str:
    """The determiner that this noun belongs to, past adjectives, or nothing."""
    for before in range(at - 1, max(at - 4, -1), -1):
        word = passage.words[before]
        if word.after or passage.words[before + 1].before:
            return ""
        if word.lower in c.DETERMINERS or word.lower.endswith("'s"):
            return word.lower
        if "ADJ" not in forms_of(word).parts:
            return ""
    return ""


@mistake("noun_number", lambda word: letters(word, 3) and is_noun(word.lower))
def _noun_number(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    noun = forms(word)
    if not passage.free[at] or noun.singular == noun.plural or passage.words[at].owns:
        return None
    if word in c.UNCOUNTABLE:
        return one_of(passage, at, (noun.plural or word + "s",), random) if word == noun.singular else None
    determiner, following = determiner_of(passage, at), passage.leads(at)
    surely_noun = "VERB" not in noun.parts
    if word == noun.singular:
        counted = determiner in c.SINGULAR_DETERMINERS and (surely_noun or determiner in c.ARTICLES)
        agrees = determiner and following in ("is", "was", "has")
        return instead(passage, at, noun.plural) if noun.plural and (counted or agrees) else None
    counted = determiner in c.PLURAL_DETERMINERS
    bare = not determiner and surely_noun and not passage.begins[at] and passage.follows(at) in c.ARTICLE_AFTER
    of_many = passage.lower(at - 2) == "of" and passage.lower(at - 3) in ("one", "some", "many", "most", "each")
    agrees = determiner and following in ("are", "were", "have")
    return instead(passage, at, noun.singular) if counted or bare or of_many or agrees else None


def is_noun(word: str) -> bool:
    noun = forms(word)
    closed = word in c.DETERMINERS or word in c.PREPOSITIONS or word in c.AUXILIARIES or word in c.PRONOUNS_CONFUSED
    return bool(noun.singular) and word not in c.NOT_PLURAL and not closed


def _is_verb(word: Word) -> bool:
    adverb = "ADV" in forms_of(word).parts or word.lower in c.PREPOSITIONS
    return letters(word, 2) and bool(forms_of(word).verb) and word.lower not in c.AUXILIARIES and not adverb


def _governor(passage: Passage, at: int) -> str:
    """The word that says which form the verb has: the one before, past "not" and adverbs."""
    for before in range(at - 1, max(at - 3, -1), -1):
        word = passage.words[before]
        if word.after or passage.words[before + 1].before:
            return ""
        if word.lower != "not" and not (forms_of(word).only("ADV") and word.lower not in c.PREPOSITIONS):
            return word.lower
    return ""


@mistake("verb_form", _is_verb)
def _verb_form(passage: Passage, at: int, random: Random) -> Change | None:
    verb = forms_of(passage.words[at])
    tags, governor = verb.verb_tags, _governor(passage, at)
    wrong: tuple[str, ...] = ()
    if governor in c.MODALS or governor in c.DO or (governor == "to" and verb.parts == ("VERB",)):
        wrong = ("VBZ", "VBD", "VBG") if "VB" in tags else ("VB",) if "VBG" in tags else ()
    elif governor in c.BE:
        wrong = ("VB", "VBD") if "VBN" in tags else ("VB", "VB", "VBN") if "VBG" in tags else ()
    elif governor in c.HAVE:
        wrong = ("VB", "VBD", "VBG") if "VBN" in tags else ()
    elif governor in c.PREPOSITIONS:
        wrong = ("VB",) if "VBG" in tags else ()  # look forward to hear
    elif verb.only("VERB"):
        wrong = ("VB",) if "VBG" in tags or ("VBN" in tags and governor) else ()
    return one_of(passage, at, tuple(verb.verb[tag] for tag in wrong if tag in verb.verb), random)


@mistake("agreement", lambda word: word.plain and (word.lower in c.AGREEMENT or _is_verb(word)))
def _agreement(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    if word in c.AGREEMENT:
        return one_of(passage, at, c.AGREEMENT[word], random)
    verb, governor = forms(word), _governor(passage, at)
    if "VBZ" in verb.verb_tags and (verb.only("VERB") or governor in c.SINGULAR_SUBJECTS):
        return one_of(passage, at, (verb.verb.get("VB", ""),), random)
    if "VBP" in verb.verb_tags and governor in c.PLURAL_SUBJECTS:
        return one_of(passage, at, (verb.verb.get("VBZ", ""),), random)
    return None


@mistake("tense", lambda word: word.plain and (word.lower in c.PRESENT_OF or _is_past(word)))
def _tense(passage: Passage, at: int, random: Random) -> Change | None:
    sentence = [word for where, word in passage.sentence_of(at) if where != at]
    if not any(word.lower in c.PAST_MARKS for word in sentence):  # nothing else tells that this is in the past
        return None
    word, subject = passage.lower(at), passage.follows(at)
    if word in c.PRESENT_OF:
        return one_of(passage, at, c.PRESENT_OF[word], random)
    if not (subject in c.SUBJECTS or forms(subject).only("NOUN") or (subject and not passage.free[at - 1])):
        return None
    verb = forms(word).verb
    many = subject in c.PLURAL_SUBJECTS or forms(subject).plural == subject
    return one_of(passage, at, (verb.get("VB" if many else "VBZ", ""),), random)


def _is_past(word: Word) -> bool:
    return _is_verb(word) and forms_of(word).only("VERB") and "VBD" in forms_of(word).verb_tags


@mistake("missing_auxiliary", within(c.FINITE_BE | c.MODALS | c.DO | c.HAVE | frozenset(["be", "been"])))
def _missing_auxiliary(passage: Passage, at: int, random: Random) -> Change | None:
    word, following = passage.lower(at), forms(passage.leads(at))
    if passage.begins[at] or "'" in word:
        return None
    if word in c.HAVE:
        noticed = "VBN" in following.verb_tags and "VBD" not in following.verb_tags
    elif word in c.MODALS:
        noticed = passage.follows(at) in c.SINGULAR_SUBJECTS or passage.leads(at) == "be"
    elif word in c.DO:
        noticed = passage.leads(at) == "not" or passage.follows(at) in c.QUESTION_WORDS
    else:
        noticed = True
    return without(passage, at) if noticed and passage.free[at] else None


@mistake("wrong_auxiliary", within(c.AUXILIARIES_CONFUSED))
def _wrong_auxiliary(passage: Passage, at: int, random: Random) -> Change | None:
    following = forms(passage.leads(at))
    helps = following.only("VERB") or passage.leads(at) in c.AUXILIARIES or passage.leads(at) in c.SUBJECTS
    return one_of(passage, at, c.AUXILIARIES_CONFUSED[passage.lower(at)], random) if helps else None


@mistake("superfluous_auxiliary", lambda word: _is_verb(word) and "VBG" not in forms_of(word).verb_tags)
def _superfluous_auxiliary(passage: Passage, at: int, random: Random) -> Change | None:
    subject, tags = passage.follows(at), forms_of(passage.words[at]).verb_tags
    if subject not in c.SUBJECTS or (at > 1 and passage.lower(at - 2) in c.AUXILIARIES):
        return None
    be = "am" if subject == "i" else "is" if subject in ("he", "she", "it") else "are"
    past = "VBD" in tags and "VBP" not in tags
    if past and subject == "it":
        return None
    return Change(at, at, random.choice(("did", "did", "was" if subject != "i" else "am") if past else (be,)))


# -- Adjectives and adverbs


@lru_cache(maxsize=1 << 14)
def _adjective_of(adverb: str) -> str:
    if len(adverb) < 6 or not adverb.endswith("ly") or not forms(adverb).only("ADV"):
        return ""
    stem = adverb[:-2]
    found = (s for s in (stem, stem[:-1] + "y", stem + "le", stem[:-2]) if len(s) > 3 and "ADJ" in forms(s).parts)
    return next(found, "")


@lru_cache(maxsize=1 << 14)
def _adverb_of(adjective: str) -> str:
    if not forms(adjective).only("ADJ"):
        return ""
    ending = adjective[:-1] + "ily" if adjective.endswith("y") else adjective + "ly"
    return next((a for a in (ending, adjective[:-1] + "y", adjective + "ally") if _adjective_of(a) == adjective), "")


@mistake("adjective_adverb", lambda word: word.plain and bool(_adjective_of(word.lower) or _adverb_of(word.lower)))
def _adjective_adverb(passage: Passage, at: int, random: Random) -> Change | None:
    word, following = passage.lower(at), passage.leads(at)
    if _adverb_of(word):
        fits = passage.follows(at) in c.ARTICLES | c.FINITE_BE or "NOUN" in forms(following).parts
        return one_of(passage, at, (_adverb_of(word),), random) if fits else None
    fits = not passage.begins[at] and "NOUN" not in forms(following).parts
    return one_of(passage, at, (_adjective_of(word),), random) if fits else None


@mistake("comparison", lambda word: word.plain and bool(_compared(word.lower)))
def _comparison(passage: Passage, at: int, random: Random) -> Change | None:
    word = passage.lower(at)
    adjective = forms(word).adjective
    base = adjective["JJ"]
    superlative = word == adjective.get("JJS")
    if passage.follows(at) in ("more", "most", "at", "or", "no") or not passage.free[at]:
        return None
    degree = "most" if superlative else "more"
    wrongs = [f"{degree} {word}", f"{degree} {base}"]
    if superlative or passage.leads(at) == "than":
        wrongs += [base, adjective["JJR"] if superlative else adjective["JJS"]]
    return one_of(passage, at, tuple(wrongs), random)


def _compared(word: str) -> bool:
    adjective = forms(word).adjective
    return len(adjective) == 3 and word in (adjective["JJR"], adjective["JJS"]) and word not in ("more", "most", "less")
