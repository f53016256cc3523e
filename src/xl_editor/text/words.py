"""How running text is cut into words, and where white space stands between them."""

import re
import unicodedata
from collections.abc import Iterator

from xl_editor.sentences import abbreviates

Span = tuple[int, int]  # half-open: [start, end)

_MARKS = re.escape(';@#$%&?!()[]{}<>‹›…—–¿¡£€¥¢§"“”„«»、。，！？；：（）「」『』【】《》〈〉｡،؛؟۔।॥։')
_SYMBOLS = "\u2190-\u2bff\U0001f000-\U0001faff"  # arrows to stars, then emoji
_ATTACHED = "\u0300-\u036f\u200c\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"  # to the character before
APOSTROPHE = "['’]"
_CORE = rf"(?:[^\s.,:'’\-{_MARKS}{_SYMBOLS}]|-(?!-))"  # what words are made of

# Each non-space character falls into exactly one match. No alternative can fail after its first character, so
# long runs are read once.
_PIECE = re.compile(
    rf"""
    (?P<fixed> ``|''|-{{2,}}|\.{{3}}|{APOSTROPHE}(?i:s|m|re|ve|ll|d)(?!{_CORE}) )
  | (?P<word>
        (?:{APOSTROPHE}(?=(?i:em|tis|twas|til|n|cause|cuz|bout|burgh|\d\ds?)(?!{_CORE})))?   # 'em, '90s
        (?:\.(?=\d))?                                                                        # .5
        {_CORE}+ (?: (?: [.'’] | (?<=\d)[,:](?=\d) | :(?=/) ) {_CORE}+ )*                    # o'clock 1,000
    ) (?P<stop> \.(?!\.|{_CORE}) )?
  | [{_SYMBOLS}][{_SYMBOLS}{_ATTACHED}]*
  | \S[{_ATTACHED}]*
    """,
    re.VERBOSE,
)
_CLITIC = re.compile(rf"(?:n{APOSTROPHE}t|{APOSTROPHE}(?:s|m|re|ve|ll|d))\Z", re.IGNORECASE)
CLITICS = frozenset({"n't", "'t", "'s", "'m", "'re", "'ve", "'ll", "'d"})
_COMPOUNDS = frozenset({"gonna", "wanna", "gotta", "gimme", "lemme"})  # written as one word, read as two
_CUT_AFTER_THREE = _COMPOUNDS | {"cannot"}
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def pieces_of(text: str, treebank: bool, clitics: bool) -> Iterator[Span]:
    """Cut text into words, punctuation and clitics, and with ``treebank`` "cannot" and "gonna" in two."""
    for match in _PIECE.finditer(text):
        start, end = match.span()
        if match["word"] is None:
            yield start, end
            continue
        tail: list[Span] = []  # what is cut off, from the right
        stop = match.start("stop")
        if stop >= 0 and not abbreviates(text, start, stop):
            tail.append((stop, end))
            end = stop
        if treebank and end - start in (5, 6) and text[start:end].lower() in _CUT_AFTER_THREE:
            tail.append((start + 3, end))
            end = start + 3
        while clitics and (clitic := _CLITIC.search(text, max(start + 1, end - 3), end)):  # would n't 've
            tail.append(clitic.span())
            end = clitic.start()
        yield start, end
        yield from reversed(tail)


# --- White space between words ----------------------------------------------------------------------------

_CLOSING = frozenset([*",.!?;:)]}%…”’'»、。，！？；：）」』】》〉｡،؛؟۔।॥։", "...", "''", *CLITICS])
OPENING = frozenset([*"([{$£€#¿¡“‘«、。，！？；：（「『【《〈｡", "``"])
DASHES = frozenset(["--", "-"])  # which stand as near to either side as their writer likes
DOUBLED = frozenset(["''", "``"])  # read as one mark
_STRAIGHT_QUOTES = frozenset("\"'")  # which may open or close
TREEBANK_FORMS = {
    **dict.fromkeys("“„«", "``"),
    **dict.fromkeys("”»", "''"),
    **dict.fromkeys("’‘", "'"),
    "…": "...",
    "—": "--",
    "–": "-",
}


def key_of(text: str, start: int, end: int) -> str:
    """Return a word of the user's text in the form in which the spacing rules know it."""
    surface = text[start:end]
    if surface == '"':
        return quote_form(text, start, end) or surface
    return TREEBANK_FORMS.get(surface) or surface.replace("’", "'").lower()


def quote_form(text: str, start: int, end: int) -> str:
    """Return the Treebank's form of a straight quotation mark, by what it touches, or "" if nothing tells."""
    after_space = start == 0 or text[start - 1].isspace() or text[start - 1] in OPENING
    before_space = end == len(text) or text[end].isspace()
    if after_space and before_space:
        return ""
    return "``" if after_space else "''"


def spaced(left: str, right: str) -> bool:
    """Say whether white space belongs between two words of natural text, given in the form of ``key_of``."""
    return not (right in _CLOSING or left in OPENING or left + right in _COMPOUNDS)


def joined(left: str, right: str) -> str:
    """Put two pieces of text that belong side by side together, with a space between them where one is wanted."""
    if not left or not right or left[-1].isspace() or right[0].isspace():
        return left + right
    wants_space = spaced(last_key(left), first_key(right)) or left[-1] + right[0] in DOUBLED
    return f"{left} {right}" if wants_space else left + right


def last_key(text: str) -> str:
    """Return the last word of a text that goes on at once, in the form of ``key_of``."""
    last = text.rsplit(maxsplit=1)[-1]
    *_, (start, end) = pieces_of(last, treebank=False, clitics=True)
    if last[start:end] in _STRAIGHT_QUOTES:
        return "``" if start == 0 or last[start - 1] in OPENING else "''"
    return key_of(last, start, end)


def first_key(text: str) -> str:
    """Return the first word of a text that goes on with another one, in the form of ``key_of``."""
    first = text.split(maxsplit=1)[0]
    start, end = next(pieces_of(first, treebank=False, clitics=True))
    if first[start:end] in _STRAIGHT_QUOTES:
        return "``" if first[end : end + 1].isalnum() else "''"
    return key_of(first, start, end)


def is_clitic(word: str) -> bool:
    """Say whether this is what the Treebank cuts off the end of a word."""
    return word.lower().replace("’", "'") in CLITICS


def would_fuse(left: str, right: str) -> bool:
    """Say whether two words would read as one without white space, in a script that uses it."""
    last = next((c for c in reversed(left) if unicodedata.category(c)[0] != "M"), "")  # accents aside
    if not last or not right or _spaceless(last) or _spaceless(right[0]):
        return False
    return last.isalnum() and right[0].isalnum()


def _spaceless(character: str) -> bool:
    # Han and kana; Thai to Tibetan
    return "\u2e80" <= character <= "\u9fff" or "\u0e00" <= character <= "\u0fff"
