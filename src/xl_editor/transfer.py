"""Algorithm 1: post-editing a text into another style, over token ids; many texts advance together.

What is likely in the source style but unlikely in the target style, by the ratio f of two insertion probabilities, is
taken out, and what the target style would put there is put in. Again and again, until nothing stands out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

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
class Preset:
    """How a transfer is made. A model's config.json keeps its own under editor.presets, by name."""

    max_span: int = 2  # the paper's L: a span has at most L + 1 units
    threshold: float = 2.0  # log v_thres: what log f must reach for an edit
    forced_insertion: bool = True  # at the start, once, if nothing else can be done and the source style is sure
    max_steps: int = 10
    max_length: int = 16  # tokens of what is put in

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Preset:
        return cls(**settings)


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
class _State:
    ids: Ids
    source: str
    kept: frozenset[int]
    styles: dict[str, float]  # p(style | ids)
    seen: set[Ids]
    steps: list[Step] = field(default_factory=list)
    forced: bool = False
    stopped: str | None = None


def tokens_as_units(ids: Ids) -> list[Span]:
    """What the paper edits: every token by itself."""
    return [(i, i + 1) for i in range(len(ids))]


def transfer(
    estimator: Estimator,
    tasks: Sequence[Task],
    target: str,
    preset: Preset,
    units_of: Callable[[Ids], Sequence[Span]] = tokens_as_units,
) -> list[Revision]:
    """Algorithm 1 with the paper's rules, for many texts at once; each as if it were alone.

    `units_of` gives what an edit takes as a whole: tokens, or words.
    """
    styles = estimator.classify([task.ids for task in tasks])
    states = [_State(t.ids, t.source, t.kept, found, {t.ids}) for t, found in zip(tasks, styles, strict=True)]
    while active := [state for state in states if state.stopped is None]:
        chosen = _choose(estimator, active, target, preset, units_of)
        _edit(estimator, chosen, target, preset)
    return [Revision(state.ids, tuple(state.steps), state.stopped or "") for state in states]


def candidates(units: Sequence[Span], max_span: int) -> Iterator[Span]:
    """The paper's C = {(a, b) : 1 ≤ a ≤ |x|+1, 1 ≤ b ≤ |x|, −1 ≤ b − a ≤ L}, as token spans, in its order.

    (a, a − 1) is an insertion before unit a; b ≥ 1 leaves out the one before the first.
    """
    n = len(units)
    for a in range(1, n + 2):
        for b in range(max(1, a - 1), min(n, a + max_span) + 1):
            if b == a - 1:
                yield units[b - 1][1], units[b - 1][1]
            else:
                yield units[a - 1][0], units[b - 1][1]


def _choose(
    estimator: Estimator,
    states: list[_State],
    target: str,
    preset: Preset,
    units_of: Callable[[Ids], Sequence[Span]],
) -> list[tuple[_State, Span, float | None]]:
    """For each text the span to edit and its log f; a text with nothing to edit is told to stop."""
    spans = [[c for c in candidates(units_of(s.ids), preset.max_span) if not s.kept & set(range(*c))] for s in states]
    asked = [
        Insertion(Context.around(state.ids, *span, style), state.ids[slice(*span)])
        for state, of_state in zip(states, spans, strict=True)
        for span in of_state
        for style in (state.source, target)
    ]
    logprobs = iter([scored.logprob for scored in estimator.score(asked)])
    chosen: list[tuple[_State, Span, float | None]] = []
    for state, of_state in zip(states, spans, strict=True):
        odds = [round(next(logprobs) - next(logprobs), DECIMALS) for _ in of_state]
        best = max(range(len(odds)), key=lambda i: (odds[i], -i), default=None)
        if len(state.steps) >= preset.max_steps:
            state.stopped = f"the limit of {preset.max_steps} steps"
        elif best is not None and odds[best] >= preset.threshold:
            chosen.append((state, of_state[best], odds[best]))
        elif preset.forced_insertion and not state.forced and state.styles[state.source] > SURE:
            state.forced = True
            chosen.append((state, (0, 0), None))
        else:
            state.stopped = "nothing reaches the threshold"
    return chosen


def _edit(estimator: Estimator, chosen: list[tuple[_State, Span, float | None]], target: str, preset: Preset) -> None:
    """Put in what the target style would, in place of the chosen spans."""
    if not chosen:
        return
    contexts = [Context.around(state.ids, *span, target) for state, span, _ in chosen]
    fillings = _fill(estimator, contexts, [(s.source, span[0] == span[1]) for s, span, _ in chosen], preset)
    edited = [
        state.ids[:start] + filling.ids + state.ids[end:]
        for (state, (start, end), _), filling in zip(chosen, fillings, strict=True)
    ]
    styles = estimator.classify(edited)
    for (state, (start, end), log_f), filling, after, found in zip(chosen, fillings, edited, styles, strict=True):
        if after in state.seen:
            state.stopped = "the text repeats"
            continue
        state.steps.append(Step(start, end, filling.ids, log_f, filling.logprob, state.styles, found))
        shift = len(filling.ids) - (end - start)
        state.kept = frozenset(token if token < end else token + shift for token in state.kept)
        state.ids, state.styles = after, found
        state.seen.add(after)
        if not after:
            state.stopped = "nothing is left"


def _fill(estimator: Estimator, contexts: list[Context], how: list[tuple[str, bool]], preset: Preset) -> list[Scored]:
    """Greedy decoding with biased sampling: y_1 = argmax q̂(y | target) − q̂(y | source); an insertion is not empty.

    `how` says of each context its source style, and whether it is an insertion.
    """
    by_target = estimator.next_logprobs(contexts).exp()
    by_source = estimator.next_logprobs([replace(c, style=s) for c, (s, _) in zip(contexts, how, strict=True)]).exp()
    gain = (by_target - by_source).double()
    gain[:, list(estimator.not_text)] = -math.inf
    gain[[is_insertion for _, is_insertion in how], estimator.end] = -math.inf
    firsts = gain.mul(10**DECIMALS).round().argmax(dim=1).tolist()
    filled: dict[Context, Scored] = {}
    for first in dict.fromkeys(firsts):  # those that begin alike are decoded together
        alike = [context for context, own in zip(contexts, firsts, strict=True) if own == first]
        found = estimator.decode(alike, Decoding(first=(first,), max_length=preset.max_length))
        filled.update({context: best for context, (best,) in zip(alike, found, strict=True)})
    return [filled[context] for context in contexts]
