"""Text to tokens and back, for one model."""

import hashlib
import json
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from os import PathLike, fspath

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from xl_editor.errors import RequestError
from xl_editor.text.encoded import EncodedText, TextFormat, Word
from xl_editor.text.rewriting import Applied, NewWord, Rewriter, Segment, surface_of, wants_space
from xl_editor.text.words import CLITICS, NUMBER, TREEBANK_FORMS, Span, is_clitic, key_of, pieces_of, quote_form

TOKENIZER_FILE = "tokenizer.json"  # in a model's directory

TokenEdit = tuple[int, int, Sequence[int]]  # replace tokens [first, last) by these ids

_CHUNK = re.compile(r"\S+")
_INNER_SPACE_OR_CHARACTER = re.compile(r"\S|(?<=\S) (?= *\S)")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Those that tell tokenised text from natural text, by the white space before them or the lack of it.
_TELLING = frozenset([*",.!?", *CLITICS])

_UNKNOWN_TOKENS = ("<unk>", "[UNK]")
_CONTROL_TOKEN = re.compile(r"<(?:end|correct|m|cls|sep|pad|mask|unk|s|/s|eop|eod|style:.*)>|\[UNK\]", re.DOTALL)
_NEGATED_STEMS = {"can": "ca", "will": "wo", "shall": "sha"}  # as the Treebank cuts can't, won't, shan't
_FULL_STEMS = {stem: full for full, stem in _NEGATED_STEMS.items()}
# Marks of a token that follows a space: byte-level BPE's, and SentencePiece's.
_SPACE_MARKS = ("Ġ", "▁")
# What begins a word without a space before it: then slots before a full stop or an "'s" are trained, too.
_CLOSING_MARKS = frozenset('.,;:!?%)]}…"”»')
_WRITTEN_CLITICS = frozenset(apostrophe + clitic for apostrophe in "'’" for clitic in ("s", "m", "re", "ve", "ll", "d"))
_PRONOUNS = frozenset({"i", "you", "he", "she", "it", "we", "they", "that", "this", "there", "who", "what"})


