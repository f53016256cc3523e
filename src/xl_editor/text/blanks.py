"""Blanks, which a user writes into a text to have them filled."""

import re

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
