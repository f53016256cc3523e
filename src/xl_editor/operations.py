"""The paper's operations, over token ids: which questions to ask the engine, and what the answers mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xl_editor.engine import DECIMALS, Context, Decoding, Engine, Ids, Insertion, Scored

Span = tuple[int, int]  # tokens [first, last)


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
    perplexity_without: float | None  # of the whole text without it


def locate(engine: Engine, ids: Ids, gaps: Sequence[int], style: str | None = None) -> list[tuple[int, float]]:
    """Gaps with log q̂(END | left ↓ right), the one most in need of text first: argmin q̂(END)."""
    scores = engine.score([Insertion(Context.around(ids, gap, gap, style), ()) for gap in gaps])
    found = [(gap, score.logprob) for gap, score in zip(gaps, scores, strict=True)]
    return sorted(found, key=lambda pair: (round(pair[1], DECIMALS), pair[0]))


def infill(engine: Engine, parts: Sequence[Ids], decoding: Decoding, style: str | None = None) -> list[FilledChain]:
    """Fill all slots, left to right: each filling becomes context for the next, open slots stay one token wide.

    With a beam, the best `beam` chains so far go on.
    """
    n_slots = len(parts) - 1
    chains = [(tuple(parts), FilledChain((), 0.0))]
    for index in range(n_slots):
        last = index == n_slots - 1
        contexts = [Context(left_over, style) for left_over, _ in chains]
        width = decoding.n_best if last and len(chains) == 1 else max(decoding.beam, decoding.n_best)
        found = engine.decode(contexts, decoding if decoding.sample else replace(decoding, n_best=width))
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


def replacements(
    engine: Engine, ids: Ids, span: Span, decoding: Decoding, style: str | None = None
) -> list[Alternative]:
    """The best insertions in place of a span: q(y | left ↓ right) / q(span | left ↓ right)."""
    context = Context.around(ids, *span, style)
    standing = ids[span[0] : span[1]]
    (score,) = engine.score([Insertion(context, standing)])
    # One more than wanted, because what stands there may be among them, and is no replacement.
    wider = replace(decoding, n_best=decoding.n_best + 1, beam=max(decoding.beam, decoding.n_best + 1))
    (found,) = engine.decode([context], decoding if decoding.sample else wider)
    others = [y for y in found if y.ids != standing][: decoding.n_best]
    return [Alternative(y, y.logprob - score.logprob) for y in others]


def omissions(
    engine: Engine, ids: Ids, spans: Sequence[Span], style: str | None = None, *, rank: bool = False
) -> list[Omission]:
    """Spans, the one that fits least first: by perplexity ratio or, with `rank`, by the perplexity of the rest."""
    contexts = [Context.around(ids, *span, style) for span in spans]
    standing = engine.score([Insertion(c, ids[a:b]) for c, (a, b) in zip(contexts, spans, strict=True)])
    nothing = engine.score([Insertion(context, ()) for context in contexts])
    without: Sequence[float | None] = [None] * len(spans)
    if rank:
        without = perplexities(engine, [ids[:a] + ids[b:] for a, b in spans], style)
    found = [
        Omission(span, e.logprob - x.logprob, x.perplexity / e.perplexity, rest)
        for span, x, e, rest in zip(spans, standing, nothing, without, strict=True)
    ]

    def misfit(omission: Omission) -> tuple[float, int]:
        if omission.perplexity_without is not None:
            return round(math.log(omission.perplexity_without), DECIMALS), omission.span[0]
        return -round(math.log(omission.perplexity_ratio), DECIMALS), omission.span[0]

    return sorted(found, key=misfit)


def perplexities(engine: Engine, texts: Sequence[Ids], style: str | None = None) -> list[float]:
    """Of whole texts: q(x | ε ↓ ε) a token, END included."""
    nowhere = Context(((), ()), style)
    return [score.perplexity for score in engine.score([Insertion(nowhere, text) for text in texts])]
