"""`Editor`: text in, edits out.

The rooms below know token ids (`operations`) or text (`text`); here they meet. An editor is safe to use from several
threads: it keeps no state between calls, and a lock lets one of them at a time compute.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import torch

from xl_editor import operations
from xl_editor.context import ContextFormat
from xl_editor.edits import Deletion, Edit, Filling, Score, Slot
from xl_editor.engine import Context, Decoding, Engine, Insertion
from xl_editor.model import ModelError, XLEditorModel, find_directory
from xl_editor.sentences import split_sentences
from xl_editor.text import BLANK, Codec, EncodedText, TextFormat, split_blanks

BUNDLED = Path(__file__).parent / "models"
TOKENIZER_FILE = "tokenizer.json"
MAX_TOKENS = 512  # of a text
MAX_SPAN_WORDS = 4  # of what `delete(unit="span")` considers
SHOWN_CHARACTERS = 30  # of the text on either side of a slot

Unit = Literal["word", "span", "sentence"]


class EditorError(ValueError):
    """A request that cannot be met, in one sentence that names the argument and what would be accepted."""


class Editor:
    """Estimates q(y | left ↓ right), and edits text by it."""

    def __init__(self, model: XLEditorModel, codec: Codec) -> None:
        self.model = model
        self.codec = codec
        self.engine = Engine(model, ContextFormat.from_config(model.config.editor))
        self._lock = threading.Lock()

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int | None = None,
    ) -> Editor:
        """Load a bundled model by its name, a model directory, or a model of the hub.

        Args:
            name: such as "yelp", "path/to/model" or "someone/model".
            device: as torch names it.
            dtype: to compute in; weights may be stored in half precision.
            threads: how many torch may use in this process; left as it is by default.

        """
        if threads is not None:
            torch.set_num_threads(threads)
        directory = find_model(name)
        model = XLEditorModel.from_pretrained(directory, dtype).to(device)
        if not (directory / TOKENIZER_FILE).is_file():
            raise ModelError(f"{directory} holds no {TOKENIZER_FILE}.")
        format = TextFormat.from_dict(model.config.editor.get("text", {}))
        return cls(model, Codec.from_file(directory / TOKENIZER_FILE, format))

    def save_pretrained(self, directory: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write a directory that `from_pretrained` loads, in half precision if `dtype` says so."""
        self.model.save_pretrained(directory, dtype)
        self.codec.save(Path(directory) / TOKENIZER_FILE)

    @property
    def styles(self) -> tuple[str, ...]:
        return tuple(self.engine.format.styles)

    def score(self, left: str, inserted: str, right: str, style: str | None = None) -> Score:
        """q(inserted | left ↓ right): the probability of inserting exactly this, END included."""
        self._check_style(style)
        before = _joined(left, inserted)
        text = _joined(before, right)
        start, end = len(before) - len(inserted), len(before)
        encoded = self._encode(text, "left, inserted and right together", may_be_empty=True)
        first, last = encoded.covering(start, end)
        with self._lock:
            context = Context.around(encoded.ids, first, last, style)
            (scored,) = self.engine.score([Insertion(context, encoded.ids[first:last])])
        tokens = (*map(self.codec.token, scored.ids), "<end>")
        return Score(scored.logprob, scored.token_logprobs, tokens, scored.perplexity)

    def locate(self, text: str, top: int = 5, style: str | None = None) -> list[Slot]:
        """The places between words that most seem to lack something, the first most of all."""
        self._check_style(style)
        _check_at_least("top", top, 1)
        encoded = self._encode(text)
        gaps = [word.first for word in encoded.words] + [len(encoded.ids)]
        with self._lock:
            found = operations.locate(self.engine, encoded.ids, gaps, style)
        slots = []
        for gap, logprob in found[:top]:
            char = encoded.slot(gap)
            before, after = text[max(0, char - SHOWN_CHARACTERS) : char], text[char : char + SHOWN_CHARACTERS]
            slots.append(Slot(char, logprob, before, after))
        return slots

    def infill(
        self,
        text: str,
        n: int = 5,
        *,
        style: str | None = None,
        beam: int | None = None,
        max_length: int = 24,
        sample: bool = False,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> list[Filling]:
        """Fill the blanks, written [_], of a text; the best fillings first. `\\[_]` is no blank."""
        self._check_style(style)
        pieces = split_blanks(text)
        if len(pieces) < 2:
            raise EditorError(f"text must contain a blank, written {BLANK}.")
        whole, gaps = "", []
        for index, piece in enumerate(pieces):
            if index:
                # A blank takes its own white space with it; what remains is written as if it had never been there.
                whole = _joined(whole.rstrip(" "), piece.lstrip(" "))
                gaps.append(len(whole) - len(piece.lstrip(" ")))
            else:
                whole = piece
        encoded = self._encode(whole, may_be_empty=True)
        slots = [encoded.slot_at(gap) for gap in gaps]
        bounds = [0, *slots, len(encoded.ids)]
        parts = [encoded.ids[a:b] for a, b in pairwise(bounds)]
        decoding = _decoding(n, beam, max_length, sample, top_k, top_p, seed)
        with self._lock:
            chains = operations.infill(self.engine, parts, decoding, style)
        fillings = []
        for chain in chains:
            edits = [(slot, slot, ids) for slot, ids in zip(slots, chain.inserted, strict=True)]
            applied = self.codec.apply(encoded, edits)
            spans = tuple(change.inserted for change in applied.changes)
            inserted = tuple(applied.text[a:b] for a, b in spans)
            fillings.append(Filling(applied.text, inserted, spans, chain.logprob))
        return fillings

    def replace(
        self,
        text: str,
        span: tuple[int, int] | str,
        n: int = 5,
        *,
        style: str | None = None,
        beam: int | None = None,
        max_length: int = 24,
        sample: bool = False,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> list[Edit]:
        """What could stand in place of a span (character offsets, or words of the text), with its odds."""
        self._check_style(style)
        encoded = self._encode(text)
        first, last = encoded.covering(*_find_span(text, span))
        if first == last:
            raise EditorError(f"span must cover at least one word of the text, got {span!r}.")
        decoding = _decoding(n, beam, max_length, sample, top_k, top_p, seed)
        with self._lock:
            found = operations.replacements(self.engine, encoded.ids, (first, last), decoding, style)
        return [
            self._edit(encoded, first, last, a.inserted.ids, log_odds=a.log_odds, logprob=a.inserted.logprob)
            for a in found
        ]

    def delete(
        self, text: str, unit: Unit = "sentence", top: int = 1, *, style: str | None = None, rank: bool = False
    ) -> list[Deletion]:
        """The words, spans of words or sentences that fit least, by their perplexity ratio.

        With `rank`, they are ordered by the perplexity of the text without them ("+ rank" in the paper).
        """
        self._check_style(style)
        _check_at_least("top", top, 1)
        encoded = self._encode(text)
        spans = _spans(encoded, unit)
        with self._lock:
            found = operations.omissions(self.engine, encoded.ids, spans, style, rank=rank)
        deletions = []
        for omission in found[:top]:
            applied = self.codec.apply(encoded, [(*omission.span, ())])
            start, end = applied.changes[0].removed
            deletions.append(
                Deletion(
                    start,
                    end,
                    text[start:end],
                    applied.text,
                    omission.log_odds,
                    omission.perplexity_ratio,
                    omission.perplexity_without,
                )
            )
        return deletions

    def classify(self, text: str) -> dict[str, float]:
        """p(style | text) for each style of the model."""
        if not self.styles:
            raise EditorError("This model has no styles: it cannot classify.")
        encoded = self._encode(text)
        with self._lock:
            return self.engine.classify([encoded.ids])[0]

    def _encode(self, text: str, argument: str = "text", *, may_be_empty: bool = False) -> EncodedText:
        # A token is at least a character but for a few oddities: refuse what is far too long before reading it.
        if len(text) > 64 * MAX_TOKENS:
            raise EditorError(f"{argument} has {len(text):,} characters; at most {MAX_TOKENS} tokens are accepted.")
        encoded = self.codec.encode(text)
        if not encoded.ids and not may_be_empty:
            raise EditorError(f"{argument} must not be empty.")
        if len(encoded.ids) > MAX_TOKENS:
            raise EditorError(f"{argument} has {len(encoded.ids):,} tokens; at most {MAX_TOKENS} are accepted.")
        return encoded

    def _edit(
        self, encoded: EncodedText, first: int, last: int, ids: Sequence[int], *, log_odds: float, logprob: float
    ) -> Edit:
        applied = self.codec.apply(encoded, [(first, last, ids)])
        (start, end), span = applied.changes[0].removed, applied.changes[0].inserted
        return Edit(
            operation="delete" if not ids else "insert" if first == last else "replace",
            start=start,
            end=end,
            removed=encoded.text[start:end],
            inserted=applied.text[span[0] : span[1]],
            text=applied.text,
            span=span,
            log_odds=log_odds,
            logprob=logprob,
        )

    def _check_style(self, style: str | None) -> None:
        try:
            self.engine.format.right_end(style)
        except ValueError as error:
            raise EditorError(str(error)) from None


def bundled_models() -> dict[str, Path]:
    """The models that came with the package, by name."""
    return {path.parent.name: path.parent for path in sorted(BUNDLED.glob("*/config.json"))}


def find_model(name: str | Path) -> Path:
    """A bundled model, a directory or a model of the hub."""
    bundled = bundled_models()
    if str(name) in bundled:
        return bundled[str(name)]
    try:
        return find_directory(name)
    except ModelError as error:
        known = f" Bundled models: {', '.join(bundled)}." if bundled else ""
        raise ModelError(f"{error}{known}") from None


def _joined(left: str, right: str) -> str:
    """Two pieces of text that belong side by side, with a space between them where one is wanted."""
    if not left or not right or left[-1].isspace() or right[0].isspace():
        return left + right
    attached = right[0] in ",.;:!?)]}%'’" or left[-1] in "([{$" or right.startswith("n't")
    return left + right if attached else f"{left} {right}"


def _find_span(text: str, span: tuple[int, int] | str) -> tuple[int, int]:
    if isinstance(span, str):
        start = text.find(span)
        if not span or start < 0:
            raise EditorError(f"span must be part of the text, got {span!r}.")
        return start, start + len(span)
    start, end = span
    if not 0 <= start <= end <= len(text):
        raise EditorError(f"span must lie within 0..{len(text)}, got {span!r}.")
    return start, end


def _spans(encoded: EncodedText, unit: Unit) -> list[tuple[int, int]]:
    """Tokens of all units of a text."""
    words = encoded.words
    if unit == "word":
        return [(word.first, word.last) for word in words]
    if unit == "span":
        sizes = range(1, MAX_SPAN_WORDS + 1)
        return [(words[i].first, words[i + n - 1].last) for n in sizes for i in range(len(words) - n + 1)]
    if unit == "sentence":
        return [encoded.covering(start, end) for start, end in split_sentences(encoded.text)]
    raise EditorError(f"unit must be word, span or sentence, got {unit!r}.")


def _decoding(n: int, beam: int | None, max_length: int, sample: bool, top_k: int, top_p: float, seed: int) -> Decoding:
    _check_at_least("n", n, 1)
    width = max(n, 5) if beam is None else beam
    try:
        return Decoding(n_best=n, beam=width, max_length=max_length, sample=sample, top_k=top_k, top_p=top_p, seed=seed)
    except ValueError as error:
        raise EditorError(str(error)) from None


def _check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise EditorError(f"{name} must be at least {least}, got {value}.")
