"""Text that is tokenised as in the Penn Treebank ("I do n't , sir ."), as people write it, and back.

Correctors want ordinary text; corpora of corrections are tokenised. So a line is detokenised, edited, and the edits are
brought back to the tokens that they touch. All other tokens stay as they were, however odd: to tokenise the whole anew
would be scored as edits that nobody made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from nltk.tokenize import NLTKWordTokenizer

WRITTEN = {"``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
CLOSES = re.compile(r"[,.;:?!%)\]}…”]|\.\.+|''|-R[RSC]B-|n['’]t|['’](s|m|d|re|ve|ll)", re.IGNORECASE)
OPENS = re.compile(r"[(\[{$£€#“]|``|-L[RSC]B-")
CUT_WORDS = {("gon", "na"), ("wan", "na"), ("got", "ta"), ("gim", "me"), ("lem", "me")}
JOINING = "-'’/"  # that make one word of two


class TextEdit(NamedTuple):
    """Characters [start, end) of a text are replaced."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Detokenised:
    tokens: tuple[str, ...]
    text: str
    spans: tuple[tuple[int, int], ...]  # of each token in the text


def detokenise(line: str) -> Detokenised:
    """A tokenised line as people would write it."""
    tokens = tuple(line.split())
    text, spans = "", []
    glued = [False, *_glued(tokens)]
    for token, is_glued in zip(tokens, glued, strict=False):  # an empty line has no tokens
        text += "" if is_glued or not text else " "
        written = WRITTEN.get(token, token)
        spans.append((len(text), len(text) + len(written)))
        text += written
    return Detokenised(tokens, text, tuple(spans))


def _glued(tokens: Sequence[str]) -> Iterator[bool]:
    """Whether there is no space between each token and the next."""
    open_quotes: set[str] = set()
    opened = False  # whether the token before is an opening quote
    for left, right in pairwise(("", *tokens)):
        closes = False
        opens = False
        if right in ('"', "'"):
            is_possessive = right == "'" and right not in open_quotes and left[-1:] in ("s", "S")
            closes = right in open_quotes or is_possessive
            opens = not closes
            if not is_possessive:
                open_quotes ^= {right}
        elif left:
            closes = bool(CLOSES.fullmatch(right)) or (left.lower(), right.lower()) in CUT_WORDS
        if left:
            yield closes or opened or bool(OPENS.fullmatch(left))
        opened = opens


def retokenise(source: Detokenised, edits: Sequence[TextEdit]) -> str:
    """The tokenised line after edits of its text, which must not overlap; tokens that none touches are as they were."""
    tokens = list(source.tokens)
    for (first, last), text in reversed(_regions(source, edits)):
        new = _tokenise(text, source, at_end=last == len(source.tokens))
        tokens[first:last] = _with_old_forms(source, first, last, new)
    return " ".join(tokens)


def _regions(source: Detokenised, edits: Sequence[TextEdit]) -> list[tuple[tuple[int, int], str]]:
    """Tokens [first, last) that are touched, with the text that they become; from left to right."""
    regions: list[tuple[tuple[int, int], list[TextEdit]]] = []
    for edit in _minimal(source.text, edits):
        first, last = _touched(source, edit)
        if regions and first < regions[-1][0][1]:  # a token that the edit before touches, too
            (before, _), others = regions.pop()
            regions.append(((before, last), [*others, edit]))
        else:
            regions.append(((first, last), [edit]))
    found = []
    for (first, last), within in regions:
        start = min([within[0].start, *(source.spans[first][:1] if first < last else ())])
        end = max([within[-1].end, *(source.spans[last - 1][1:] if first < last else ())])
        found.append(((first, last), apply(source.text[start:end], [_moved(edit, -start) for edit in within])))
    return found


def apply(text: str, edits: Sequence[TextEdit]) -> str:
    """The text after edits in order, which do not overlap."""
    parts, done = [], 0
    for start, end, new in edits:
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def _moved(edit: TextEdit, by: int) -> TextEdit:
    return TextEdit(edit.start + by, edit.end + by, edit.text)


