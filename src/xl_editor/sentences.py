"""Where sentences end: a few rules and lists, all on board, that keep character offsets.

A run of stops ends a sentence unless something says otherwise: the stop belongs to an abbreviation ("Dr.
Who"), an initial ("J. Smith") or a list number ("1. Soup"); no white space follows ("3.5", "yelp.com"); or
the sentence goes on after an ellipsis or a quotation ('"Really?" he asked'). The stops of other scripts
(。！？ । ॥ ؟ ۔ ։) always end one, and so do blank lines and the line before an item of a list. Tokenised text
("good . the") works as it is.
"""

import re


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Never the end of a sentence: something always follows.
_TITLES = _set("""
    mr mrs ms mx messrs dr prof gen sen rep reps gov pres lt col sgt capt cmdr adm maj cpl rev hon fr st ste
    mt ft v vs e.g i.e cf viz ca
""")
# An abbreviation before a number, and an ordinary word or name elsewhere: "No. 5", "Jan. 3".
_BEFORE_NUMBER = _set("""
    no nos fig figs eq p pp vol art sec ch pt op ed jan feb mar apr jun jul aug sep sept oct nov dec
""")
# May end a sentence; does so when a word follows that usually begins one.
_ABBREVIATIONS = _set("""
    inc corp co cos ltd llc plc bros jr sr esq etc al approx appt apt ave blvd bldg rd hwy dept dist div est
    ext govt hr hrs min mins secs oz lb lbs tbsp tsp sq tel misc assn assoc univ intl natl mfg ph.d
""")
_STARTERS = _set("""
    The A An This That These Those There Here It Its He She They We You I His Her Their Our My Your In On At
    By For From With Without As If When While Where After Before Since Until Although Though Because But And
    Or So Yet Now Then However Also Both Each Many Most Some Several Such No Not To What Who Why How Which
    Once Under Over Meanwhile Still Instead Another Other One Two Three Last Overall
""")
# Names that carry a stop of their own.
_EXCLAIMING_NAMES = frozenset({"yahoo", "jeopardy"})

_LETTERS_WITH_STOPS = re.compile(r"[^\W\d_](?:\.[^\W\d_])*")  # "J", "U.S", "a.m"
_LIST_NUMBER = re.compile(r"[(\[]?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})")
_QUOTES = "\"'”’»"
_OWN_STOPS = "。！？｡।॥؟۔։"  # of scripts in which white space need not follow a sentence

_ITEM = r"(?:[-*•]|[(\[]?\d{1,3}[.)\]])(?=[ \t])"  # what an item of a list begins with

# A run of stops with the quotes and brackets that close after it, a blank line, or the end of the line before an item.
# What must follow is checked in Python: a regex that looks ahead would read a long run again and again.
_CANDIDATE = re.compile(
    rf"(?P<stops>[.!?…{_OWN_STOPS}]+)(?P<closing>(?:[\"'”’»›)\]}}」』）】]|[ ](?:''|[)\]])(?!\S))*)"
    rf"|(?P<blank>\n\s*\n|[\f\u2029]|\n(?=[ \t]*{_ITEM}))"
)
_FOLLOWING = re.compile(r"[\"'”’»)\]}]*(?P<space>\s*)[\"'“‘«(\[{`¿¡]*(?P<word>\S{0,24})")
_WORD_BEFORE = re.compile(r"(?<![^\s\"'“‘«(\[{`—–-])[^\s\"“«(\[{`—–-]+\Z")
_LEADING_LETTERS = re.compile(r"[^\W\d_]+")
_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))  # all of Unicode's
_BETWEEN_SENTENCES = _SPACE + "\"'“”‘’«»()[]{}`"
_NON_SPACE = re.compile(r"\S")


def abbreviates(text: str, start: int, stop: int) -> bool:
    """Say whether the full stop at ``stop`` belongs to the word ``text[start:stop]`` and ends no sentence."""
    if not 0 < stop - start <= 16:
        return False
    word = text[start:stop].lower()
    title, before_number = word in _TITLES, word in _BEFORE_NUMBER
    if not (title or before_number or word in _ABBREVIATIONS or _LETTERS_WITH_STOPS.fullmatch(word)):
        return False
    following = _FOLLOWING.match(text, stop + 1)
    next_word = following["word"] if following else ""
    if not next_word:  # the text ends here, and so does its last sentence
        return False
    if title:
        return True
    if before_number and len(word) > 1:
        return next_word[0].isdigit()
    letters = _LEADING_LETTERS.match(next_word)
    return letters is None or letters[0] not in _STARTERS


def list_marker(sentence: str) -> tuple[int, int]:
    """Return the span of what marks a sentence as an item of a list, "2." or "-"; an empty one if nothing does."""
    found = re.match(_ITEM, sentence)
    return found.span() if found else (0, 0)


def begins_sentence(before: str, word: str = "x") -> bool:
    """Say whether a word after this much text begins a sentence."""
    body = before.rstrip(_BETWEEN_SENTENCES)
    if not body or before[len(body) :].count("\n") > 1:
        return True
    if body[-1] != "." or body.endswith(".."):
        return body[-1] in "!?" + _OWN_STOPS
    last_word = _WORD_BEFORE.search(body, max(0, len(body) - 25), len(body) - 1)
    return last_word is None or not abbreviates(f"{body} {word}", last_word.start(), len(body) - 1)


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return each sentence's character span, trimmed; each non-space character is in exactly one of them."""
    spans: list[tuple[int, int]] = []
    start = _skip_space(text, 0)
    for candidate in _CANDIDATE.finditer(text):
        end = candidate.end()
        if start < end and (candidate["blank"] or _ends_sentence(text, start, candidate)):
            spans.append((start, start + len(text[start:end].rstrip())))
            start = _skip_space(text, end)
    if start < len(text):
        spans.append((start, start + len(text[start:].rstrip())))
    return spans


def _skip_space(text: str, start: int) -> int:
    found = _NON_SPACE.search(text, start)
    return found.start() if found else len(text)


def _ends_sentence(text: str, start: int, candidate: re.Match[str]) -> bool:
    stops, closing, end = candidate["stops"], candidate["closing"], candidate.end()
    if any(stop in _OWN_STOPS for stop in stops):
        return True
    following = _FOLLOWING.match(text, end)
    if following is None or not following["word"]:
        return True
    if not following["space"]:
        return False
    next_character = text[following.end("space")]
    if next_character in ".!?…,;:)]}%":  # "Inc. , said", or the stop that counts is still to come
        return False
    lower = following["word"][0].islower()
    if lower and any(quote in closing for quote in _QUOTES):
        return False
    if stops == "…" or stops.startswith(".."):
        return not lower
    before = _WORD_BEFORE.search(text, max(start, candidate.start() - 24), candidate.start())
    if before is None:  # the stop stands alone, as in tokenised text
        return True
    if stops == ".":
        listed = _LIST_NUMBER.fullmatch(text, start, candidate.start())
        return not listed and not abbreviates(text, before.start(), candidate.start())
    return before[0].lower() not in _EXCLAIMING_NAMES
