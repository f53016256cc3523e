"""What a model reads of a user's text, and how every token of it is traced back to characters."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from xl_editor.errors import RequestError
from xl_editor.text.words import Span


def _setting(default: Any, help: str) -> Any:
    """With a help text, which the documentation of recipes prints."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class TextFormat:
    """How a model's training text was written; ``["editor"]["text"]`` in the model's config.json."""

    lowercase: bool = _setting(False, "All in lower case.")
    tokenise: bool = _setting(False, "Punctuation and clitics stand apart, as in the Penn Treebank: was n't good !")
    number: str | None = _setting(None, "The word that stands for any number: _num_ (Yelp), num_num (Amazon).")
    dropped: str = _setting("", "Characters that are a space in the training text: with an apostrophe, won't is won t.")

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "TextFormat":
        """Read a format back from a model's configuration."""
        defaults = {setting.name: setting.default for setting in fields(cls)}
        for key, value in settings.items():
            if key not in defaults:
                raise RequestError(f"text format has no setting {key!r}; it has {', '.join(defaults)}.")
            if not isinstance(value, (str, type(None)) if key == "number" else type(defaults[key])):
                raise RequestError(f"text format setting {key!r} cannot be {value!r}.")
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, for a model's configuration."""
        return asdict(self)


@dataclass(frozen=True)
class Word:
    """What edits move as a whole: tokens [first, last), characters [start, end) of the user's text."""

    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True)
class EncodedText:
    """A user's text and what a model reads of it; each non-space character is in exactly one span."""

    text: str  # as given
    ids: tuple[int, ...]  # no special token but the unknown one
    spans: tuple[Span, ...]  # per token; empty for one that adds no character: a lone "▁", a character's later bytes
    words: tuple[Word, ...]  # a partition of the tokens
    tokenised: bool  # the user writes "was n't good !" rather than "wasn't good!"

    def slot(self, token: int) -> int:
        """Return the character offset of the slot before a token; after the last one, the end of that."""
        if token < len(self.spans):
            return self.spans[token][0]
        return self.spans[-1][1] if self.spans else len(self.text)

    def slot_at(self, char: int) -> int:
        """Return the slot for an insertion at a character offset: before the first word from there on."""
        i = bisect_left(self.words, char, key=lambda word: word.start)
        return self.words[i].first if i < len(self.words) else len(self.ids)

    def word_at(self, token: int) -> Word:
        """Return the word that a token is part of."""
        return self.words[bisect_right(self.words, token, key=lambda word: word.first) - 1]

    def covering(self, start: int, end: int) -> Span:
        """Return the tokens of the words that hold the characters [start, end): a range, empty at a slot."""
        first = bisect_right(self.words, start, key=lambda word: word.end)
        last = bisect_left(self.words, end, key=lambda word: word.start)
        if first >= last:
            slot = self.slot_at(start)
            return slot, slot
        return self.words[first].first, self.words[last - 1].last
