"""What stands in the slot behind a word, as an edit of the user's text: exact, with the white space it takes along."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xl_editor.text.words import Span

# What is better left alone: numbers, addresses, handles, code, abbreviations, other scripts, emoji.
_PROTECTED = re.compile(r"[\d@#/\\_<>{}=~^|*]|\w[.:]\w|[a-z][A-Z]|\A[A-Z]{2,}s?\Z|[^\x00-\x7F‘’“”–—…]")


def is_protected(word: str, begins_sentence: bool) -> bool:
    """Say whether a word is none to correct unless one is very sure; names are, by their capital."""
    if _PROTECTED.search(word):
        return True
    return word[:1].isupper() and not begins_sentence and word != "I" and not word.startswith(("I'", "I’"))


def slot_edit(text: str, words: Sequence[Span], slot: int, old: str, new: str) -> tuple[int, int, str]:
    """Characters [start, end) of the text and what takes their place.

    Args:
        text: the user's.
        words: where its words stand.
        slot: 0 before the first word, k behind the k-th.
        old: what the model has in the slot's place, and
        new: what should stand there; both with the white space before them, if there is any.

    """
    if "’" in text and "'" not in text:
        new = new.replace("'", "’")
        old = old.replace("'", "’")
    if slot == 0:
        start = words[0][0] if words else 0
        return start, start, f"{new.strip()} "
    start, end = words[slot - 1]
    before = words[slot - 2][1] if slot > 1 else start
    if old and new.startswith(old) and new != old:  # the word stays, and something follows it
        return end, end, new[len(old) :]
    if not new.strip():
        # With the word goes the white space before it; with the first one, or that of a line, what is behind it.
        if before < start and "\n" not in text[before:start]:
            return before, end, ""
        following = words[slot][0] if slot < len(words) else end
        return start, end if "\n" in text[end:following] else following, ""
    if new[0].isspace() or slot == 1:
        is_glued = slot > 1 and before == start and not old[:1].isspace() and new[0].isspace()
        return start, end, f" {new.strip()}" if is_glued else new.strip()
    return before, end, new
