"""An edited text is written as its writer would: kept parts as they were, new words with fitting space and case."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from xl_editor.sentences import abbreviates, begins_sentence
from xl_editor.text.encoded import EncodedText, TextFormat
from xl_editor.text.words import APOSTROPHE, CLITICS, NUMBER, OPENING, Span, key_of, pieces_of, spaced, would_fuse


@dataclass(frozen=True)
class Change:
    """What an edit did: the span taken out of the old text, and the one put into the new text."""

    removed: Span
    inserted: Span


@dataclass(frozen=True)
class Applied:
    """An edited text, with one change per edit, in the order in which the edits were given.

    Outside the changes, old and new text differ at most in the white space beside them and in the case of the
    letter after them: that of a word which now begins a sentence, or no longer does.
    """

    text: str
    changes: tuple[Change, ...]
    spans: tuple[Span, ...]  # where each token of the edited text stands in it; those of a new word all have the word's


@dataclass(frozen=True)
class NewWord:
    form: str  # as the model writes it
    opens: bool  # white space stands before it in the model's text; if not, it goes on from what precedes it
    n_tokens: int = 1


@dataclass(frozen=True)
class Segment:
    """A stretch of an edited text, in place of tokens [first, last) of the old one: kept, or new words."""

    first: int
    last: int
    words: tuple[NewWord, ...] = ()
    edit: int | None = None  # which of the given edits; None: kept
    n_bare: int = 0  # tokens of the edited text that it stands for, if it has no words


def wants_space(format: TextFormat, left: str, word: NewWord) -> bool:
    """Say whether white space belongs before a new word in natural text."""
    if format.tokenise:
        return word.opens and spaced(left, word.form)
    return word.opens and left not in OPENING  # a model of natural text knows its own spaces


def surface_of(format: TextFormat, form: str, curly: bool) -> str:
    """Write a word of the model as natural text does."""
    if format.tokenise and form in ("``", "''"):
        return ("“" if form == "``" else "”") if curly else '"'
    return form.replace("'", "’") if curly else form


def _share(gap: str, after_sentence: bool) -> tuple[str, str]:
    """Share the white space at a slot between both sides of an insertion; line breaks stay in one place."""
    if "\n" not in gap:
        return gap[:1], gap[-1:]
    # A space beside the break tells the slot's side of it ("was [_]\n"); failing that, a sentence's end does.
    if gap[0] == " " or (gap[-1] != " " and not after_sentence):
        return " ", gap.lstrip(" ")
    return gap.rstrip(" "), " "


# --- Case -------------------------------------------------------------------------------------------------

_CONTEXT = 64  # characters, enough to see whether a sentence has ended
_LONGEST_KEY = 16  # characters; longer than any word that the rules know
_FIRST_WORD = re.compile(r"[\s\"'“‘«(\[{`]*([^\W\d_][\w'’-]*)")


def _capitalise(word: str) -> str:
    first = word[:1].upper()
    return first + word[1:] if len(first) == 1 else word  # "ß" has no capital of one letter


@dataclass(frozen=True)
class _Habits:
    """How a user writes, as far as their text shows."""

    capitals: bool = False  # ALL OF IT
    sentence_case: bool = False  # sentences begin with a capital
    capital_i: bool = False
    curly: bool = False  # ’ “ ” rather than ' "
    # Words with a capital within a sentence, by their lower-case form.
    names: Mapping[str, str] = field(default_factory=dict)


def _habits(encoded: EncodedText) -> _Habits:
    text = encoded.text
    curly = "’" in text and "'" not in text
    if text == text.lower():
        return _Habits(curly=curly)
    if text == text.upper() and sum(map(str.isupper, text)) > 1:
        return _Habits(capitals=True, curly=curly)
    sentence_case = False
    small: set[str] = set()
    names: dict[str, str] = {}
    for word in encoded.words:
        surface = text[word.start : word.end]
        lower = surface.lower()
        if surface == lower:
            small.add(surface)
            continue
        before = text[max(0, word.start - _CONTEXT) : word.start]
        if begins_sentence(before, surface):
            sentence_case |= surface[0].isupper()
        elif surface != "I" and before.rstrip()[-1] not in ':"“‘(':  # there, too, a sentence may begin
            names.setdefault(lower, surface)
    return _Habits(
        sentence_case=sentence_case,
        capital_i="i" not in small,
        curly=curly,
        names={lower: name for lower, name in names.items() if lower not in small},
    )


# --- The rewriter -------------------------------------------------------------------------------------------


def _stands_apart(form: str) -> bool:
    """Say whether what natural text glues to the word before it is a word of its own in tokenised text."""
    return form in CLITICS or not any(character.isalnum() for character in form)


class Rewriter:
    """Writes an edited text segment by segment, and chooses white space and case at each joint."""

    def __init__(self, encoded: EncodedText, format: TextFormat, knows_word: Callable[[str], bool]) -> None:
        self.encoded = encoded
        self.format = format
        self.knows_word = knows_word  # whether it is an entry of the vocabulary, written so
        self.habits = _habits(encoded)
        self.parts: list[str] = []
        self.length = 0
        self.tail = ""  # the end of what is written
        self.key = ""  # its last word, as the spacing rules know it
        self.last: Segment | None = None  # the last segment that wrote anything
        self.changes: dict[int, Change] = {}
        self.deletions: list[int] = []  # edits whose place in the new text depends on what follows
        self.spans: list[Span] = []  # of the tokens that are written
        self._put(self._gap(0))

    def write(self, segment: Segment) -> None:
        start, end = self._span(segment)
        if segment.edit is None:
            if start < end:  # a part of a word may have no characters of its own
                self._keep(segment, start, end)
                self.last = segment
            shift = self.length - end
            self.spans += [(a + shift, b + shift) for a, b in self.encoded.spans[segment.first : segment.last]]
        elif segment.words:
            self._insert(segment, segment.edit)
            self.last = segment
        else:
            self.changes[segment.edit] = Change((start, end), (0, 0))
            self.deletions.append(segment.edit)
            self.spans += [(self.length, self.length)] * segment.n_bare

    def finish(self) -> Applied:
        self._place_deletions()
        if self.last and self.encoded.spans:
            self._put(self._gap(len(self.encoded.spans)))
        changes = tuple(self.changes[i] for i in range(len(self.changes)))
        return Applied("".join(self.parts), changes, tuple(self.spans))

    def _keep(self, segment: Segment, start: int, end: int) -> None:
        right = self._key_after(segment.first)
        self._put(self._joint(segment, right))
        self._place_deletions()
        self._put(self.encoded.text[start:end] if right in CLITICS else self._recased(start, end))
        self.key = self._key_before(segment.last)

    def _insert(self, segment: Segment, edit: int) -> None:
        removed = self._span(segment)
        numbers = self._numbers(*removed)
        begin = 0
        for i, word in enumerate(segment.words):
            if i == 0:
                self._put(self._joint(segment, word.form, word))
                self._place_deletions()
                begin = self.length
            elif self.encoded.tokenised or wants_space(self.format, self.key, word):
                self._put(" ")
            surface = next(numbers, word.form) if word.form == self.format.number else self._cased(word.form)
            self.spans += [(self.length, self.length + len(surface))] * word.n_tokens
            self._put(surface)
            self.key = word.form.lower()
        self.changes[edit] = Change(removed, (begin, self.length))

    def _put(self, string: str) -> None:
        self.parts.append(string)
        self.length += len(string)
        self.tail = (self.tail + string[-_CONTEXT:])[-_CONTEXT:]

    def _place_deletions(self) -> None:
        for edit in self.deletions:
            self.changes[edit] = Change(self.changes[edit].removed, (self.length, self.length))
        self.deletions.clear()

    def _span(self, segment: Segment) -> Span:
        """Return the characters of the old text in whose place a segment stands."""
        if segment.first == segment.last:
            slot = self.encoded.slot(segment.first)
            return slot, slot
        return self.encoded.spans[segment.first][0], self.encoded.spans[segment.last - 1][1]

    def _numbers(self, start: int, end: int) -> Iterator[str]:
        """Yield the numbers of a span, for the model's word for a number to take up again."""
        removed = self.encoded.text[start:end]
        for a, b in pieces_of(removed, treebank=False, clitics=True):
            if NUMBER.fullmatch(removed, a, b):
                yield removed[a:b]

    # White space

    def _gap(self, token: int) -> str:
        """Return the user's white space before a token, or at the end of the text."""
        spans, text = self.encoded.spans, self.encoded.text
        start = spans[token - 1][1] if token > 0 else 0
        return text[start : spans[token][0] if token < len(spans) else len(text)]

    def _key_before(self, token: int) -> str:
        """Return the word that ends before a token, as the spacing rules know it."""
        end = self.encoded.spans[token - 1][1]
        start = self.encoded.word_at(token - 1).start
        return key_of(self.encoded.text, max(start, end - _LONGEST_KEY), end)

    def _key_after(self, token: int) -> str:
        """Return the word that begins with a token, as the spacing rules know it."""
        start = self.encoded.spans[token][0]
        end = self.encoded.word_at(token).end
        return key_of(self.encoded.text, start, min(end, start + _LONGEST_KEY))

    def _margins(self, segment: Segment) -> tuple[str, str]:
        """Return the user's white space on both sides of a segment; those of an insertion share one gap."""
        if segment.first < segment.last:
            return self._gap(segment.first), self._gap(segment.last)
        if segment.first in (0, len(self.encoded.spans)):  # the gap there is the margin of the text
            return " ", " "
        end = self.encoded.spans[segment.first - 1][1]
        before = self.encoded.text[max(0, end - _CONTEXT) : end]
        return _share(self._gap(segment.first), after_sentence=begins_sentence(before))

    def _joint(self, segment: Segment, right: str, word: NewWord | None = None) -> str:
        """Return the white space between what is written and a segment that begins with ``right``.

        The user's own stays unless the edit changes what belongs there.
        """
        if self.last is None or self._goes_on(segment, word):
            return ""
        before, after = self._margins(self.last)[1], self._margins(segment)[0]
        if self.last.last == segment.first:  # one gap, or an insertion's part of it
            gap = before if self.last.first == self.last.last else after
        else:  # what stood between them is deleted
            gap = before if "\n" in before and "\n" not in after else after
        if self.encoded.tokenised:
            return gap or " "
        wanted = wants_space(self.format, self.key, word) if word else spaced(self.key, right)
        if wanted == self._was_spaced(segment) and (gap or not would_fuse(self.key, right)):
            return gap
        return (gap or " ") if wanted else ""

    def _goes_on(self, segment: Segment, word: NewWord | None) -> bool:
        """Say whether a segment begins within a word, which edits of parts of words bring about."""
        if word:
            return not word.opens and not (self.encoded.tokenised and _stands_apart(word.form))
        kept_after_new = self.last is not None and self.last.edit is not None
        return kept_after_new and self.encoded.word_at(segment.first).first != segment.first

    def _was_spaced(self, segment: Segment) -> bool | None:
        """Say whether white space belonged to the joint of the old text whose place the new joint takes."""
        token = segment.first
        if segment.edit is not None and self.last and self.last.edit is None:
            token = self.last.last
        elif segment.edit is not None:
            return None
        if not 0 < token < len(self.encoded.spans):
            return None
        return spaced(self._key_before(token), self._key_after(token))

    # Case

    def _cased(self, form: str) -> str:
        """Write a new word as the user would."""
        habits = self.habits
        surface = form if self.encoded.tokenised else surface_of(self.format, form, habits.curly)
        if habits.capitals:
            return surface.upper()
        if form == "i" and habits.capital_i:
            return "I"
        if self.format.lowercase and form in habits.names:
            return habits.names[form]
        if habits.sentence_case and surface.islower() and form not in CLITICS and begins_sentence(self.tail):
            return _capitalise(surface)
        return surface

    def _recased(self, start: int, end: int) -> str:
        """Return kept text, its first word recased if it begins a sentence now, or no longer does."""
        kept = self.encoded.text[start:end]
        found = _FIRST_WORD.match(self.encoded.text, start, end)
        if not found or not self.habits.sentence_case:
            return kept
        began = begins_sentence(self.encoded.text[max(0, start - _CONTEXT) : start], found[1])
        begins = begins_sentence(self.tail, found[1])
        at = found.start(1) - start
        if begins and not began and found[1].islower():
            return kept[:at] + _capitalise(kept[at:])
        if began and not begins and self._is_common(found[1], *found.span(1)):
            return kept[:at] + kept[at].lower() + kept[at + 1 :]
        return kept

    def _is_common(self, word: str, start: int, end: int) -> bool:
        """Say whether a word seems to have its capital only from beginning a sentence."""
        stem = re.split(APOSTROPHE, word)[0]
        if stem[0] == "İ" or not (stem[1:].islower() or stem == "A"):
            return False
        if word.lower() in self.habits.names or stem.lower() in self.habits.names:
            return False
        if not self.format.lowercase and not self.knows_word(stem.lower()):  # "london" is no word: it is a name
            return False
        return not (self.encoded.text[end : end + 1] == "." and abbreviates(self.encoded.text, start, end))
