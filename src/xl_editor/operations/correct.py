"""Correcting: every word of a text has a slot behind it, whose insertion should stand in the word's place.

One pass tells how probable it is, at each slot, that what stands there stays. Only where something else may be more
probable by the odds that are asked for is it searched for; what reaches them is put in, and the text is looked at
again, because one correction may call for another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xl_editor.engine import DECIMALS, Context, Decoding, Ids, Insertion

from .questions import Plan, ToDecode, ToScore

Words = tuple[Ids, ...]

BEAM = 4
MAX_LENGTH = 16  # tokens of what is put in one place


@dataclass(frozen=True)
class CorrectionRules:
    """How sure a correction must be. A model's config.json keeps its own under editor.correct."""

    threshold: float = 3.0  # what the log-odds of the new against the old must reach
    protected_margin: float = 4.0  # more than that to change a name, a number, an address, code
    max_rounds: int = 3


@dataclass(frozen=True)
class Option:
    """Something that could stand in a slot."""

    inserted: Ids
    log_odds: float  # log q(inserted) − log q(what stands there)
    logprob: float


@dataclass(frozen=True)
class Replacement:
    """What should stand in a slot of the old text: in the place of a word, with what is missing after it."""

    slot: int  # 0 stands before the first word, k behind the k-th
    chosen: Option
    others: tuple[Option, ...] = ()


@dataclass
class _Draft:
    """A text between two rounds: its words as they are now, each with the slot of the old text that it is from."""

    words: Words
    origins: tuple[int, ...]  # in ascending order
    replacements: dict[int, Replacement] = field(default_factory=dict)


def correct(
    words: Words,
    margins: Sequence[float],
    rules: CorrectionRules,
    split: Callable[[Ids], list[Ids]],
    n: int = 3,
) -> Plan[list[Replacement]]:
    """What should be changed in a text, in its order; no slot is named twice.

    Args:
        words: the text's, as token ids.
        margins: for each word, how much more than the threshold it takes to change it; infinity to keep it.
        rules: see `CorrectionRules`.
        split: tokens that were put in → words.
        n: how many other options to name for each place, at most.

    """
    draft = _Draft(words, tuple(range(1, len(words) + 1)))
    seen = {words}
    for _ in range(rules.max_rounds):
        found = yield from _look(draft, (0.0, *margins), rules, n)
        if not found:
            break
        after = _applied(draft, found, split)
        if after.words in seen:  # it goes in circles
            break
        seen.add(after.words)
        draft = after
    standing = ((), *words)
    return [r for _, r in sorted(draft.replacements.items()) if r.chosen.inserted != standing[r.slot]]


def _look(
    draft: _Draft, margins: Sequence[float], rules: CorrectionRules, n: int
) -> Plan[dict[int, tuple[Option, tuple[Option, ...]]]]:
    """What is to be put in, by the draft's slot, and what else could be."""
    standing = ((), *draft.words)
    contexts = [Context.behind(draft.words, slot) for slot in range(len(standing))]
    kept = yield ToScore([Insertion(c, word) for c, word in zip(contexts, standing, strict=True)])
    # Nothing else can be more probable than all that is left.
    doubtful = [slot for slot, score in enumerate(kept) if _odds_of_all_else(score.logprob) >= rules.threshold]
    if not doubtful:
        return {}
    beam = max(BEAM, n + 2)
    decoding = Decoding(n_best=n + 2, beam=beam, first_beam=2 * beam, max_length=MAX_LENGTH)  # all may end
    searched = yield ToDecode([contexts[slot] for slot in doubtful], decoding)
    found = {}
    for slot, candidates in zip(doubtful, searched, strict=True):
        word, origin = standing[slot], (0, *draft.origins)[slot]
        options = [
            Option(y.ids, round(y.logprob - kept[slot].logprob, DECIMALS), y.logprob)
            for y in candidates
            if y.ids != word
        ]
        for option in options:
            keeps_word = option.inserted[: len(word)] == word
            if option.log_odds >= rules.threshold + (0.0 if keeps_word else margins[origin]):
                found[slot] = option, tuple(other for other in options if other is not option)[:n]
                break
    return found


def _odds_of_all_else(logprob: float) -> float:
    """Log (1 − q) / q."""
    others = -math.expm1(min(logprob, 0.0))
    return math.log(others) - logprob if others > 0 else -math.inf


def _applied(
    draft: _Draft, found: dict[int, tuple[Option, tuple[Option, ...]]], split: Callable[[Ids], list[Ids]]
) -> _Draft:
    """The draft with this put in, and what has become of the old text's slots."""
    words: list[Ids] = []
    origins: list[int] = []
    for slot, (origin, word) in enumerate(zip((0, *draft.origins), ((), *draft.words), strict=True)):
        new = split(found[slot][0].inserted) if slot in found else [word] if word else []
        words += new
        origins += [origin] * len(new)
    replacements = dict(draft.replacements)
    for slot, (option, others) in found.items():
        origin = (0, *draft.origins)[slot]
        now = tuple(token for word, of in zip(words, origins, strict=True) if of == origin for token in word)
        named = replacements[origin].others if origin in replacements else others
        replacements[origin] = Replacement(origin, replace(option, inserted=now), named)
    return _Draft(tuple(words), tuple(origins), replacements)
