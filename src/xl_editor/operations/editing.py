"""Locate, infill, replace and delete: one or a few questions each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from xl_editor.engine import DECIMALS, Context, Decoding, Ids, Insertion, Scored
from xl_editor.operations.questions import Plan, ToDecode, ToScore

Span = tuple[int, int]  # tokens [first, last)
Measure = Literal["information", "ratio", "rank"]  # how to measure that a span does not belong
Window = Callable[[int, int], Span]  # for tokens [first, last): those that they are asked about in
Track = Callable[[Sequence[Any]], Iterable[Any]]  # goes through the portions of a long work, and may tell how far it is

QUESTIONS_AT_ONCE = 64  # about a long text: progress is told every few seconds, and little memory is used


@dataclass(frozen=True)
class FilledChain:
    """Fillings of all the slots of a text."""

    inserted: tuple[Ids, ...]
    logprob: float  # of the chain: each filling given those before it


@dataclass(frozen=True)
class Alternative:
    """Something else in the place of a span, with its odds against what stands there."""

    inserted: Scored
    log_odds: float


@dataclass(frozen=True)
class Omission:
    """A span that may be left out."""

    span: Span
    log_odds: float  # log q(ε) − log q(span)
    perplexity_ratio: float  # PPL(q(span)) / PPL(q̂(END))
    perplexity_without: float | None = None  # of the text, or its window, without it, if ranked by that
    information: float | None = None  # that it and the rest have of each other, if it is sorted by that


def locate(
    ids: Ids, gaps: Sequence[int], style: str | None = None, *, window: Window | None = None, track: Track = iter
) -> Plan[list[tuple[int, float]]]:
    """Gaps with log q̂(END | left ↓ right), the one most in need of text first: argmin q̂(END).

    Each gap is asked about in its window, by default the whole text.
    """
    found: list[tuple[int, float]] = []
    for portion in track(_portions(gaps)):
        asked = [_in_window(ids, (gap, gap), window) for gap in portion]
        scores = yield ToScore([Insertion(Context.around(part, *span, style), ()) for part, span in asked])
        found += [(gap, score.logprob) for gap, score in zip(portion, scores, strict=True)]
    return sorted(found, key=lambda pair: (round(pair[1], DECIMALS), pair[0]))


def infill(
    parts: Sequence[Ids], decoding: Decoding, style: str | None = None, firsts: Sequence[Ids] = ()
) -> Plan[list[FilledChain]]:
    """Fill all slots, left to right: each filling becomes context for the next, open slots stay one token wide.

    With a beam, the best `beam` chains so far go on. If given, `firsts` are the first tokens that each slot allows.
    """
    n_slots = len(parts) - 1
    decodings = [replace(decoding, first=first) for first in firsts] or [decoding] * n_slots
    chains = [(tuple(parts), FilledChain((), 0.0))]
    for index, decoding in enumerate(decodings):
        last = index == n_slots - 1
        contexts = [Context(left_over, style) for left_over, _ in chains]
        width = decoding.n_best if last and len(chains) == 1 else max(decoding.beam, decoding.n_best)
        found = yield ToDecode(contexts, decoding if decoding.sample else replace(decoding, n_best=width))
        grown = []
        for number, ((left_over, chain), fillings) in enumerate(zip(chains, found, strict=True)):
            # When sampling, chain i goes on with sample i: draws stay independent of each other.
            for filling in fillings[number : number + 1] if decoding.sample and index else fillings:
                merged = (left_over[0] + filling.ids + left_over[1], *left_over[2:])
                grown.append((merged, FilledChain((*chain.inserted, filling.ids), chain.logprob + filling.logprob)))
        if not decoding.sample:
            grown.sort(key=lambda pair: -round(pair[1].logprob, DECIMALS))
        chains = grown[: max(decoding.beam, decoding.n_best)]
    return [chain for _, chain in chains[: decoding.n_best]]


def replacements(ids: Ids, span: Span, decoding: Decoding, style: str | None = None) -> Plan[list[Alternative]]:
    """The best insertions in place of a span: q(y | left ↓ right) / q(span | left ↓ right)."""
    context = Context.around(ids, *span, style)
    standing = ids[span[0] : span[1]]
    (score,) = yield ToScore([Insertion(context, standing)])
    # One more than wanted, because what stands there may be among them, and is no replacement.
    wider = replace(decoding, n_best=decoding.n_best + 1, beam=max(decoding.beam, decoding.n_best + 1))
    (found,) = yield ToDecode([context], decoding if decoding.sample else wider)
    others = [y for y in found if decoding.sample or y.ids != standing][: decoding.n_best]
    return [Alternative(y, y.logprob - score.logprob) for y in others]


def omissions(
    ids: Ids,
    spans: Sequence[Span],
    style: str | None = None,
    *,
    by: Measure = "ratio",
    window: Window | None = None,
    track: Track = iter,
) -> Plan[list[Omission]]:
    """Spans, the one that fits least first, by one of three measures.

    `ratio` and `rank` are the paper's: the perplexity of a span against that of nothing in its place, and that of the
    rest. Both also point at what is hard to predict wherever it stands. `information` is what a span and the rest tell
    about each other, log q(all) − log q(rest) − log q(span), a token: low only for what has nothing to do with it.

    Each span is asked about in its window, by default the whole text. The rests of different windows are compared by
    how much less perplexing they are than the windows.
    """
    nowhere = Context(((), ()), style)

    def whole(texts: Sequence[Ids]) -> Plan[list[Scored]]:
        scored: list[Scored] = yield ToScore([Insertion(nowhere, text) for text in texts])
        return scored

    found: list[tuple[float, Omission]] = []  # with what they are sorted by
    for portion in track(_portions(spans)):
        asked = [_in_window(ids, span, window) for span in portion]
        contexts = [Context.around(part, *span, style) for part, span in asked]
        removed = [part[a:b] for part, (a, b) in asked]
        # Asked together, both questions about a context share its encoding.
        scores = yield ToScore([Insertion(c, y) for c, x in zip(contexts, removed, strict=True) for y in (x, ())])
        plain = [
            Omission(span, e.logprob - x.logprob, x.perplexity / e.perplexity)
            for span, x, e in zip(portion, scores[::2], scores[1::2], strict=True)
        ]
        if by == "ratio":
            found += [(-math.log(omission.perplexity_ratio), omission) for omission in plain]
            continue
        rests = yield from whole([part[:a] + part[b:] for part, (a, b) in asked])
        wholes = yield from whole([part for part, _ in asked])
        if by == "rank":
            for omission, rest, all_of_it in zip(plain, rests, wholes, strict=True):
                fit = math.log(rest.perplexity) - (math.log(all_of_it.perplexity) if window else 0)
                found.append((fit, replace(omission, perplexity_without=rest.perplexity)))
        else:
            alone = yield from whole(removed)
            for omission, rest, all_of_it, part in zip(plain, rests, wholes, alone, strict=True):
                told = shared_information(all_of_it, rest, part)
                found.append((told, replace(omission, information=told)))
    found.sort(key=lambda pair: (round(pair[0], DECIMALS), pair[1].span[0]))
    return [omission for _, omission in found]


def shared_information(whole: Scored, rest: Scored, part: Scored) -> float:
    """What a part and the rest of a text tell about each other, in nats a token of the part, its END included."""
    if not rest.ids:
        return 0.0
    return (whole.logprob - rest.logprob - part.logprob) / len(part.token_logprobs)


def _portions(questions: Sequence[Any]) -> list[Sequence[Any]]:
    return [questions[first : first + QUESTIONS_AT_ONCE] for first in range(0, len(questions), QUESTIONS_AT_ONCE)]


def _in_window(ids: Ids, span: Span, window: Window | None) -> tuple[Ids, Span]:
    """The window of a span, and where in it the span is."""
    first, last = window(*span) if window else (0, len(ids))
    return ids[first:last], (span[0] - first, span[1] - first)
