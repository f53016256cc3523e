"""From the text that people write to the tokens that a model reads, and back, without losing a character.

Going in, ``Codec.encode`` writes the text as the model's training text was written (``TextFormat``),
tokenises it, and traces every token back to characters of the text *as the user gave it*. Going out,
``Codec.apply`` replaces ranges of tokens: what is untouched stays as it was, and what is new is written as
this user writes.

    "The food wasn't good!"  ──>  the food was n't good !       what a Yelp model reads
                                           ╰──┬───╯
                                    replace by "delicious"
    "The food was delicious!" <──  the food was delicious !
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from os import PathLike, fspath
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from xl_editor.sentences import abbreviates, begins_sentence

TOKENIZER_FILE = "tokenizer.json"  # in a model's directory

Span = tuple[int, int]  # half-open: [start, end)
TokenEdit = tuple[int, int, Sequence[int]]  # replace tokens [first, last) by these ids


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
                raise ValueError(f"text format has no setting {key!r}; it has {', '.join(defaults)}.")
            if not isinstance(value, (str, type(None)) if key == "number" else type(defaults[key])):
                raise ValueError(f"text format setting {key!r} cannot be {value!r}.")
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


# --- Cutting text into words ------------------------------------------------------------------------------

_MARKS = re.escape(';@#$%&?!()[]{}<>‹›…—–¿¡£€¥¢§"“”„«»、。，！？；：（）「」『』【】《》〈〉｡،؛؟۔।॥։')
_SYMBOLS = "\u2190-\u2bff\U0001f000-\U0001faff"  # arrows to stars, then emoji
_ATTACHED = "\u0300-\u036f\u200c\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"  # to the character before
_APOSTROPHE = "['’]"
_CORE = rf"(?:[^\s.,:'’\-{_MARKS}{_SYMBOLS}]|-(?!-))"  # what words are made of

# Each non-space character falls into exactly one match. No alternative can fail after its first character, so
# long runs are read once.
_PIECE = re.compile(
    rf"""
    (?P<fixed> ``|''|-{{2,}}|\.{{3}}|{_APOSTROPHE}(?i:s|m|re|ve|ll|d)(?!{_CORE}) )
  | (?P<word>
        (?:{_APOSTROPHE}(?=(?i:em|tis|twas|til|n|cause|cuz|bout|burgh|\d\ds?)(?!{_CORE})))?  # 'em, '90s
        (?:\.(?=\d))?                                                                        # .5
        {_CORE}+ (?: (?: [.'’] | (?<=\d)[,:](?=\d) | :(?=/) ) {_CORE}+ )*                    # o'clock 1,000
    ) (?P<stop> \.(?!\.|{_CORE}) )?
  | [{_SYMBOLS}][{_SYMBOLS}{_ATTACHED}]*
  | \S[{_ATTACHED}]*
    """,
    re.VERBOSE,
)
_CLITIC = re.compile(rf"(?:n{_APOSTROPHE}t|{_APOSTROPHE}(?:s|m|re|ve|ll|d))\Z", re.IGNORECASE)
_CLITICS = frozenset({"n't", "'t", "'s", "'m", "'re", "'ve", "'ll", "'d"})
_COMPOUNDS = frozenset({"gonna", "wanna", "gotta", "gimme", "lemme"})  # written as one word, read as two
_CUT_AFTER_THREE = _COMPOUNDS | {"cannot"}
_CHUNK = re.compile(r"\S+")
_INNER_SPACE_OR_CHARACTER = re.compile(r"\S|(?<=\S) (?= *\S)")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _pieces(text: str, treebank: bool, clitics: bool) -> Iterator[Span]:
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


# --- Spacing ----------------------------------------------------------------------------------------------

_CLOSING = frozenset([*",.!?;:)]}%…”’'»、。，！？；：）」』】》〉｡،؛؟۔।॥։", "...", "''", *_CLITICS])
_OPENING = frozenset([*"([{$£€#¿¡“‘«、。，！？；：（「『【《〈｡", "``"])
# Those that tell tokenised text from natural text, by the white space before them or the lack of it.
_TELLING = frozenset([*",.!?", *_CLITICS])
_TREEBANK_FORMS = {
    **dict.fromkeys("“„«", "``"),
    **dict.fromkeys("”»", "''"),
    **dict.fromkeys("’‘", "'"),
    "…": "...",
    "—": "--",
    "–": "-",
}
_LONGEST_KEY = 16  # characters; longer than any word that the rules know


def _key(text: str, start: int, end: int) -> str:
    """Return a word of the user's text in the form in which the spacing rules know it."""
    surface = text[start:end]
    if surface == '"':
        return _quote(text, start, end) or surface
    return _TREEBANK_FORMS.get(surface) or surface.replace("’", "'").lower()


def _quote(text: str, start: int, end: int) -> str:
    """Return the Treebank's form of a straight quotation mark, by what it touches, or "" if nothing tells."""
    after_space = start == 0 or text[start - 1].isspace() or text[start - 1] in _OPENING
    before_space = end == len(text) or text[end].isspace()
    if after_space and before_space:
        return ""
    return "``" if after_space else "''"


def _spaced(left: str, right: str) -> bool:
    """Say whether white space belongs between two words of natural text, given in the form of ``_key``."""
    return not (right in _CLOSING or left in _OPENING or left + right in _COMPOUNDS)


def would_fuse(left: str, right: str) -> bool:
    """Say whether two words would read as one without white space, in a script that uses it."""
    if not left or not right or _spaceless(left[-1]) or _spaceless(right[0]):
        return False
    return left[-1].isalnum() and right[0].isalnum()


def _spaceless(character: str) -> bool:
    # Han and kana; Thai to Tibetan
    return "\u2e80" <= character <= "\u9fff" or "\u0e00" <= character <= "\u0fff"


def _stands_apart(form: str) -> bool:
    """Say whether what natural text glues to the word before it is a word of its own in tokenised text."""
    return form in _CLITICS or not any(character.isalnum() for character in form)


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


# --- The codec --------------------------------------------------------------------------------------------

_UNKNOWN_TOKENS = ("<unk>", "[UNK]")
_CONTROL_TOKEN = re.compile(r"<(?:end|m|cls|sep|pad|mask|unk|s|/s|eop|eod|style:.*)>|\[UNK\]", re.DOTALL)
_NEGATED_STEMS = {"can": "ca", "will": "wo", "shall": "sha"}  # as the Treebank cuts can't, won't, shan't
_FULL_STEMS = {stem: full for full, stem in _NEGATED_STEMS.items()}
_PRONOUNS = frozenset({"i", "you", "he", "she", "it", "we", "they", "that", "this", "there", "who", "what"})


@dataclass(frozen=True)
class _NewWord:
    form: str  # as the model writes it
    opens: bool  # white space stands before it in the model's text; if not, it goes on from what precedes it


@dataclass(frozen=True)
class _Segment:
    """A stretch of an edited text, in place of tokens [first, last) of the old one: kept, or new words."""

    first: int
    last: int
    words: tuple[_NewWord, ...] = ()
    edit: int | None = None  # which of the given edits; None: kept


class Codec:
    """Text to tokens and back, for one model. It makes the tokenizer its own, and alters its settings."""

    def __init__(self, tokenizer: Tokenizer, format: TextFormat, special_ids: Collection[int]) -> None:
        unknown = next((i for i in map(tokenizer.token_to_id, _UNKNOWN_TOKENS) if i is not None), None)
        if unknown is None:
            raise ValueError(f"tokenizer has no unknown token; it needs one of {', '.join(_UNKNOWN_TOKENS)}.")
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # "<cls>" typed by a user is five characters
        self.format = format
        self.unknown_id: int = unknown
        self.special_ids = frozenset(special_ids)
        self._tokenizer = tokenizer
        # What a token begins with when white space stands before it; None: every token is a word.
        self._marker: str | None = None
        if not isinstance(tokenizer.model, WordLevel):
            self._marker = next((m for m in "▁Ġ" if tokenizer.token_to_id(m) is not None), None)
        self._marker_id = tokenizer.token_to_id(self._marker) if self._marker else None
        self._clitics = "'" not in format.dropped
        self._dropped = {ord(c): " " for c in format.dropped + ("" if self._clitics else "’‘")}

    @classmethod
    def from_file(cls, path: str | PathLike[str], format: TextFormat) -> "Codec":
        """Load a tokenizer.json; special is what is flagged so there, or bears a control token's name."""
        try:
            tokenizer = Tokenizer.from_file(fspath(path))
        except Exception as error:  # the library has no narrower one
            raise ValueError(f"{fspath(path)} is no tokenizer: {error}.") from None
        special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        for token, i in tokenizer.get_vocab().items():
            if _CONTROL_TOKEN.fullmatch(token):
                special.add(i)
        return cls(tokenizer, format, special)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tokenizer.json that ``from_file`` reads."""
        self._tokenizer.save(fspath(path))

    def token(self, id: int) -> str:
        """Return a token as it is written in the vocabulary."""
        return str(self._tokenizer.id_to_token(id))

    @property
    def number_id(self) -> int | None:
        """The token that stands for any number, if the format has one."""
        return self._tokenizer.token_to_id(self.format.number) if self.format.number else None

    @property
    def closing_ids(self) -> frozenset[int]:
        """The tokens that end a sentence."""
        found = (self._tokenizer.token_to_id(mark) for mark in ".!?")
        return frozenset(id for id in found if id is not None)

    @cached_property
    def opening_ids(self) -> tuple[int, ...]:
        """The tokens that do not go on with a word which was begun before them; none, where every token is a word."""
        if self._marker is None:
            return ()
        vocabulary = self._tokenizer.get_vocab()
        return tuple(
            sorted(id for token, id in vocabulary.items() if token[0] == self._marker or not token[0].isalnum())
        )

    def knows_word(self, word: str) -> bool:
        """Say whether a word, written so, is an entry of the vocabulary."""
        return self._tokenizer.token_to_id((self._marker or "") + word) is not None

    # Going in

    def normalise(self, text: str) -> str:
        """Write text as the model's training text was written."""
        pieces, _ = self._cut(text)
        return self._model_text(text, pieces)[0]

    def encode(self, text: str, tokenised: bool | None = None, cuts: Collection[int] = ()) -> EncodedText:
        """Tokenise text, and trace the tokens back to it.

        Whether its writer has already set punctuation and clitics apart is seen from the text, unless
        ``tokenised`` says so: a text that is edited step by step should stay what it was at first. A token of several
        marks, such as ``).``, is divided where an edit is to come between them: at the offsets in ``cuts``.
        """
        pieces, tokenised = self._cut(text, tokenised)
        model_text, starts, ends = self._model_text(text, pieces)
        word_starts = {start for start, _ in pieces}
        cuts = word_starts.intersection(cuts, starts)  # a word of dropped characters is not in the model's text
        ids: list[int] = []
        spans: list[Span] = []
        shared: set[int] = set()  # the tokens that are later parts of a character which another one began
        covered = 0
        for token, a, b in self._tokens(model_text, [starts.index(cut) for cut in cuts]):
            while a < b and model_text[a] == " ":
                a += 1
            while a < b and model_text[b - 1] == " ":
                b -= 1
            start = starts[a] if a < len(starts) else len(text)
            end = start if a == b or token == self._marker_id else ends[b - 1]
            if start > covered:
                start = self._recover(text, covered, start, ids, spans)
            elif start < covered and token != self._marker_id:
                shared.add(len(ids))
            ids.append(self.unknown_id if token in self.special_ids else token)
            spans.append((max(start, covered), max(end, covered)))
            covered = spans[-1][1]
        if covered < len(text):
            self._recover(text, covered, len(text), ids, spans)
        if self._dropped:
            for i, character in enumerate(text):
                if ord(character) in self._dropped:
                    word_starts |= {i, i + 1}
        return EncodedText(text, tuple(ids), tuple(spans), _words(spans, shared, word_starts), tokenised)

    def _tokens(self, model_text: str, cuts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Yield tokens with their offsets; those with a cut inside in parts, if the vocabulary has these."""
        encoding = self._tokenizer.encode(model_text, add_special_tokens=False)
        for token, (a, b) in zip(encoding.ids, encoding.offsets, strict=True):
            inside = sorted(cut for cut in cuts if a < cut < b)
            yield from self._divided(token, [a, *inside, b]) if inside else [(token, a, b)]

    def _divided(self, token: int, bounds: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return the parts of a token between these offsets, or the token itself if its parts are no tokens."""
        form, end = self.token(token), bounds[-1]
        parts = []
        for start, stop in pairwise(bounds):
            part = form[: stop - end] if stop < end else form  # from the end: a marker may come before the first
            form = form[len(part) :]
            id = self._tokenizer.token_to_id(part)
            if id is None or not part.lstrip(self._marker).isascii():
                return [(token, bounds[0], end)]
            parts.append((id, start, stop))
        return parts

    def _cut(self, text: str, tokenised: bool | None = None) -> tuple[list[Span], bool]:
        """Cut text into pieces, and say whether its writer has done so already."""
        pieces = list(_pieces(text, self.format.tokenise and self._clitics, self._clitics))
        if tokenised is None:
            tokenised = self._is_tokenised(text, pieces)
        if tokenised and self.format.tokenise:
            pieces = [chunk.span() for chunk in _CHUNK.finditer(text)]
        return pieces, tokenised

    def _is_tokenised(self, text: str, pieces: Sequence[Span]) -> bool:
        apart = together = 0
        glued = False
        previous_end = 0
        for start, end in pieces:
            touches = start == previous_end and start > 0
            glued |= touches
            if end - start < 4 and start > 0 and text[start:end].lower().replace("’", "'") in _TELLING:
                together += touches
                apart += not touches
            previous_end = end
        if apart == together == 0 and not glued and self.format.tokenise:
            # Nothing tells. If this is just what the model would write, take it as that.
            return not self.format.lowercase or text == text.lower()
        return apart > together

    def _model_text(self, text: str, pieces: Sequence[Span]) -> tuple[str, list[int], list[int]]:
        """Return what the model reads and, per character of it, start and end of its origin in ``text``."""
        body = text if text.isascii() else _SURROGATE.sub("\ufffd", text)  # from here on, as long as the text
        if self.format.lowercase:
            body = body.replace("İ", "i").lower()  # the only character whose lower case is longer
        if self._dropped:
            body = body.translate(self._dropped)
        parts: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        in_quotes = False
        previous_end = 0
        for start, end in pieces:
            if parts and (self.format.tokenise or start > previous_end):
                parts.append(" ")
                starts.append(start)
                ends.append(start)
            form = body[start:end]
            if self.format.tokenise:
                if form == '"':
                    form = _quote(text, start, end) or ("''" if in_quotes else "``")
                elif not form.isascii():
                    form = _TREEBANK_FORMS.get(form) or form.replace("’", "'")
                in_quotes = form == "``" or (in_quotes and form != "''")
            if self.format.number is not None and _NUMBER.fullmatch(form):
                form = self.format.number
            if len(form) == end - start:
                starts.extend(range(start, end))
                ends.extend(range(start + 1, end + 1))
            else:
                starts.extend([start] * len(form))
                ends.extend([end] * len(form))
            parts.append(form)
            previous_end = end
        model_text = "".join(parts)
        if self._dropped:  # what stands for them may double a space, or stand at an end
            kept = [match.start() for match in _INNER_SPACE_OR_CHARACTER.finditer(model_text)]
            model_text = "".join(model_text[i] for i in kept)
            starts, ends = [starts[i] for i in kept], [ends[i] for i in kept]
        return model_text, starts, ends

    def _recover(self, text: str, start: int, end: int, ids: list[int], spans: list[Span]) -> int:
        """Give characters that the tokenizer skipped to a token; return where the next token begins.

        Combining marks, invisible characters and those that the format drops join the token beside them.
        Anything else is something that the model cannot read, and an unknown token tells it so.
        """
        for run in _CHUNK.finditer(text, start, end):
            quiet = all(ord(c) in self._dropped or unicodedata.category(c)[0] in "MC" for c in run[0])
            joins_left = quiet and run.start() == start and bool(spans) and spans[-1][1] == start
            joins_right = quiet and run.end() == end < len(text)
            if joins_left and joins_right:  # 't, -made; but "good)" before a full stop
                joins_left = not (ord(run[0][-1]) in self._dropped and text[end].isalnum())
            if joins_left:
                spans[-1] = (spans[-1][0], run.end())
            elif joins_right:
                return run.start()
            else:
                ids.append(self.unknown_id)
                spans.append(run.span())
        return end

    # Going out

    def decode(self, ids: Sequence[int]) -> str:
        """Write tokens as natural running text, in the model's case: "was n't good !" is "wasn't good!"."""
        parts: list[str] = []
        left = ""
        for word in self._new_words(ids, left, natural=True):
            if parts and _wants_space(self.format, left, word):
                parts.append(" ")
            parts.append(_surface(self.format, word.form, curly=False))
            left = word.form
        return "".join(parts)

    def apply(self, encoded: EncodedText, edits: Sequence[TokenEdit]) -> Applied:
        """Replace ranges of tokens by new ones, which are written as the user would write them."""
        rewriter = _Rewriter(self, encoded)
        for segment in self._segments(encoded, edits):
            rewriter.write(segment)
        return rewriter.finish()

    def _segments(self, encoded: EncodedText, edits: Sequence[TokenEdit]) -> Iterator[_Segment]:
        """Yield the segments of the edited text in order."""
        n_tokens = len(encoded.ids)
        order = sorted(range(len(edits)), key=lambda i: edits[i][:2])
        next_firsts = [*(edits[i][0] for i in order[1:]), n_tokens]
        done = 0
        for i, next_first in zip(order, next_firsts, strict=False):
            first, last, ids = edits[i]
            if not done <= first <= last <= n_tokens:
                raise ValueError(f"edits: [{first}, {last}) overlaps another edit or leaves [0, {n_tokens}).")
            left = _word_key(encoded, first - 1, done, first)
            words = self._new_words(ids, left, natural=not encoded.tokenised)
            # Tokens without characters go where theirs go: a lone marker, or the later bytes of a character.
            while done < first and self._is_bare_marker(encoded, first - 1):
                first -= 1
                words[:1] = [_NewWord(word.form, opens=True) for word in words[:1]]
            while last < next_first and _is_bare(encoded, last) and not self._is_bare_marker(encoded, last):
                last += 1
            if self.format.tokenise and self._clitics and not encoded.tokenised:
                right = _word_key(encoded, last, last, next_first)
                was_negated = _word_key(encoded, first, first, n_tokens) == "n't"
                stem, words = _mend_negations(left, was_negated, words, right)
                if stem != left:  # the edit takes in the word before it
                    first = encoded.word_at(first - 1).first
                    words.insert(0, _NewWord(stem, opens=True))
            if done < first:
                yield _Segment(done, first)
            yield _Segment(first, last, tuple(words), i)
            done = last
        if done < n_tokens:
            yield _Segment(done, n_tokens)

    def _is_bare_marker(self, encoded: EncodedText, token: int) -> bool:
        return encoded.ids[token] == self._marker_id and _is_bare(encoded, token)

    def _new_words(self, ids: Sequence[int], previous: str, natural: bool) -> list[_NewWord]:
        """Turn tokens into words as the model writes them; natural text gets its apostrophes back."""
        if not ids:
            return []
        if self._marker is None:
            words = [_NewWord(self._tokenizer.id_to_token(i) or "", opens=True) for i in ids]
        else:
            string = self._tokenizer.decode(list(ids), skip_special_tokens=False)
            if self.format.tokenise:
                spans = [chunk.span() for chunk in _CHUNK.finditer(string)]
            else:
                spans = list(_pieces(string, treebank=False, clitics=self._clitics))
            opens = (self._tokenizer.id_to_token(ids[0]) or "").startswith(self._marker)
            words = [
                _NewWord(string[start:end], opens=string[start - 1].isspace() if i else opens)
                for i, (start, end) in enumerate(spans)
            ]
        if natural and not self._clitics:
            for i, word in enumerate(words):
                if _lost_apostrophe(previous, word.form):
                    words[i] = _NewWord("'" + word.form, word.opens)
                previous = word.form
        return words


def _words(spans: Sequence[Span], shared: Collection[int], word_starts: Collection[int]) -> tuple[Word, ...]:
    """Group tokens into words: one begins with each token that begins where a piece of the text does."""
    firsts: list[int] = []
    begun = -1
    for i, (start, _) in enumerate(spans):
        if not firsts or (start in word_starts and start != begun and i not in shared):
            firsts.append(i)
            begun = start
    return tuple(
        Word(first, last, spans[first][0], spans[last - 1][1])
        for first, last in zip(firsts, [*firsts[1:], len(spans)], strict=False)
    )


def _is_bare(encoded: EncodedText, token: int) -> bool:
    start, end = encoded.spans[token]
    return start == end


def _word_key(encoded: EncodedText, token: int, first: int, last: int) -> str:
    """Return the key of the word that a token is part of, or "" unless it is within tokens [first, last)."""
    if not first <= token < last:
        return ""
    word = encoded.word_at(token)
    return _key(encoded.text, word.start, word.end) if first <= word.first and word.last <= last else ""


def _mend_negations(left: str, was_negated: bool, words: Sequence[_NewWord], right: str) -> tuple[str, list[_NewWord]]:
    """Write "ca n't" for "can n't", and "can" where the word to the left is a "ca" that lost its "n't"."""
    following = [*(word.form for word in words), right]
    if following[0] == "n't":
        left = _NEGATED_STEMS.get(left, left)
    elif was_negated:
        left = _FULL_STEMS.get(left, left)
    return left, [
        _NewWord(_NEGATED_STEMS.get(word.form, word.form), word.opens) if after == "n't" else word
        for word, after in zip(words, following[1:], strict=True)
    ]


def _lost_apostrophe(previous: str, form: str) -> bool:
    """Say whether a word is a clitic whose apostrophe the training text dropped: "won t", "she s"."""
    if form == "t":
        return previous.endswith("n") and len(previous) > 2
    if form == "s":
        return previous.isalpha()
    if form == "m":
        return previous == "i"
    return form in ("d", "ll", "re", "ve") and previous in _PRONOUNS


def _wants_space(format: TextFormat, left: str, word: _NewWord) -> bool:
    """Say whether white space belongs before a new word in natural text."""
    if format.tokenise:
        return word.opens and _spaced(left, word.form)
    return word.opens and left not in _OPENING  # a model of natural text knows its own spaces


def _surface(format: TextFormat, form: str, curly: bool) -> str:
    """Write a word of the model as natural text does."""
    if format.tokenise and form in ("``", "''"):
        return ("“" if form == "``" else "”") if curly else '"'
    return form.replace("'", "’") if curly else form


class _Rewriter:
    """Writes an edited text segment by segment, and chooses white space and case at each joint."""

    def __init__(self, codec: Codec, encoded: EncodedText) -> None:
        self.codec = codec
        self.format = codec.format
        self.encoded = encoded
        self.habits = _habits(encoded)
        self.parts: list[str] = []
        self.length = 0
        self.tail = ""  # the end of what is written
        self.key = ""  # its last word, as the spacing rules know it
        self.last: _Segment | None = None  # the last segment that wrote anything
        self.changes: dict[int, Change] = {}
        self.deletions: list[int] = []  # edits whose place in the new text depends on what follows
        self._put(self._gap(0))

    def write(self, segment: _Segment) -> None:
        start, end = self._span(segment)
        if segment.edit is None:
            if start < end:  # a part of a word may have no characters of its own
                self._keep(segment, start, end)
                self.last = segment
        elif segment.words:
            self._insert(segment, segment.edit)
            self.last = segment
        else:
            self.changes[segment.edit] = Change((start, end), (0, 0))
            self.deletions.append(segment.edit)

    def finish(self) -> Applied:
        self._place_deletions()
        if self.last and self.encoded.spans:
            self._put(self._gap(len(self.encoded.spans)))
        return Applied("".join(self.parts), tuple(self.changes[i] for i in range(len(self.changes))))

    def _keep(self, segment: _Segment, start: int, end: int) -> None:
        right = self._key_after(segment.first)
        self._put(self._joint(segment, right))
        self._place_deletions()
        self._put(self.encoded.text[start:end] if right in _CLITICS else self._recased(start, end))
        self.key = self._key_before(segment.last)

    def _insert(self, segment: _Segment, edit: int) -> None:
        removed = self._span(segment)
        numbers = self._numbers(*removed)
        begin = 0
        for i, word in enumerate(segment.words):
            if i == 0:
                self._put(self._joint(segment, word.form, word))
                self._place_deletions()
                begin = self.length
            elif self.encoded.tokenised or _wants_space(self.format, self.key, word):
                self._put(" ")
            surface = next(numbers, word.form) if word.form == self.format.number else self._cased(word.form)
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

    def _span(self, segment: _Segment) -> Span:
        """Return the characters of the old text in whose place a segment stands."""
        if segment.first == segment.last:
            slot = self.encoded.slot(segment.first)
            return slot, slot
        return self.encoded.spans[segment.first][0], self.encoded.spans[segment.last - 1][1]

    def _numbers(self, start: int, end: int) -> Iterator[str]:
        """Yield the numbers of a span, for the model's word for a number to take up again."""
        removed = self.encoded.text[start:end]
        for a, b in _pieces(removed, treebank=False, clitics=True):
            if _NUMBER.fullmatch(removed, a, b):
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
        return _key(self.encoded.text, max(start, end - _LONGEST_KEY), end)

    def _key_after(self, token: int) -> str:
        """Return the word that begins with a token, as the spacing rules know it."""
        start = self.encoded.spans[token][0]
        end = self.encoded.word_at(token).end
        return _key(self.encoded.text, start, min(end, start + _LONGEST_KEY))

    def _margins(self, segment: _Segment) -> tuple[str, str]:
        """Return the user's white space on both sides of a segment; those of an insertion share one gap."""
        if segment.first < segment.last:
            return self._gap(segment.first), self._gap(segment.last)
        if segment.first in (0, len(self.encoded.spans)):  # the gap there is the margin of the text
            return " ", " "
        end = self.encoded.spans[segment.first - 1][1]
        before = self.encoded.text[max(0, end - _CONTEXT) : end]
        return _share(self._gap(segment.first), after_sentence=begins_sentence(before))

    def _joint(self, segment: _Segment, right: str, word: _NewWord | None = None) -> str:
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
        wanted = _wants_space(self.format, self.key, word) if word else _spaced(self.key, right)
        if wanted == self._was_spaced(segment) and (gap or not would_fuse(self.key, right)):
            return gap
        return (gap or " ") if wanted else ""

    def _goes_on(self, segment: _Segment, word: _NewWord | None) -> bool:
        """Say whether a segment begins within a word, which edits of parts of words bring about."""
        if word:
            return not word.opens and not (self.encoded.tokenised and _stands_apart(word.form))
        kept_after_new = self.last is not None and self.last.edit is not None
        return kept_after_new and self.encoded.word_at(segment.first).first != segment.first

    def _was_spaced(self, segment: _Segment) -> bool | None:
        """Say whether white space belonged to the joint of the old text whose place the new joint takes."""
        token = segment.first
        if segment.edit is not None and self.last and self.last.edit is None:
            token = self.last.last
        elif segment.edit is not None:
            return None
        if not 0 < token < len(self.encoded.spans):
            return None
        return _spaced(self._key_before(token), self._key_after(token))

    # Case

    def _cased(self, form: str) -> str:
        """Write a new word as the user would."""
        habits = self.habits
        surface = form if self.encoded.tokenised else _surface(self.format, form, habits.curly)
        if habits.capitals:
            return surface.upper()
        if form == "i" and habits.capital_i:
            return "I"
        if self.format.lowercase and form in habits.names:
            return habits.names[form]
        if habits.sentence_case and surface.islower() and form not in _CLITICS and begins_sentence(self.tail):
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
        stem = re.split(_APOSTROPHE, word)[0]
        if stem[0] == "İ" or not (stem[1:].islower() or stem == "A"):
            return False
        if word.lower() in self.habits.names or stem.lower() in self.habits.names:
            return False
        if not self.format.lowercase and not self.codec.knows_word(stem.lower()):  # "london" is no word: it is a name
            return False
        return not (self.encoded.text[end : end + 1] == "." and abbreviates(self.encoded.text, start, end))


# --- Blanks -----------------------------------------------------------------------------------------------

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
