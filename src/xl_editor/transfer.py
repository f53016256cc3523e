"""Algorithm 1: post-editing a text into another style, over token ids; many texts advance together.

What is likely in the source style but unlikely in the target style, by the ratio f of two insertion probabilities, is
taken out, and what the target style would put there is put in. Again and again, until nothing stands out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol

from torch import Tensor

from xl_editor.engine import DECIMALS, Context, Decoding, Ids, Insertion, Scored

Span = tuple[int, int]  # tokens [first, last)

SURE = 0.9  # p(source | x) above which the paper forces an insertion


class Estimator(Protocol):
    """What the algorithm asks: `Engine`, or a table in a test."""

    @property
    def end(self) -> int: ...
    @property
    def not_text(self) -> tuple[int, ...]: ...
    def score(self, insertions: Sequence[Insertion]) -> list[Scored]: ...
    def next_logprobs(self, contexts: Sequence[Context]) -> Tensor: ...
    def decode(self, contexts: Sequence[Context], decoding: Decoding) -> list[list[Scored]]: ...
    def classify(self, texts: Sequence[Ids]) -> list[dict[str, float]]: ...


@dataclass(frozen=True)
class PaperRules:
    """What the paper leaves open. A model's config.json keeps its own under editor.presets."""

    max_span: int = 2  # the paper's L: a span has at most L + 1 units
    threshold: float = 2.0  # log v_thres: what log f must reach for an edit
    forced_insertion: bool = True  # at the start, while nothing reaches the threshold and the source style is sure
    max_steps: int = 10  # the paper's loop has no bound: this, and a text that was there before, end ours
    max_length: int = 16  # tokens of what is put in


@dataclass(frozen=True)
class Task:
    """A text to transfer."""

    ids: Ids
    source: str
    kept: frozenset[int] = frozenset()  # tokens that are never edited


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
    """What became of a text."""

    ids: Ids
    steps: tuple[Step, ...]
    stopped: str


@dataclass
class TextInProgress:
    ids: Ids
    source: str
    kept: frozenset[int]
    styles: dict[str, float]  # p(style | ids)
    seen: set[Ids]
    steps: list[Step] = field(default_factory=list)
    stopped: str | None = None

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


def begin(estimator: Estimator, tasks: Sequence[Task]) -> list[TextInProgress]:
    styles = estimator.classify([task.ids for task in tasks])
    return [TextInProgress(t.ids, t.source, t.kept, found, {t.ids}) for t, found in zip(tasks, styles, strict=True)]


def finish(texts: Sequence[TextInProgress]) -> list[Revision]:
    return [Revision(text.ids, tuple(text.steps), text.stopped or "") for text in texts]


@dataclass(frozen=True)
class SpanScore:
    """How likely what stands in a span is under the source style, and how much likelier than under the target style."""

    logprob: float
    log_f: float


def score_spans(
    estimator: Estimator, texts: Sequence[TextInProgress], spans: Sequence[Sequence[Span]], target: str
) -> list[list[SpanScore]]:
    """The paper's log f of each span of each text: log q(span | its context, source) − log q(span | …, target)."""
    asked = [
        Insertion(Context.around(text.ids, *span, style), text.ids[slice(*span)])
        for text, of_text in zip(texts, spans, strict=True)
        for span in of_text
        for style in (text.source, target)
    ]
    logprobs = iter([scored.logprob for scored in estimator.score(asked)])
    pairs = zip(logprobs, logprobs, strict=True)
    return [
        [SpanScore(source, round(source - other, DECIMALS)) for source, other in islice(pairs, len(of_text))]
        for of_text in spans
    ]


def transfer(estimator: Estimator, tasks: Sequence[Task], target: str, rules: PaperRules) -> list[Revision]:
    """Algorithm 1 with the paper's rules, for many texts at once; each as if it were alone."""
    *_, revisions = transfer_rounds(estimator, tasks, target, rules)
    return revisions


def transfer_rounds(
    estimator: Estimator, tasks: Sequence[Task], target: str, rules: PaperRules
) -> Iterator[list[Revision]]:
    """`transfer`, told as it goes: what has become of the texts before each round, and in the end."""
    texts = begin(estimator, tasks)
    while active := [text for text in texts if text.stopped is None]:
        yield finish(texts)
        chosen = _choose(estimator, active, target, rules)
        _edit(estimator, chosen, target, rules)
    yield finish(texts)