def _minimal(text: str, edits: Sequence[TextEdit]) -> list[TextEdit]:
    """The same edits in order, without what they leave as it is; those next to each other as one."""
    joined: list[TextEdit] = []
    for edit in sorted(edits):
        if not 0 <= edit.start <= edit.end <= len(text) or (joined and edit.start < joined[-1].end):
            raise ValueError(f"edits must lie within the text and not overlap; {edit} does not.")
        if joined and edit.start == joined[-1].end:
            before = joined.pop()
            joined.append(TextEdit(before.start, edit.end, before.text + edit.text))
        else:
            joined.append(edit)
    minimal = []
    for start, end, new in joined:
        while start < end and new and text[start] == new[0]:
            start, new = start + 1, new[1:]
        while start < end and new and text[end - 1] == new[-1]:
            end, new = end - 1, new[:-1]
        if start < end or new:
            minimal.append(TextEdit(start, end, new))
    return minimal


def _touched(source: Detokenised, edit: TextEdit) -> tuple[int, int]:
    """The tokens [first, last) that an edit changes, or that it grows together with; none for words put in between."""
    text, (start, end, new) = source.text, edit
    first = sum(stop <= start for _, stop in source.spans)
    last = max(first, sum(begin < end for begin, _ in source.spans))
    if first < len(source.spans) and source.spans[first][0] < start == end:  # put into the middle of a token
        last = first + 1
    left, right = text[:start][-1:], text[end:][:1]
    if new:
        grows_left, grows_right = _grows(left, new[0]), _grows(right, new[-1])
    elif text[start:end].strip():
        grows_left = grows_right = left.isalnum() and right.isalnum()
    else:  # words are joined, perhaps by what one of them begins or ends with
        grows_left = grows_right = _grows(left, right) or _grows(right, left)
    if grows_left and first > 0 and source.spans[first - 1][1] == start:
        first -= 1
    if grows_right and last < len(source.spans) and source.spans[last][0] == end:
        last += 1
    # What was cut out of the same word ("ca n't") changes with it.
    while 0 < first < last and _is_cut(source, first):
        first -= 1
    while first < last < len(source.spans) and _is_cut(source, last):
        last += 1
    return first, last


def _is_cut(source: Detokenised, index: int) -> bool:
    """Whether a token and the one before it are parts of one word."""
    at = source.spans[index][0]
    return source.spans[index - 1][1] == at and source.text[at - 1].isalnum() and source.text[at].isalnum()


def _grows(old: str, new: str) -> bool:
    """Whether a new character makes one word with the old one beside it."""
    return old.isalnum() and (new.isalnum() or new in JOINING) and bool(new)


def _tokenise(text: str, source: Detokenised, *, at_end: bool) -> list[str]:
    # Only at the end of a text does the tokenizer take a full stop for one: "etc." in its midst stays.
    words = NLTKWordTokenizer().tokenize(text if at_end else f"{text} x")
    tokens = [word for token in (words if at_end else words[:-1]) for word in token.split()]
    if not {"``", "''"} & set(source.tokens):
        tokens = [WRITTEN[token] if token in ("``", "''") else token for token in tokens]
    return tokens


def _with_old_forms(source: Detokenised, first: int, last: int, new: list[str]) -> list[str]:
    """New tokens, where those at both ends that are what they were stay in their old form."""
    old = source.tokens[first:last]
    written = [source.text[start:end] for start, end in source.spans[first:last]]
    least = min(len(old), len(new))
    n_left = next((i for i in range(least) if new[i] not in (old[i], written[i])), least)
    least -= n_left
    n_right = next((i for i in range(least) if new[-1 - i] not in (old[-1 - i], written[-1 - i])), least)
    return [*old[:n_left], *new[n_left : len(new) - n_right], *old[len(old) - n_right :]]
