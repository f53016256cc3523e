"""Algorithm 1: post-editing a text into another style, over token ids.

What is likely in the source style but unlikely in the target style, by the ratio f of two insertion probabilities, is
taken out, and what the target style would put there is put in. Again and again, until nothing stands out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from xl_editor.engine import DECIMALS, Context, Decoding, Ids, Insertion, Scored
from xl_editor.operations.questions import Plan, Progress, ToClassify, ToDecode, ToPredict, ToScore

Span = tuple[int, int]  # tokens [first, last)

SURE = 0.9  # p(source | x) above which the paper forces an insertion


@dataclass(frozen=True)
class PaperRules:
    """What the paper leaves open. A model's config.json keeps its own under editor.presets."""

    max_span: int = 2  # the paper's L: a span has at most L + 1 units
    threshold: float = 2.0  # log v_thres: what log f must reach for an edit
    forced_insertion: bool = True  # at the start, while nothing reaches the threshold and the source style is sure
    max_steps: int = 10  # the paper's loop has no bound: this, and a text that was there before, end ours
    max_length: int = 16  # tokens of what is put in


@dataclass(frozen=True)
class SpecialTokens:
    """Tokens that are not like words."""

    end: int  # of an insertion
    not_text: Ids = ()  # never put in
    number: int | None = None  # stands for any number: nobody could say which, so it is put in only where one was
    closing: frozenset[int] = frozenset()  # ends a sentence: nothing is put in after it
    opening: frozenset[int] = frozenset()  # begins a word; if there are none, every token does

    def glues(self, filling: Ids, ids: Ids, start: int) -> bool:
        """Whether a filling would go on with the word before it, where that had ended."""
        had_ended = start == len(ids) or ids[start] in self.opening
        return bool(self.opening and filling) and had_ended and filling[0] not in self.opening

    def numbers_too_many(self, filling: Ids, standing: Ids) -> bool:
        """Whether nobody could say which number a placeholder stands for."""
        return self.number is not None and filling.count(self.number) > standing.count(self.number)


@dataclass(frozen=True)
class Step:
    """One edit: tokens [start, end) of the text before it became `inserted`."""

    start: int
    end: int
    inserted: Ids
    log_f: float | None  # None for a forced insertion, which no f asked for
    logprob: float  # of what was inserted, under the target style
    style_before: dict[str, float]
    style_after: dict[str, float]


@dataclass(frozen=True)
class Revision:
    """What became of a text; while it is being revised, what has become of it so far."""

    ids: Ids
    steps: tuple[Step, ...]
    stopped: str  # why it went no further; empty while it goes on


@dataclass
class TextInProgress:
    ids: Ids
    source: str
    kept: frozenset[int]  # tokens that are never edited
    styles: dict[str, float]  # p(style | ids)
    seen: set[Ids]
    steps: list[Step] = field(default_factory=list)
    stopped: str = ""

    @classmethod
    def begin(cls, ids: Ids, source: str, kept: frozenset[int]) -> Plan[TextInProgress]:
        (styles,) = yield ToClassify([ids])
        return cls(ids, source, kept, styles, {ids})

    @property
    def revision(self) -> Revision:
        return Revision(self.ids, tuple(self.steps), self.stopped)

    def may_edit(self, span: Span) -> bool:
        """Not what is kept, and nothing is put in between two tokens that both are."""
        start, end = span
        return self.kept.isdisjoint(range(start, end)) if start < end else not self.kept >= {start - 1, start}

    def edit(self, span: Span, filling: Scored, log_f: float | None, styles: dict[str, float]) -> None:
        """Put the filling in place of the span; a text that was there before ends the work."""
        start, end = span
        after = self.ids[:start] + filling.ids + self.ids[end:]
        if after in self.seen:
            self.stopped = "the text repeats"
            return
        self.steps.append(Step(start, end, filling.ids, log_f, filling.logprob, self.styles, styles))
        shift = len(filling.ids) - (end - start)
        self.kept = frozenset(token if token < end else token + shift for token in self.kept)
        self.ids, self.styles = after, styles
        self.seen.add(after)
        if not after:
            self.stopped = "nothing is left"