def candidates(n_tokens: int, max_span: int) -> Iterator[Span]:
    """The paper's C = {(a, b) : 1 ≤ a ≤ |x|+1, 1 ≤ b ≤ |x|, −1 ≤ b − a ≤ L}, as half-open spans, in its order.

    (a, a − 1) is an insertion before token a; b ≥ 1 leaves out the one before the first.
    """
    for a in range(1, n_tokens + 2):
        for b in range(max(1, a - 1), min(n_tokens, a + max_span) + 1):
            yield a - 1, b


def _choose(
    estimator: Estimator, texts: list[TextInProgress], target: str, rules: PaperRules
) -> list[tuple[TextInProgress, Span, float | None]]:
    """For each text the span to edit and its log f; a text with nothing to edit is told to stop."""
    spans = [list(filter(text.may_edit, candidates(len(text.ids), rules.max_span))) for text in texts]
    chosen: list[tuple[TextInProgress, Span, float | None]] = []
    for text, of_text, scores in zip(texts, spans, score_spans(estimator, texts, spans, target), strict=True):
        odds = [score.log_f for score in scores]
        best = max(range(len(odds)), key=lambda i: (odds[i], -i), default=None)
        if len(text.steps) >= rules.max_steps:
            text.stopped = f"the limit of {rules.max_steps} steps"
        elif best is not None and odds[best] >= rules.threshold:
            chosen.append((text, of_text[best], odds[best]))
        elif rules.forced_insertion and text.styles[text.source] > SURE:
            chosen.append((text, (0, 0), None))
        else:
            text.stopped = "nothing reaches the threshold"
    return chosen


def _edit(
    estimator: Estimator, chosen: list[tuple[TextInProgress, Span, float | None]], target: str, rules: PaperRules
) -> None:
    """Put in what the target style would, in place of the chosen spans."""
    if not chosen:
        return
    contexts = [Context.around(text.ids, *span, target) for text, span, _ in chosen]
    fillings = _fill(estimator, contexts, [(t.source, span[0] == span[1]) for t, span, _ in chosen], rules)
    edited = [
        text.ids[:start] + filling.ids + text.ids[end:]
        for (text, (start, end), _), filling in zip(chosen, fillings, strict=True)
    ]
    for (text, span, log_f), filling, styles in zip(chosen, fillings, estimator.classify(edited), strict=True):
        text.edit(span, filling, log_f, styles)


def _highest(gain: Tensor) -> list[int]:
    """The token of each row that gains most; of those that come within 1e-4 of the most, relatively, the lowest.

    Gains are differences of probabilities, often all of them far below 1e-4: to round them would make them equal. What
    is left of a tie are gains that differ no more than by how a batch was made.
    """
    most = gain.amax(dim=1, keepdim=True)
    is_as_high = gain >= most - most.abs() * 10.0**-DECIMALS
    return is_as_high.int().argmax(dim=1).tolist()


def _fill(
    estimator: Estimator, contexts: list[Context], how: list[tuple[str, bool]], rules: PaperRules
) -> list[Scored]:
    """Greedy decoding with biased sampling: y_1 = argmax q̂(y | target) − q̂(y | source); an insertion is not empty.

    `how` says of each context its source style, and whether it is an insertion.
    """
    by_target = estimator.next_logprobs(contexts).double().exp()
    asked = [replace(context, style=source) for context, (source, _) in zip(contexts, how, strict=True)]
    by_source = estimator.next_logprobs(asked).double().exp()
    gain = by_target - by_source
    gain[:, list(estimator.not_text)] = -math.inf
    gain[[is_insertion for _, is_insertion in how], estimator.end] = -math.inf
    firsts = _highest(gain)
    filled: dict[tuple[Context, int], Scored] = {}  # by what is asked: two texts may have a context in common
    for first in dict.fromkeys(firsts):  # those that begin alike are decoded together
        alike = [context for context, own in zip(contexts, firsts, strict=True) if own == first]
        found = estimator.decode(alike, Decoding(first=(first,), max_length=rules.max_length))
        filled.update({(context, first): best for context, (best,) in zip(alike, found, strict=True)})
    return [filled[asked] for asked in zip(contexts, firsts, strict=True)]
