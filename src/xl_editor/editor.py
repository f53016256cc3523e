"""`Editor`: text in, edits out.

The rooms below know token ids (`operations`) or text (`text`); here they meet. An editor is safe to use from several
threads: it keeps no state between calls, and a lock lets one of them at a time compute.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, get_args

import torch
from rich.console import Console
from rich.progress import track

from xl_editor import operations
from xl_editor.context import ContextFormat
from xl_editor.edits import (
    Correction,
    CorrectionEdit,
    Deletion,
    Edit,
    Filling,
    Operation,
    OtherCorrection,
    Score,
    Slot,
    Trace,
)
from xl_editor.engine import MAX_LENGTH, Context, Decoding, Engine, Ids, Insertion
from xl_editor.errors import EditorError, ModelError, RequestError, TextError
from xl_editor.int8 import Int8Linear, quantise
from xl_editor.model import CONFIG_FILE, XLEditorModel
from xl_editor.models import find_model
from xl_editor.operations.search import SearchRules, smallest_edits
from xl_editor.operations.transfer import PaperRules, Revision, SpecialTokens, algorithm_1
from xl_editor.sentences import begins_sentence, list_marker
from xl_editor.text import (
    BLANK,
    TOKENIZER_FILE,
    Codec,
    EncodedText,
    Span,
    TextFormat,
    joined,
    split_blanks,
    without_blank,
    would_fuse,
)
from xl_editor.text.slots import is_protected, slot_edit
from xl_editor.traces import Sentences, TraceWriter
from xl_editor.windows import Windows, correction_windows, sentence_spans

MAX_TOKENS = 512  # of a text that is asked about as a whole, and of what is filled or replaced and its context
MAX_SPAN_WORDS = 4  # of what `delete(unit="span")` considers
MAX_ANSWERS = 100  # of `infill` and `replace`: the search for n takes time that grows with n²
FIRST_BEAM = 40  # hypotheses at the beginning of a search: the likeliest word need not begin the likeliest filling
SHOWN_CHARACTERS = 30  # of the text on either side of a slot

TEXTS_AT_ONCE = 256  # that advance together in a transfer
PRESETS = ("default", "paper")

Unit = Literal["token", "word", "span", "sentence"]
Backend = Literal["torch", "int8"]


P = ParamSpec("P")
Result = TypeVar("Result")


def planned(
    plan: Callable[Concatenate[Editor, P], operations.Plan[Result]],
) -> Callable[Concatenate[Editor, P], Result]:
    """A method that is written as a plan: called, it is carried out at once; `answer_all` carries out many together."""

    @wraps(plan)
    def carried_out(self: Editor, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        (result,) = self._carry_out([plan(self, *args, **kwargs)])
        if isinstance(result, RequestError):
            raise result
        return result

    return carried_out


@dataclass(frozen=True)
class Call:
    """A call of a method of `Editor` that answers about a text, to be answered with others."""

    method: str
    arguments: Mapping[str, Any]


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
        backend: Backend = "torch",
    ) -> Editor:
        """Load a bundled model by its name, a model directory, or a model of the hub.

        Args:
            name: such as "yelp", "path/to/model" or "someone/model".
            device: as torch names it.
            dtype: to compute in; weights may be stored in half precision.
            threads: how many torch may use in this process; left as it is by default.
            backend: "int8" computes with integers, on a CPU: faster, and nearly the same (see docs/benchmarks.md).

        """
        if backend not in get_args(Backend):
            raise EditorError(f"backend must be one of {', '.join(get_args(Backend))}, got {backend!r}.", "backend")
        if threads is not None:
            _check_within("threads", threads, 1)
            torch.set_num_threads(threads)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise EditorError(f"dtype must be one of torch's floating-point types, got {dtype!r}.", "dtype")
        directory = find_model(name)
        model = XLEditorModel.from_pretrained(directory, dtype)
        try:
            model = model.to(device)
        except (RuntimeError, AssertionError) as error:  # torch has no narrower one
            raise EditorError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}", "device") from None
        if backend == "int8":
            model = quantise(model)
        if not (directory / TOKENIZER_FILE).is_file():
            raise ModelError(f"{directory} holds no {TOKENIZER_FILE}.")
        objective = model.config.editor.get("objective", "xl-editor")
        if objective != "xl-editor":
            raise ModelError(
                f"{directory} is a baseline ({objective}): it is there to be evaluated, and edits no text."
            )
        try:
            format = TextFormat.from_dict(model.config.editor.get("text", {}))
            editor = cls(model, Codec.from_file(directory / TOKENIZER_FILE, format))
            for preset in PRESETS:
                editor.rules(preset)
        except (AttributeError, TypeError) as error:  # a setting that is unknown, is missing, or is no such thing
            raise ModelError(f"{directory / CONFIG_FILE} has an editor's settings that do not fit: {error}.") from None
        return editor

    def save_pretrained(self, directory: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write a directory that `from_pretrained` loads, in half precision if `dtype` says so."""
        if isinstance(self.model.lm_loss, Int8Linear):
            raise EditorError("An editor with backend int8 no longer has the weights to save; load it without.")
        self.model.save_pretrained(directory, dtype)
        self.codec.save(Path(directory) / TOKENIZER_FILE)

    @property
    def styles(self) -> tuple[str, ...]:
        return tuple(self.engine.format.styles)

    @property
    def can_correct(self) -> bool:
        """Whether the model has learnt to."""
        return self.engine.format.correct is not None

    def check(self, text: str) -> None:
        """Raise `EditorError` for a text that cannot be transferred: an empty one, or one that is too long."""
        self._encode_short(text)

    @planned
    def score(self, left: str, inserted: str, right: str, style: str | None = None) -> operations.Plan[Score]:
        """q(inserted | left ↓ right): the probability of inserting exactly this, END included.

        Spaces between the three are put in where they are wanted. Of a longer text, `infill`, `replace` and this see
        the sentences around the place, about 512 tokens.
        """
        left, inserted, right = map(_checked_text, (left, inserted, right), ("left", "inserted", "right"))
        before = joined(left, inserted)
        span = len(before) - len(inserted), len(before)
        return (yield from self._score(joined(before, right), span, style, "inserted"))

    @planned
    def score_at(self, text: str, span: tuple[int, int] | str, style: str | None = None) -> operations.Plan[Score]:
        """`score` of what stands in a span of a text (character offsets, or words of it)."""
        return (yield from self._score(text, _find_span(_checked_text(text), span), style, "span"))

    def _score(self, text: str, span: tuple[int, int], style: str | None, argument: str) -> operations.Plan[Score]:
        self._check_style(style)
        encoded = self._encode(text, may_be_empty=True, cuts=span)
        first, last = encoded.covering(*span)
        covered = [(start, end) for start, end in encoded.spans[first:last] if start < end]
        if covered and (covered[0][0] < span[0] or covered[-1][1] > span[1]):
            words = text[covered[0][0] : covered[-1][1]]
            raise TextError(f"{argument} must be whole words; it is a part of {words!r}.", argument)
        low, high = _nearby(encoded, first, last, argument)
        context = Context((encoded.ids[low:first], encoded.ids[last:high]), style)
        (scored,) = yield operations.ToScore([Insertion(context, encoded.ids[first:last])])
        tokens = (*map(self.codec.token, scored.ids), "<end>")
        return Score(scored.logprob, scored.token_logprobs, tokens, scored.perplexity)

    @planned
    def locate(
        self, text: str, top: int = 5, style: str | None = None, *, progress: bool = False
    ) -> operations.Plan[list[Slot]]:
        """The places between words that most seem to lack something, the first most of all.

        A text may have any length: each place is asked about among the sentences around it (see `windows`).
        """
        self._check_style(style)
        _check_within("top", top, 1)
        encoded = self._encode(text)
        gaps = [first for first, _ in self.codec.written_words(encoded)] + [len(encoded.ids)]
        window, track = Windows.of(encoded).around, _shown("locate", progress)
        found = yield from operations.locate(encoded.ids, gaps, style, window=window, track=track)
        slots = []
        for gap, logprob in found[:top]:
            char = encoded.slot(gap)
            before, after = text[max(0, char - SHOWN_CHARACTERS) : char], text[char : char + SHOWN_CHARACTERS]
            slots.append(Slot(char, logprob, before, after))
        return slots

    @planned
    def infill(
        self,
        text: str,
        n: int = 5,
        *,
        style: str | None = None,
        beam: int | None = None,
        max_length: int = MAX_LENGTH,
        sample: bool = False,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> operations.Plan[list[Filling]]:
        """Fill the blanks, written [_], of a text; the best fillings first. `\\[_]` is no blank.

        A blank asks for something, so nothing is no answer; and after a space, a filling begins with a word of its own.
        """
        self._check_style(style)
        decoding = _decoding(n, beam, max_length, sample, top_k, top_p, seed)
        pieces = split_blanks(_checked_text(text))
        if len(pieces) < 2:
            raise TextError(f"text must contain a blank, written {BLANK}.", "text")
        whole, gaps = pieces[0], []
        for piece in pieces[1:]:
            whole, gap = without_blank(whole, piece)
            gaps.append(gap)
        encoded = self._encode(whole, may_be_empty=True, cuts=gaps)
        is_torn = any(word.start < gap < word.end for gap in gaps for word in encoded.words)
        if is_torn or any(would_fuse(left, right) for left, right in pairwise(pieces)):
            raise TextError(f"text must not have a blank within a word; write spaces beside {BLANK}.", "text")
        slots = [encoded.slot_at(gap) for gap in gaps]
        low, high = _nearby(encoded, slots[0], slots[-1], "text between its blanks")
        parts = [encoded.ids[a:b] for a, b in pairwise([low, *slots, high])]
        # After a space begins a word; a blank that is glued to what stands before it may go on with that.
        firsts = [() if piece[-1:].strip() else self.codec.opening_ids for piece in pieces[:-1]]
        decoding = replace(decoding, min_length=1, without=self._placeholders)
        chains = yield from operations.infill(parts, decoding, style, firsts)
        fillings = []
        for chain in chains:
            edits = [(slot, slot, ids) for slot, ids in zip(slots, chain.inserted, strict=True)]
            applied = self.codec.apply(encoded, edits)
            filled, spans = _as_spaced(applied.text, [change.inserted for change in applied.changes], pieces)
            fillings.append(Filling(filled, tuple(filled[a:b] for a, b in spans), spans, chain.logprob))
        return fillings

    @planned
    def replace(
        self,
        text: str,
        span: tuple[int, int] | str,
        n: int = 5,
        *,
        style: str | None = None,
        beam: int | None = None,
        max_length: int = MAX_LENGTH,
        sample: bool = False,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> operations.Plan[list[Edit]]:
        """What could stand in place of a span (character offsets, or words of the text), with its odds.

        A part of a word stands for the word; and what replaces a word does not go on with the one before it.
        """
        self._check_style(style)
        decoding = _decoding(n, beam, max_length, sample, top_k, top_p, seed)
        found_span = _find_span(_checked_text(text), span)
        encoded = self._encode(text, cuts=found_span)
        first, last = encoded.covering(*found_span)
        if first == last or found_span[0] == found_span[1]:
            raise TextError(f"span must cover at least one word of the text, got {span!r}.", "span")
        if encoded.ids[first] in self.special_tokens.opening:
            decoding = replace(decoding, first=self.codec.opening_ids)

        standing = encoded.ids[first:last]
        if self.codec.number_id in standing:  # which can be written again, but not twice: some answers will be dropped
            decoding = replace(decoding, n_best=3 * n, beam=max(decoding.beam, 3 * n))
        else:
            decoding = replace(decoding, without=self._placeholders)
        low, high = _nearby(encoded, first, last, "span")
        found = yield from operations.replacements(encoded.ids[low:high], (first - low, last - low), decoding, style)
        legible = [a for a in found if not self.special_tokens.numbers_too_many(a.inserted.ids, standing)]
        edits = []
        for alternative in legible[:n]:
            y = alternative.inserted
            applied = self.codec.apply(encoded, [(first, last, y.ids)])
            change = applied.changes[0]
            edits.append(
                Edit.between(
                    text,
                    applied.text,
                    change.removed,
                    change.inserted,
                    log_odds=alternative.log_odds,
                    logprob=y.logprob,
                )
            )
        return edits

    @planned
    def delete(
        self,
        text: str,
        unit: Unit = "sentence",
        top: int = 1,
        *,
        span: tuple[int, int] | str | None = None,
        style: str | None = None,
        by: operations.Measure | None = None,
        progress: bool = False,
    ) -> operations.Plan[list[Deletion]]:
        """The tokens (of the model), words, spans of words or sentences that fit least; or the span that is given.

        By default sentences are sorted `by` "information", what they and the rest tell about each other, and words and
        spans by the paper's "ratio" of perplexities; "rank" is the paper's other way, by the perplexity of the text
        without them. A text may have any length: each unit is asked about among the sentences around it (see
        `windows`). A sentence longer than a window comes in parts.
        """
        self._check_style(style)
        _check_within("top", top, 1)
        given = None if span is None else _find_span(_checked_text(text), span)
        encoded = self._encode(text, cuts=given or ())
        spans = _spans(encoded, unit, self.codec) if given is None else [encoded.covering(*given)]
        if given is not None and spans[0][0] == spans[0][1]:
            raise TextError(f"span must cover at least one word of the text, got {span!r}.", "span")
        by_information = unit == "sentence" and given is None
        measure: operations.Measure = by or ("information" if by_information else "ratio")
        if measure not in get_args(operations.Measure):
            raise EditorError(f"by must be {' or '.join(get_args(operations.Measure))}, got {by!r}.", "by")
        window, track = Windows.of(encoded).around, _shown("delete", progress)
        found = yield from operations.omissions(encoded.ids, spans, style, by=measure, window=window, track=track)
        deletions = []
        for omission in found[:top]:
            first, last = omission.span
            # What is asked about, though more may change: without its "n't", "can't" is "can".
            start, end = encoded.spans[first][0], encoded.spans[last - 1][1]
            applied = self.codec.apply(encoded, [(first, last, ())])
            deletions.append(
                Deletion(
                    start,
                    end,
                    text[start:end],
                    applied.text,
                    omission.log_odds,
                    omission.perplexity_ratio,
                    omission.perplexity_without,
                    omission.information,
                )
            )
        return deletions

    @planned
    def transfer(
        self,
        text: str,
        to: str,
        source: str | None = None,
        preset: str = "default",
        max_steps: int | None = None,
        threshold: float | None = None,
        keep: Sequence[str] = (),
    ) -> operations.Plan[Trace]:
        """Revise a text into another style, step by step.

        The preset `paper` is Algorithm 1, for which a text is one sequence; `default` goes sentence by sentence.

        Args:
            text: the user's, or another system's output.
            to: the target style.
            source: the source style; by default the most probable one other than the target, for each sentence.
            preset: "paper" (the published method, token by token) or "default" (the smallest edit that convinces).
            max_steps: of each sentence; the preset's by default.
            threshold: what log f must reach for words to be taken out or replaced (and, with "paper", for an
                insertion); the preset's by default.
            keep: words or phrases that are never edited, in any case.
        """
        rules = self._transfer_rules(to, source, preset, max_steps, threshold)
        # The published method knows no sentences: a text is one sequence.
        sentences = Sentences(self.codec, self._encode_short(text), split=preset != "paper")
        kept = _kept_tokens(sentences, keep)
        plan = self._transfer(sentences, kept, to, source, rules)
        return (yield from operations.remembering(plan, operations.Memory()))

    def _transfer(
        self,
        sentences: Sentences,
        kept: Sequence[frozenset[int]],
        to: str,
        source: str | None,
        rules: SearchRules | PaperRules,
    ) -> operations.Plan[Trace]:
        """All sentences together; every edit is told once those before it in the text are."""
        whole, writer = sentences.whole, TraceWriter(sentences)
        found = yield operations.ToClassify([encoded.ids for encoded in sentences.encoded])
        plans = [
            self._revise(encoded.ids, source or _likeliest(styles, other_than=to), to, rules, kept_tokens)
            for encoded, styles, kept_tokens in zip(sentences.encoded, found, kept, strict=True)
        ]
        revisions = yield from operations.together(plans, writer.follow)
        edited = self.codec.encode(writer.text, whole.tokenised).ids if writer.edits else whole.ids
        before, after = yield operations.ToClassify([whole.ids, edited])
        stopped = "; ".join(dict.fromkeys(revision.stopped for revision in revisions))
        return Trace(whole.text, writer.text, tuple(writer.edits), stopped, before, after)

    def _revise(
        self, ids: Ids, source: str, to: str, rules: SearchRules | PaperRules, kept: frozenset[int]
    ) -> operations.Plan[Revision]:
        if isinstance(rules, PaperRules):
            return algorithm_1(ids, source, to, rules, self.special_tokens, kept)
        return smallest_edits(ids, source, to, rules, self.codec.units, self.special_tokens, kept)

    def transfer_all(
        self,
        texts: Sequence[str],
        to: str,
        source: str | None = None,
        preset: str = "default",
        max_steps: int | None = None,
        threshold: float | None = None,
        keep: Sequence[str] = (),
        progress: bool = False,
    ) -> list[Trace]:
        """`transfer` for many texts, which advance together; the results are the same as one by one."""
        if isinstance(texts, str):
            raise EditorError("texts must be a list of texts; transfer takes a single one.", "texts")
        self._transfer_rules(to, source, preset, max_steps, threshold)
        texts = list(texts)
        for index, text in enumerate(texts if len(texts) > 1 else ()):  # before any work is done
            try:
                self.check(text)
            except TextError as error:
                raise TextError(f"texts[{index}]: {error}", "texts") from None
        how = {"to": to, "source": source, "preset": preset, "max_steps": max_steps, "threshold": threshold}
        calls = [Call("transfer", {"text": text, "keep": keep, **how}) for text in texts]
        return self._answer_in_portions("transfer", calls, progress)

    @planned
    def correct(
        self,
        text: str,
        *,
        threshold: float | None = None,
        n: int = 3,
        keep: Sequence[str] = (),
        max_rounds: int | None = None,
    ) -> operations.Plan[Correction]:
        """Make a text right: the corrected text, and its edits.

        A text may have any length: it is corrected a few sentences at a time.

        Args:
            text: the user's.
            threshold: what the log-odds of a correction must reach: lower is bolder. The model's by default.
            n: how many alternatives to name for each edit, at most.
            keep: words or phrases that are never changed, in any case.
            max_rounds: how often the text is looked at; the model's by default.

        """
        rules = self._correction_rules(threshold, max_rounds)
        _check_within("n", n, 0, MAX_ANSWERS)
        encoded = self._encode(text, may_be_empty=True)
        tokens = self.codec.written_words(encoded)
        spans = [(encoded.spans[first][0], encoded.spans[last - 1][1]) for first, last in tokens]
        margins = self._correction_margins(encoded, spans, keep, rules)
        windows = correction_windows(encoded, tokens)
        plans = [
            operations.correct(
                tuple(encoded.ids[a:b] for a, b in tokens[low:high]), margins[low:high], rules, self.codec.split, n
            )
            for low, high in windows
        ]
        found = yield from operations.together(plans)
        edits: list[CorrectionEdit] = []
        for (low, _), replacements in zip(windows, found, strict=True):
            for replacement in replacements:
                edit = self._correction_edit(encoded, tokens, spans, low, replacement)
                if not edits or edits[-1].end <= edit.start:  # two deletions may want the same white space
                    edits.append(edit)
        return Correction.of(text, edits)

    def correct_all(self, texts: Iterable[str], *, progress: bool = False, **how: Any) -> list[Correction]:
        """`correct` for many texts, which advance together; the results are the same as one by one."""
        if isinstance(texts, str):
            raise EditorError("texts must be a list of texts; correct takes a single one.", "texts")
        calls = [Call("correct", {"text": text, **how}) for text in texts]
        return self._answer_in_portions("correct", calls, progress)

    def _correction_rules(self, threshold: float | None, max_rounds: int | None) -> operations.CorrectionRules:
        if not self.can_correct:
            raise EditorError("This model has not learnt to correct; name one that has.")
        rules = operations.CorrectionRules(**self.model.config.editor.get("correct", {}))
        if threshold is not None:
            check_number("threshold", threshold)
            rules = replace(rules, threshold=float(threshold))
        if max_rounds is not None:
            _check_within("max_rounds", max_rounds, 1)
            rules = replace(rules, max_rounds=max_rounds)
        return rules

    def _correction_margins(
        self, encoded: EncodedText, spans: Sequence[Span], keep: Sequence[str], rules: operations.CorrectionRules
    ) -> list[float]:
        """For each word, how much surer than usual one must be to change it."""
        text = encoded.text
        kept = [span for phrase in _phrases(keep) for span in _occurrences(text, phrase, re.IGNORECASE)]
        margins = []
        for start, end in spans:
            protected = is_protected(text[start:end], begins_sentence(text[max(0, start - 64) : start]))
            is_kept = any(a < end and start < b for a, b in kept)
            margins.append(math.inf if is_kept else rules.protected_margin if protected else 0.0)
        return margins

    def _correction_edit(
        self,
        encoded: EncodedText,
        tokens: Sequence[Span],
        spans: Sequence[Span],
        low: int,
        replacement: operations.Replacement,
    ) -> CorrectionEdit:
        """A replacement in a window that begins with word `low`, as an edit of the text."""
        written, slot = self.codec.written, replacement.slot
        old = written(encoded.ids[slice(*tokens[low + slot - 1])]) if slot else ""

        def edit(option: operations.Option) -> tuple[int, int, str]:
            if not slot and low:  # before the first word of a later window is behind the last of the one before
                return spans[low][0], spans[low][0], f"{written(option.inserted).strip()} "
            return slot_edit(encoded.text, spans, low + slot, old, written(option.inserted))

        start, end, new = edit(replacement.chosen)
        kind: Operation = "insert" if start == end else "replace" if new else "delete"
        others = [
            OtherCorrection(edit(option)[2], option.log_odds, math.exp(option.logprob)) for option in replacement.others
        ]
        chosen = replacement.chosen
        return CorrectionEdit(
            kind,
            start,
            end,
            encoded.text[start:end],
            new,
            chosen.log_odds,
            math.exp(chosen.logprob),
            tuple(others),
        )

    @planned
    def classify(self, text: str) -> operations.Plan[dict[str, float]]:
        """p(style | text) for each style of the model."""
        self._check_classifier()
        (styles,) = yield operations.ToClassify([self._encode_short(text).ids])
        return styles

    def answer_all(self, calls: Sequence[Call]) -> list[Any]:
        """Answer calls together: for each what its method gives, or the error that it raises; only sooner."""
        return self._carry_out([self._plan(call) for call in calls])

    def _answer_in_portions(self, what: str, calls: Sequence[Call], progress: bool) -> list[Any]:
        """What the calls give, so many at a time; the first that is refused ends it."""
        results: list[Any] = []
        for first in _shown(what, progress)(range(0, len(calls), TEXTS_AT_ONCE)):
            for found in self.answer_all(calls[first : first + TEXTS_AT_ONCE]):
                if isinstance(found, RequestError):
                    raise found
                results.append(found)
        return results

    def begin(self, call: Call, tell: Callable[[Any], None]) -> operations.Ongoing[Any]:
        """A call that `advance` answers, round by round; `tell` hears of every edit of a transfer when it is made."""
        return operations.Ongoing(self._plan(call), tell)

    def advance(self, calls: Sequence[operations.Ongoing[Any]], before_batch: Callable[[], None]) -> None:
        """Answer what these calls ask now, all together. Raising, `before_batch` ends what is being computed."""
        with self._lock:
            operations.advance(self.engine.interruptible(before_batch), calls)

    def _plan(self, call: Call) -> operations.Plan[Any]:
        return getattr(Editor, call.method).__wrapped__(self, **call.arguments)

    def _carry_out(self, plans: Sequence[operations.Plan[Any]]) -> list[Any]:
        with self._lock:
            return operations.carry_out(self.engine, plans)

    def _encode(self, text: str, *, may_be_empty: bool = False, cuts: Sequence[int] = ()) -> EncodedText:
        encoded = self.codec.encode(_checked_text(text), cuts=cuts)
        if not encoded.ids and not may_be_empty:
            raise TextError("text must not be empty.", "text")
        longest = max((word.last - word.first for word in encoded.words), default=0)
        if longest > MAX_TOKENS:
            raise TextError(f"text has a word of {longest:,} tokens; at most {MAX_TOKENS} are accepted.", "text")
        return encoded

    def _encode_short(self, text: str) -> EncodedText:
        # Few tokens have more than 64 characters: refuse what is far too long before reading it.
        if len(_checked_text(text)) > 64 * MAX_TOKENS:
            raise TextError(f"text has {len(text):,} characters; at most {MAX_TOKENS} tokens are accepted.", "text")
        encoded = self._encode(text)
        if len(encoded.ids) > MAX_TOKENS:
            raise TextError(f"text has {len(encoded.ids):,} tokens; at most {MAX_TOKENS} are accepted.", "text")
        return encoded

    def _transfer_rules(
        self, to: str, source: str | None, preset: str, max_steps: int | None, threshold: float | None
    ) -> SearchRules | PaperRules:
        """The preset's, with the model's own settings unless others are given."""
        self._check_transfer(to, source)
        rules = self.rules(preset)
        if max_steps is not None:
            _check_within("max_steps", max_steps, 0)
            rules = replace(rules, max_steps=max_steps)
        if threshold is not None:
            check_number("threshold", threshold)
            rules = replace(rules, threshold=threshold)
        return rules

    def rules(self, preset: str) -> SearchRules | PaperRules:
        """What a preset of `transfer` means for this model."""
        if preset not in PRESETS:
            raise EditorError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}.", "preset")
        settings = self.model.config.editor.get("presets", {}).get(preset, {})
        return PaperRules(**settings) if preset == "paper" else SearchRules(**settings)

    @cached_property
    def special_tokens(self) -> SpecialTokens:
        """The tokens that a transfer treats in their own way."""
        return SpecialTokens(
            self.engine.end,
            self.engine.not_text,
            self.codec.number_id,
            self.codec.closing_ids,
            frozenset(self.codec.opening_ids),
        )

    @property
    def _placeholders(self) -> Ids:
        """Tokens that mean nothing to a reader."""
        return () if self.codec.number_id is None else (self.codec.number_id,)

    def _check_classifier(self) -> None:
        if not self.styles:
            raise EditorError("This model has no styles: it cannot classify.")
        if not self.model.config.n_labels:
            raise EditorError("This model was trained without a style classifier, which classify and transfer ask.")

    def _check_transfer(self, to: str, source: str | None) -> None:
        if len(self.styles) < 2:
            raise EditorError("This model has no styles to transfer between.")
        for argument, style in (("to", to), ("source", source)):
            if (style is not None or argument == "to") and style not in self.styles:
                raise EditorError(f"{argument} must be one of {', '.join(self.styles)}, got {style!r}.", argument)
        if to == source:
            raise EditorError(f"source must differ from the target style, got {to!r} for both.", "source")
        self._check_classifier()

    def _check_style(self, style: str | None) -> None:
        if not isinstance(style, str | None):
            raise EditorError(f"style must be one of {', '.join(self.styles)}, got {style!r}.", "style")
        try:
            self.engine.format.right_end(style)
        except ValueError as error:
            raise EditorError(str(error), "style") from None


def _likeliest(styles: Mapping[str, float], *, other_than: str) -> str:
    others = {style: p for style, p in styles.items() if style != other_than}
    return max(others, key=lambda style: others[style])


def _kept_tokens(text: Sentences, keep: Sequence[str]) -> list[frozenset[int]]:
    """Of each sentence, the tokens of every occurrence of these words, or phrases, in any case; and a list's marks."""
    spans = [span for phrase in _phrases(keep) for span in _occurrences(text.whole.text, phrase, re.IGNORECASE)]
    for start, end in text.spans if len(text.spans) > 1 else ():
        a, b = list_marker(text.whole.text[start:end])
        spans.append((start + a, start + b))
    return [
        frozenset(
            token
            for a, b in spans
            if start < b and a < end
            for token in range(*encoded.covering(max(a, start) - start, min(b, end) - start))
        )
        for (start, end), encoded in zip(text.spans, text.encoded, strict=True)
    ]


def _phrases(keep: Sequence[str]) -> Sequence[str]:
    phrases = [keep] if isinstance(keep, str) else keep
    if not isinstance(phrases, Sequence) or not all(isinstance(phrase, str) for phrase in phrases):
        raise EditorError(f"keep must be a list of words or phrases, got {keep!r}.", "keep")
    return phrases


def _occurrences(text: str, phrase: str, flags: int = 0) -> list[tuple[int, int]]:
    """Where a phrase stands in a text, not within longer words; whatever the kind of its quotes and white space."""
    words = phrase.split()
    if not words:
        return []
    pattern = r"\s+".join(re.sub("['’‘]", "['’‘]", re.sub('["“”]', '["“”]', re.escape(word))) for word in words)
    is_clitic = re.match("n['’]t\\b", words[0], flags) is not None
    before = r"(?<!\w)" if words[0][0].isalnum() and not is_clitic else ""
    after = r"(?!\w)" if words[-1][-1].isalnum() else ""
    return [found.span() for found in re.finditer(before + pattern + after, text, flags)]


def _as_spaced(text: str, spans: Sequence[tuple[int, int]], pieces: Sequence[str]) -> tuple[str, tuple[Span, ...]]:
    """With the white space that a blank had beside it, where that tells; and where the fillings are then.

    It does if there are line breaks in it, or if a blank between marks, as in quotes, had none at all.
    """
    moved, shift = [], 0
    for (start, end), (left, right) in zip(spans, pairwise(pieces), strict=True):
        start, end = start + shift, end + shift
        before, after = left[len(left.rstrip()) :], right[: len(right) - len(right.lstrip())]
        beside = left[-1:] + right[:1]
        if "\n" in before + after or (len(beside) == 2 and not any(c.isalnum() or c.isspace() for c in beside)):
            head, filling, tail = text[:start].rstrip(), text[start:end], text[end:].lstrip()
            if "\n" in after and tail[:1].lower() == right.lstrip()[:1].lower():  # a new line keeps its capital
                tail = right.lstrip()[:1] + tail[1:]
            longer = head + before + filling + after + tail
            start, shift = len(head + before), shift + len(longer) - len(text)
            end, text = start + len(filling), longer
        moved.append((start, end))
    return text, tuple(moved)


def _find_span(text: str, span: tuple[int, int] | str) -> tuple[int, int]:
    if isinstance(span, str):
        # Whole words, if there are such: "art" in "the start of art" is the last word, not part of another.
        start, end = next(iter(_occurrences(text, span)), (text.find(span), text.find(span) + len(span)))
        if not span or start < 0:
            raise TextError(f"span must be part of the text, got {span!r}.", "span")
        return start, end
    if not (isinstance(span, Collection) and len(span) == 2 and all(isinstance(offset, Integral) for offset in span)):
        raise EditorError(f"span must be a part of the text, or two character offsets, got {span!r}.", "span")
    start, end = span
    if not 0 <= start <= end <= len(text):
        raise TextError(f"span must lie within 0..{len(text)}, got {span!r}.", "span")
    return start, end


def _nearby(encoded: EncodedText, first: int, last: int, what: str) -> tuple[int, int]:
    """The tokens of a text that tokens [first, last) are seen among: all of them, unless it is long."""
    if last - first > MAX_TOKENS:
        raise TextError(f"{what} has {last - first:,} tokens; at most {MAX_TOKENS} are accepted.", what.split()[0])
    return Windows.of(encoded).around(first, last, MAX_TOKENS)


def _shown(what: str, progress: bool) -> operations.Track:
    """How to go through a long work: with a bar that shows how far it is, if that is wanted and worth it."""

    def go_through(portions: Sequence[Any]) -> Iterable[Any]:
        if not progress or len(portions) < 2:
            return portions
        return track(portions, what, console=Console(stderr=True), transient=True)

    return go_through


def _spans(encoded: EncodedText, unit: Unit, codec: Codec) -> list[tuple[int, int]]:
    """Tokens of all units of a text."""
    if unit == "token":
        return _tokens_of_characters(encoded)
    words = codec.written_words(encoded)
    if unit == "word":
        return words
    if unit == "span":
        sizes = range(1, MAX_SPAN_WORDS + 1)
        return [(words[i][0], words[i + n - 1][1]) for n in sizes for i in range(len(words) - n + 1)]
    if unit == "sentence":
        return sentence_spans(encoded)
    raise EditorError(f"unit must be one of {', '.join(get_args(Unit))}, got {unit!r}.", "unit")


def _tokens_of_characters(encoded: EncodedText) -> list[tuple[int, int]]:
    """The tokens; those that write one character together, as of an emoji, together."""
    begins_word = {word.first for word in encoded.words}
    firsts, has_character = [], True
    for token, (start, end) in enumerate(encoded.spans):
        if token in begins_word or (start < end and has_character):
            firsts.append(token)
            has_character = False
        has_character |= start < end
    return list(pairwise([*firsts, len(encoded.ids)]))


def _decoding(n: int, beam: int | None, max_length: int, sample: bool, top_k: int, top_p: float, seed: int) -> Decoding:
    _check_within("n", n, 1, MAX_ANSWERS)
    width = max(n, 5) if beam is None else beam
    if not sample:
        _check_within("beam", width, n, MAX_ANSWERS)
        drawing = {"top_k": (top_k, 0), "top_p": (top_p, 1.0), "seed": (seed, 0)}
        for name, (given, unset) in drawing.items():
            if given != unset:
                raise EditorError(f"{name} is for drawing at random, which was not asked for.", name)
    elif beam is not None:
        raise EditorError("beam is for searching, not for drawing at random.", "beam")
    for name, number, least in (("max_length", max_length, 1), ("top_k", top_k, 0), ("seed", seed, 0)):
        _check_within(name, number, least)
    check_number("top_p", top_p)
    if not 0 < top_p <= 1:
        raise EditorError(f"top_p must be above 0 and at most 1, got {top_p}.", "top_p")
    return Decoding(
        n_best=n,
        beam=width,
        first_beam=FIRST_BEAM if beam is None else 0,
        max_length=max_length,
        sample=sample,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )


def _checked_text(text: object, argument: str = "text") -> str:
    if not isinstance(text, str):
        raise EditorError(f"{argument} must be a string, got {text!r}.", argument)
    return text


def check_number(name: str, value: float) -> None:
    """Refuse what is no number, or none that can be compared."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise EditorError(f"{name} must be a number, got {value!r}.", name)


def _check_within(name: str, value: int, least: int, most: int | None = None) -> None:
    if not isinstance(value, Integral):
        raise EditorError(f"{name} must be a whole number, got {value!r}.", name)
    if value < least:
        raise EditorError(f"{name} must be at least {least}, got {value}.", name)
    if most is not None and value > most:
        raise EditorError(f"{name} must be at most {most}, got {value}.", name)
