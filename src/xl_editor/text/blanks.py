"""Blanks, which a user writes into a text to have them filled."""

import re

from xl_editor.text.words import DASHES, DOUBLED, first_key, joined, last_key

BLANK = "[_]"
_BLANK_OR_ESCAPED = re.compile(r"(\\?)\[_\]")


def split_blanks(text: str) -> list[str]:
    r"""Split text at each ``[_]``; ``\[_]`` stands for a literal ``[_]``, and comes out as that.

    So a part of the result took ``len(part) + part.count("[_]")`` characters of the text.
    """
    parts = [""]
    end = 0
    for match in _BLANK_OR_ESCAPED.finditer(text):
        parts[-1] += text[end : match.start()]
        if match[1]:
            parts[-1] += BLANK
        else:
            parts.append("")
        end = match.end()
    parts[-1] += text[end:]
    return parts


def without_blank(left: str, right: str) -> tuple[str, int]:
    """Return the text around a blank as if it had never been there, and where it was: "was [_]." is "was."."""
    after_space, before_space = left[-1:].isspace(), right[:1].isspace()
    left, right = left.rstrip(" "), right.lstrip(" ")
    if not left or not right:
        whole = left + right
    elif after_space and before_space:  # as in "was [_] ."
        whole = f"{left} {right}"
    elif after_space or before_space or left[-1] + right[0] in DOUBLED:
        touched = first_key(right) if after_space else last_key(left)
        whole = left + right if touched in DASHES else joined(left, right)
    else:
        whole = left + right
    return whole, len(whole) - len(right)
