"""The `default` way to transfer: search for the smallest edit that makes the style sure, step by step.

Algorithm 1 takes the span that stands out most and puts in the most likely thing, whatever that does to the text. Here
several spans are tried with several fillings each, and every text that would come of it is judged: by the model's own
classifier, by how likely the filling is, and by how much of the text is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xl_editor.engine import DECIMALS, Context, Decoding, Ids, Scored
from xl_editor.operations.questions import Plan, Progress, ToClassify, ToDecode
from xl_editor.operations.transfer import Revision, Span, SpanScore, SpecialTokens, TextInProgress, score_spans

Units = Callable[[Ids], Sequence[Span]]  # the units that a text, or a filling, is made of

MAX_ODDS = 4.0  # nats: what stands out more than this stands out enough


@dataclass(frozen=True)
class SearchRules:
    """What is tried, and what it is worth, in nats. A model's config.json keeps its own under editor.presets."""

    max_span: int = 3  # units that an edit takes out at most
    threshold: float = 0.0  # what the log f of a span must reach for it to be tried
    n_spans: int = 6  # that are tried: those with the highest log f for their length
    n_gaps: int = 4  # where an insertion is tried
    n_fillings: int = 8  # for each
    max_length: int = 8  # tokens of what is put in
    max_steps: int = 4
    margin: float = 3.3  # the logit of p(target | text) from which on a text counts as sure
    edit_cost: float = 0.25  # of a unit that is taken out or put in; see _size
    fluency: float = 0.15  # weight of log q(filling | target), by which an unlikely filling costs
    content: float = 0.05  # weight of log q(span | source): what could not be guessed carries content, and costs
    odds: float = 0.2  # weight of log f, which ranks edits that are worth making


@dataclass(frozen=True)
class _Edit:
    """An edit that might be made, and the text that would come of it."""

    span: Span
    filling: Scored
    span_score: SpanScore
    size: float
    ids: Ids


def smallest_edits(
    ids: Ids,
    source: str,
    target: str,
    rules: SearchRules,
    units_of: Units,
    special: SpecialTokens,
    kept: frozenset[int] = frozenset(),
) -> Plan[Revision]:
    """Edit a text for as long as an edit is worth more than it costs; told as `algorithm_1` is."""
    text = yield from TextInProgress.begin(ids, source, kept)
    for _ in range(rules.max_steps):
        edits = yield from _edits(text, target, rules, units_of, special)
        styles = (yield ToClassify([edit.ids for edit in edits])) if edits else []
        _make_the_best(text, list(zip(edits, styles, strict=True)), target, rules)
        if text.stopped:
            break
        yield Progress(text.revision)
    text.stopped = text.stopped or f"the limit of {rules.max_steps} steps"
    yield Progress(text.revision)
    return text.revision


def _make_the_best(
    text: TextInProgress, edits: list[tuple[_Edit, dict[str, float]]], target: str, rules: SearchRules
) -> None:
    now = _sureness(text.styles[target], rules.margin)
    best, best_worth = None, 0.0
    for edit, styles in edits:
        is_gap = edit.span[0] == edit.span[1]
        surer = _sureness(styles[target], rules.margin) - now
        worth = _worth(surer, edit.span_score, edit.size, edit.filling.logprob, rules, is_gap=is_gap)
        if worth > best_worth:
            best, best_worth = (edit, styles), worth
    if best is None:
        is_sure = logit(text.styles[target]) >= rules.margin
        text.stopped = "the style is sure" if is_sure else "no edit is worth its cost"
    else:
        edit, styles = best
        text.edit(edit.span, edit.filling, edit.span_score.log_f, styles)


def _sureness(p: float, margin: float) -> float:
    """Log σ(logit p − margin): near 0 for a text that is sure, and below that as low as the logit is."""
    return -math.log1p(math.exp(margin - logit(p)))


def logit(p: float) -> float:
    """How sure a probability is, within bounds that single precision can tell from 0 and 1."""
    p = min(max(p, 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))


def _edits(
    text: TextInProgress, target: str, rules: SearchRules, units_of: Units, special: SpecialTokens
) -> Plan[list[_Edit]]:
    """The edits of a text that deserve a look: of what stands out most, each with its likeliest fillings."""
    size = dict(_spans_and_gaps(units_of(text.ids), rules.max_span))
    if text.ids[-1] in special.closing:
        del size[len(text.ids), len(text.ids)]
    spans = list(filter(text.may_edit, size))
    scores = yield from score_spans(text, spans, target)
    telling = _most_telling(dict(zip(spans, scores, strict=True)), size, rules)
    now = _sureness(text.styles[target], rules.margin)
    chosen = {span: score for span, score in telling.items() if _most_worth(score, size[span], now, rules) > 0}
    if not chosen:
        return []
    n = rules.n_fillings
    decoding = Decoding(n_best=n, beam=n, max_length=rules.max_length, with_empty=True)
    found = yield ToDecode([Context.around(text.ids, *span, target) for span in chosen], decoding)
    edits = []
    for ((start, end), score), fillings in zip(chosen.items(), found, strict=True):
        for filling in fillings:
            after = text.ids[:start] + filling.ids + text.ids[end:]
            is_text = not special.numbers_too_many(filling.ids, text.ids[start:end])
            if after and is_text and not special.glues(filling.ids, text.ids, start) and after not in text.seen:
                edit_size = _size(size[start, end], len(units_of(filling.ids)))
                edits.append(_Edit((start, end), filling, score, edit_size, after))
    return edits


def _most_worth(score: SpanScore, n_removed: int, now: float, rules: SearchRules) -> float:
    """What no edit of a span can be worth more than: one that makes the style sure, with a word that is certain.

    Of most spans of a text that is sure already, this is so little that no filling need be looked for.
    """
    return _worth(-now, score, max(n_removed, 1), 0.0, rules, is_gap=not n_removed)


def _worth(
    surer: float, score: SpanScore, size: float, filling_logprob: float, rules: SearchRules, *, is_gap: bool
) -> float:
    """What an edit gains, by how much surer the style gets and how much the span stands out, less what it costs."""
    cost = rules.edit_cost * size - rules.fluency * filling_logprob
    if not is_gap:
        cost -= rules.content * score.logprob
    gain = surer + rules.odds * min(score.log_f, MAX_ODDS)
    return round(gain - cost, DECIMALS)


def _size(n_removed: int, n_inserted: int) -> float:
    """Units that are touched; where one takes the place of another, the other counts half."""
    return max(n_removed, n_inserted) + min(n_removed, n_inserted) / 2


def _spans_and_gaps(units: Sequence[Span], max_span: int) -> Iterator[tuple[Span, int]]:
    """Every run of up to `max_span` units with its length, and every gap, of length 0."""
    for first, (start, _) in enumerate(units):
        yield (start, start), 0
        for last in range(first, min(first + max_span, len(units))):
            yield (start, units[last][1]), last + 1 - first
    if units:
        yield (units[-1][1], units[-1][1]), 0


def _most_telling(scores: dict[Span, SpanScore], sizes: dict[Span, int], rules: SearchRules) -> dict[Span, SpanScore]:
    """The spans and gaps with the highest log f; a longer span must say more, or the longest would always win."""
    ranked = sorted(scores, key=lambda span: -scores[span].log_f / math.sqrt(max(sizes[span], 1)))
    spans = [span for span in ranked if sizes[span] and scores[span].log_f >= rules.threshold]
    gaps = [span for span in ranked if not sizes[span]]
    return {span: scores[span] for span in [*spans[: rules.n_spans], *gaps[: rules.n_gaps]]}
