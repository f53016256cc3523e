"""Pairs of a wrong and a right text → what the slots of the wrong one should hold.

A pair is read (`source`, `target`), or made: the right text is a window of the corpus, sometimes written as in chats
and e-mails, and `errors` makes it wrong. Its words are aligned (`text.alignment`), so that each slot of the wrong text
has its insertion. Slots that change nothing are easy, and most: only a share of them is asked about.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from xl_editor.text import Codec
from xl_editor.text.alignment import align
from xl_editor.training.errors import DEFAULT_RATES, ErrorMaker
from xl_editor.training.objectives import Correction, Ids

MOST_WORDS_A_SLOT = 8  # of what is put in one place: a pair that needs more is another text, not a correction


@dataclass(frozen=True)
class CorrectionSettings:
    """How texts are made wrong and asked about; see `recipe` for what each means."""

    share: float
    unchanged_share: float
    clean_share: float
    errors_per_word: float
    rates: Mapping[str, float] = field(default_factory=dict)  # of kinds of errors, if other than usual


@dataclass(frozen=True)
class VariationSettings:
    """How often a text is written in another way; see `recipe`."""

    lowercase: float
    without_final_mark: float
    typographic: float

    @property
    def any_rate(self) -> float:
        """How often anything is varied: each text is varied in one way at the most."""
        return self.lowercase + self.without_final_mark + self.typographic


class Reader:
    """Reads texts word by word, as the editor does: the same tokens, the same words."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.key = lru_cache(maxsize=1 << 16)(codec.written)  # a word as it is compared: with the space before it
        self._words_of_chunk = lru_cache(maxsize=1 << 17)(self._read_chunk)

    def text(self, tokens: list[int]) -> str:
        """What tokens of the corpus say."""
        return self.codec.written(tokens).strip()

    def words(self, text: str) -> list[Ids]:
        """The tokens of each word.

        Running text is read chunk by chunk, as white space parts it, and every chunk but once; only whether a full stop
        abbreviates depends on what follows. Where the format sets punctuation apart, more does.
        """
        if self.codec.format.tokenise or self.codec.format.dropped:
            return self._read(text)[0]
        chunks = text.split()
        following = ["", *chunks[:0:-1]][::-1]
        return [
            word
            for chunk, after in zip(chunks, following, strict=True)
            for word in self._words_of_chunk(chunk, after if "." in chunk else "")
        ]

    def _read(self, text: str) -> tuple[list[Ids], list[int]]:
        """The tokens of each word, and where they start."""
        encoded = self.codec.encode(text)
        spans = self.codec.written_words(encoded)
        return [encoded.ids[first:last] for first, last in spans], [encoded.slot(first) for first, _ in spans]

    def _read_chunk(self, chunk: str, following: str) -> list[Ids]:
        words, starts = self._read(f"{chunk} {following}".strip())
        return words[: bisect_left(starts, len(chunk))]


def varied(text: str, settings: VariationSettings, random: Random) -> str:
    """The text in one of the ways of chats and e-mails: in lower case, without its final mark, or with curly quotes."""
    at = random.random() * settings.any_rate
    if at < settings.lowercase:
        return text.lower()
    if at < settings.lowercase + settings.without_final_mark:
        return text[:-1] if text.endswith((".", "!")) and not text.endswith("..") else text
    return _with_curly_quotes(text)


def _with_curly_quotes(text: str) -> str:
    parts = []
    previous = " "
    for character in text:
        opens = previous.isspace() or previous in "([{—–-“‘"
        if character == '"':
            character = "“" if opens else "”"
        elif character == "'":
            character = "‘" if opens else "’"
        parts.append(character)
        previous = character
    return "".join(parts)


class CorrectionMaker:
    """Makes and asks about corrections; all that is left to chance comes from the `Random` that it is given."""

    def __init__(self, reader: Reader, settings: CorrectionSettings) -> None:
        self.reader = reader
        self.settings = settings
        self.errors = ErrorMaker(
            settings.rates or DEFAULT_RATES,
            clean_share=settings.clean_share,
            errors_per_word=settings.errors_per_word,
        )

    def made(self, text: str, random: Random) -> Correction:
        """A text, made wrong."""
        spoiled = self.errors.spoil(text, random)
        slots = correct_slots(self.reader, spoiled.text, text)
        if slots is None:  # too much went wrong at one place
            slots = correct_slots(self.reader, text, text)
        assert slots is not None  # a text is its own correction
        return self.asked(*slots, random)

    def paired(self, wrong: str, right: str, random: Random) -> Correction:
        """A pair that was read, and can be aligned."""
        slots = correct_slots(self.reader, wrong, right)
        assert slots is not None  # pairs that cannot be aligned have been skipped
        return self.asked(*slots, random)

    def asked(self, words: list[Ids], right: list[Ids], random: Random) -> Correction:
        """All slots that change something, and a share of the others."""
        whole = Correction(words, list(enumerate(right)))
        slots = [
            (slot, inserted)
            for slot, inserted in whole.slots
            if whole.changes(slot, inserted) or random.random() < self.settings.unchanged_share
        ]
        return Correction(words, slots or [(0, right[0])])


def correct_slots(reader: Reader, wrong: str, right: str) -> tuple[list[Ids], list[Ids]] | None:
    """The words of the wrong text and what each of its slots should hold; None where the two are different texts."""
    words, right_words = reader.words(wrong), reader.words(right)
    if words == right_words:
        return words, [(), *words]
    keys = [[reader.key(word) for word in side] for side in (words, right_words)]
    slots = align(*keys)
    if max(map(len, slots)) > MOST_WORDS_A_SLOT:
        return None
    return words, [tuple(token for index in slot for token in right_words[index]) for slot in slots]