def starts_word(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """For each entry of the vocabulary, whether it begins a word. *Shape:* (vocabulary,).

    That is what follows a space, a closing mark, or an English clitic: "time" "." and "it" "'s" are words.
    """
    if isinstance(tokenizer.model, WordLevel):
        return np.ones(tokenizer.get_vocab_size(), dtype=np.bool_)
    table = np.zeros(tokenizer.get_vocab_size(), dtype=np.bool_)
    for token, id_ in tokenizer.get_vocab().items():
        # The decoder, because byte-level BPE writes characters beyond ASCII in disguise.
        text = tokenizer.decoder.decode([token]) if tokenizer.decoder else token
        table[id_] = token.startswith(_SPACE_MARKS) or _CLOSING_MARKS.issuperset(text) or text in _WRITTEN_CLITICS
    return table


class Codec:
    """Text to tokens and back, for one model. It makes the tokenizer its own, and alters its settings."""

    def __init__(self, tokenizer: Tokenizer, format: TextFormat, special_ids: Collection[int]) -> None:
        unknown = next((i for i in map(tokenizer.token_to_id, _UNKNOWN_TOKENS) if i is not None), None)
        if unknown is None:
            raise RequestError(f"tokenizer has no unknown token; it needs one of {', '.join(_UNKNOWN_TOKENS)}.")
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
            raise RequestError(f"{fspath(path)} is no tokenizer: {error}.") from None
        special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        for token, i in tokenizer.get_vocab().items():
            if _CONTROL_TOKEN.fullmatch(token):
                special.add(i)
        return cls(tokenizer, format, special)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tokenizer.json that ``from_file`` reads."""
        self._tokenizer.save(fspath(path))

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the vocabulary and of the format: what tells how a text is read."""
        described = json.dumps([self.format.to_dict(), self._tokenizer.get_vocab()], sort_keys=True)
        return hashlib.sha256(described.encode()).hexdigest()

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

    @cached_property
    def _starts_word(self) -> NDArray[np.bool_]:
        return starts_word(self._tokenizer)

    def may_follow_a_slot(self, id: int) -> bool:
        """Whether a token begins a word, before which insertions are trained.

        What is glued to an opening mark does not: no model that takes words out has seen what goes into "$‸159".
        """
        return bool(self._starts_word[id])

    def written_words(self, encoded: EncodedText) -> list[Span]:
        """Tokens of the words as people write them: "can't" is one, though a model may read it as two.

        So is "$159", unless the model was trained to put something in between.
        """
        firsts, previous_end = [], -1
        for word in encoded.words:
            goes_on = is_clitic(encoded.text[word.start : word.end]) or not self.may_follow_a_slot(
                encoded.ids[word.first]
            )
            if word.start != previous_end or not goes_on:
                firsts.append(word.first)
            previous_end = word.end
        return list(pairwise([*firsts, len(encoded.ids)]))

    def units(self, ids: Sequence[int]) -> list[Span]:
        """The tokens of each word: a new one begins with every token that does not go on with the word before it."""
        if self._marker is None:
            return [(i, i + 1) for i in range(len(ids))]
        opening = self._opening
        firsts = [i for i, id in enumerate(ids) if i == 0 or id in opening]
        return list(pairwise([*firsts, len(ids)])) if firsts else []

    @cached_property
    def _opening(self) -> frozenset[int]:
        return frozenset(self.opening_ids)

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
        pieces = list(pieces_of(text, self.format.tokenise and self._clitics, self._clitics))
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
                    form = quote_form(text, start, end) or ("''" if in_quotes else "``")
                elif not form.isascii():
                    form = TREEBANK_FORMS.get(form) or form.replace("’", "'")
                in_quotes = form == "``" or (in_quotes and form != "''")
            if self.format.number is not None and NUMBER.fullmatch(form):
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

    def written(self, ids: Sequence[int]) -> str:
        """Write tokens just as the model has them, the white space before the first one included."""
        if self._marker is None:
            return "".join(f" {self._tokenizer.id_to_token(id)}" for id in ids)
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        # SentencePiece's decoder takes the first space away.
        opens = bool(ids) and self.token(ids[0]).startswith(self._marker)
        return f" {text}" if opens and not text.startswith(" ") else text

    def split(self, ids: Sequence[int]) -> list[tuple[int, ...]]:
        """Tokens that were put in, word by word, as `written_words` tells words apart."""
        firsts = [
            i
            for i, id in enumerate(ids)
            if i == 0 or (self.may_follow_a_slot(id) and not is_clitic(self.written([id]).strip()))
        ]
        return [tuple(ids[first:last]) for first, last in pairwise([*firsts, len(ids)])] if ids else []

    def decode(self, ids: Sequence[int]) -> str:
        """Write tokens as natural running text, in the model's case: "was n't good !" is "wasn't good!"."""
        parts: list[str] = []
        left = ""
        for word in self._new_words(ids, left, natural=True):
            if parts and wants_space(self.format, left, word):
                parts.append(" ")
            parts.append(surface_of(self.format, word.form, curly=False))
            left = word.form
        return "".join(parts)

    def apply(self, encoded: EncodedText, edits: Sequence[TokenEdit]) -> Applied:
        """Replace ranges of tokens by new ones, which are written as the user would write them."""
        rewriter = Rewriter(encoded, self.format, self.knows_word)
        for segment in self._segments(encoded, edits):
            rewriter.write(segment)
        return rewriter.finish()

    def _segments(self, encoded: EncodedText, edits: Sequence[TokenEdit]) -> Iterator[Segment]:
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
                words[:1] = [replace(word, opens=True, n_tokens=word.n_tokens + 1) for word in words[:1]]
            while last < next_first and _is_bare(encoded, last) and not self._is_bare_marker(encoded, last):
                last += 1
                words[-1:] = [replace(word, n_tokens=word.n_tokens + 1) for word in words[-1:]]
            if self.format.tokenise and self._clitics and not encoded.tokenised:
                right = _word_key(encoded, last, last, next_first)
                was_negated = _word_key(encoded, first, first, n_tokens) == "n't"
                stem, words = _mend_negations(left, was_negated, words, right)
                if stem != left:  # the edit takes in the word before it
                    words.insert(0, NewWord(stem, opens=True, n_tokens=first - encoded.word_at(first - 1).first))
                    first -= words[0].n_tokens
            if done < first:
                yield Segment(done, first)
            # Tokens that are written by no character, beside what is deleted or as all that is put in.
            n_bare = 0 if words else len(ids) + (last - first) - (edits[i][1] - edits[i][0])
            yield Segment(first, last, tuple(words), i, n_bare)
            done = last
        if done < n_tokens:
            yield Segment(done, n_tokens)

    def _is_bare_marker(self, encoded: EncodedText, token: int) -> bool:
        return encoded.ids[token] == self._marker_id and _is_bare(encoded, token)

    def _new_words(self, ids: Sequence[int], previous: str, natural: bool) -> list[NewWord]:
        """Turn tokens into words as the model writes them; natural text gets its apostrophes back."""
        if not ids:
            return []
        if self._marker is None:
            words = [NewWord(self._tokenizer.id_to_token(i) or "", opens=True) for i in ids]
        else:
            string = self._tokenizer.decode(list(ids), skip_special_tokens=False)
            if self.format.tokenise:
                spans = [chunk.span() for chunk in _CHUNK.finditer(string)]
            else:
                spans = list(pieces_of(string, treebank=False, clitics=self._clitics))
            opens = (self._tokenizer.id_to_token(ids[0]) or "").startswith(self._marker)
            n_tokens = self._n_tokens(ids, string, spans)
            words = [
                NewWord(string[start:end], string[start - 1].isspace() if i else opens, n_tokens[i])
                for i, (start, end) in enumerate(spans)
            ]
        if natural and not self._clitics:
            for i, word in enumerate(words):
                if _lost_apostrophe(previous, word.form):
                    words[i] = replace(word, form="'" + word.form)
                previous = word.form
        return words

    def _n_tokens(self, ids: Sequence[int], string: str, words: Sequence[Span]) -> Counter[int]:
        """How many tokens each word of a string begins with, or goes on with; by its index."""
        ends = [end for _, end in words]
        of_word: Counter[int] = Counter()
        for k in range(len(ids)):
            start = len(self._tokenizer.decode(list(ids[:k]), skip_special_tokens=False)) if k else 0
            while start < len(string) and string[start].isspace():
                start += 1
            of_word[min(bisect_right(ends, start), len(words) - 1)] += 1
        return of_word


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
    return key_of(encoded.text, word.start, word.end) if first <= word.first and word.last <= last else ""


def _mend_negations(left: str, was_negated: bool, words: Sequence[NewWord], right: str) -> tuple[str, list[NewWord]]:
    """Write "ca n't" for "can n't", and "can" where the word to the left is a "ca" that lost its "n't"."""
    following = [*(word.form for word in words), right]
    if following[0] == "n't":
        left = _NEGATED_STEMS.get(left, left)
    elif was_negated:
        left = _FULL_STEMS.get(left, left)
    return left, [
        replace(word, form=_NEGATED_STEMS.get(word.form, word.form)) if after == "n't" else word
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