@dataclass(frozen=True)
class SpanScore:
    """How likely what stands in a span is under the source style, and how much likelier than under the target style."""

    logprob: float
    log_f: float


def score_spans(text: TextInProgress, spans: Sequence[Span], target: str) -> Plan[list[SpanScore]]:
    """The paper's log f of each span of a text: log q(span | its context, source) − log q(span | …, target)."""
    scores = yield ToScore(
        [
            Insertion(Context.around(text.ids, *span, style), text.ids[slice(*span)])
            for span in spans
            for style in (text.source, target)
        ]
    )
    logprobs = [scored.logprob for scored in scores]
    return [
        SpanScore(source, round(source - other, DECIMALS))
        for source, other in zip(logprobs[::2], logprobs[1::2], strict=True)
    ]


def algorithm_1(
    ids: Ids, source: str, target: str, rules: PaperRules, special: SpecialTokens, kept: frozenset[int] = frozenset()
) -> Plan[Revision]:
    """Revise a text by the paper's rules; the revision so far is told after every step, and in the end.

    Tokens in `kept` are never edited.
    """
    text = yield from TextInProgress.begin(ids, source, kept)
    while not text.stopped:
        chosen = yield from _choose(text, target, rules)
        if chosen is not None:
            span, log_f = chosen
            filling = yield from _fill(text, span, target, rules, special)
            start, end = span
            (styles,) = yield ToClassify([text.ids[:start] + filling.ids + text.ids[end:]])
            text.edit(span, filling, log_f, styles)
        yield Progress(text.revision)
    return text.revision


def candidates(n_tokens: int, max_span: int) -> Iterator[Span]:
    """The paper's C = {(a, b) : 1 ≤ a ≤ |x|+1, 1 ≤ b ≤ |x|, −1 ≤ b − a ≤ L}, as half-open spans, in its order.

    (a, a − 1) is an insertion before token a; b ≥ 1 leaves out the one before the first.
    """
    for a in range(1, n_tokens + 2):
        for b in range(max(1, a - 1), min(n_tokens, a + max_span) + 1):
            yield a - 1, b


def _choose(text: TextInProgress, target: str, rules: PaperRules) -> Plan[tuple[Span, float | None] | None]:
    """The span to edit and its log f; if there is nothing to edit, the text is told to stop."""
    if len(text.steps) >= rules.max_steps:
        text.stopped = f"the limit of {rules.max_steps} steps"
        return None
    spans = list(filter(text.may_edit, candidates(len(text.ids), rules.max_span)))
    scores = yield from score_spans(text, spans, target)
    best = max(range(len(spans)), key=lambda i: (scores[i].log_f, -i), default=None)
    if best is not None and scores[best].log_f >= rules.threshold:
        return spans[best], scores[best].log_f
    if rules.forced_insertion and text.styles[text.source] > SURE:
        return (0, 0), None
    text.stopped = "nothing reaches the threshold"
    return None


def _fill(text: TextInProgress, span: Span, target: str, rules: PaperRules, special: SpecialTokens) -> Plan[Scored]:
    """Greedy decoding with biased sampling: y_1 = argmax q̂(y | target) − q̂(y | source); an insertion is not empty."""
    context = Context.around(text.ids, *span, target)
    by_target, by_source = yield ToPredict([context, replace(context, style=text.source)])
    gain = np.exp(by_target, dtype=np.float64) - np.exp(by_source, dtype=np.float64)
    gain[list(special.not_text)] = -np.inf
    if span[0] == span[1]:
        gain[special.end] = -np.inf
    # The highest gain; of those that come within 1e-4 of it, relatively, the lowest token. Gains are often far below
    # 1e-4, all of them, so they are not rounded; what is left of a tie is what the making of a batch can change.
    most = gain.max()
    first = int(np.argmax(gain >= most - abs(most) * 10.0**-DECIMALS))
    filling: Scored
    ((filling,),) = yield ToDecode([context], Decoding(first=(first,), max_length=rules.max_length))
    return filling
