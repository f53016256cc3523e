"""Token ids in, log-probabilities out: insertions are scored and decoded here, in batches.

The engine has never heard of text. It is asked about `Context`s (the pieces of a text between its slots, and a style)
and gives q̂ of every token of an insertion, the best insertions, or the probabilities of the styles.

What it promises: every context is encoded once and every question answered once, however often it is asked in a call;
nothing is kept from one call to the next; memory is bounded by a budget of rows; and no answer depends on what else was
asked, or in which order (but where two log-probabilities differ in their last bits alone, and rounding parts them).
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xl_editor.context import ContextFormat
from xl_editor.errors import ModelError
from xl_editor.geometry import (
    CONTEXT,
    PADDING,
    Places,
    batched_insertion_places,
    concatenate,
    correction_places,
    relate,
    stack,
)
from xl_editor.model import Cache, FrozenModel, XLEditorModel

Ids = tuple[int, ...]
Item = TypeVar("Item")

ROWS_AT_ONCE = 4096  # content tokens and predicted rows of a batch
PADDING_AT_MOST = 128  # rows of a batch: more would cost more than a batch of its own
LOGITS_AT_ONCE = 128  # rows of scores of the whole vocabulary
DECIMALS = 4  # of log-probabilities that are compared: closer ones are equal, and the first of equals wins
MAX_LENGTH = 24  # of a decoded insertion, unless said otherwise


@dataclass(frozen=True)
class Context:
    """A text with one or more slots. The question is about one of them; the others stay open, one token wide."""

    parts: tuple[Ids, ...]  # the text between the slots: left, …, right
    style: str | None = None
    slot: int = 0
    correcting: bool = False  # a slot stands at the start of the text and behind each of its words, which are the parts

    def __post_init__(self) -> None:
        if not 0 <= self.slot < len(self.parts) - 1:
            raise ValueError(f"slot must lie within 0..{len(self.parts) - 2}, got {self.slot}.")

    @classmethod
    def behind(cls, words: Sequence[Ids], slot: int) -> Context:
        """A text that is being corrected, asked about the slot behind a word, or the one at the start, slot 0."""
        return cls(((), *words, ()), slot=slot, correcting=True)

    @property
    def words(self) -> tuple[Ids, ...]:
        """Of a text that is being corrected."""
        return self.parts[1:-1]

    @classmethod
    def around(cls, ids: Sequence[int], start: int, end: int, style: str | None = None) -> Context:
        """What is left of a text when tokens [start, end) are taken out."""
        return cls((tuple(ids[:start]), tuple(ids[end:])), style)


@dataclass(frozen=True)
class Insertion:
    """The question q(inserted | context)."""

    context: Context
    inserted: Ids


@dataclass(frozen=True)
class Scored:
    """An insertion with log q̂ of each of its tokens, END last."""

    ids: Ids
    token_logprobs: tuple[float, ...]

    @property
    def logprob(self) -> float:
        return math.fsum(self.token_logprobs)

    @property
    def perplexity(self) -> float:
        return math.exp(-self.logprob / len(self.token_logprobs))


@dataclass(frozen=True)
class Decoding:
    """How insertions are searched for. The defaults give the greedy one."""

    n_best: int = 1
    beam: int = 1
    first_beam: int = 0  # if given, a wider search: see _beam_search
    min_length: int = 0
    max_length: int = MAX_LENGTH
    first: Ids = ()  # if given, the first token must be one of these
    without: Ids = ()  # tokens that no insertion may have
    with_empty: bool = False  # when searching: the empty insertion is the last of the answers, unless it is among them
    sample: bool = False  # draw n_best insertions instead of searching for the best
    top_k: int = 0  # when sampling: from the k most probable tokens only (0: from all)
    top_p: float = 1.0  # when sampling: from the fewest tokens that have this much probability
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n_best", 1), ("beam", 1), ("first_beam", 0), ("min_length", 0), ("top_k", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        if self.max_length < max(1, self.min_length):
            raise ValueError(f"max_length must be at least 1 and min_length, got {self.max_length}.")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}.")
        if not self.sample and self.n_best > self.beam:
            raise ValueError(f"n_best must be at most beam ({self.beam}), got {self.n_best}.")

    def width(self, k: int) -> int:
        """How many hypotheses are kept when y_k is chosen."""
        return max(self.beam, self.first_beam >> k)


class Engine:
    def __init__(self, model: XLEditorModel, format: ContextFormat, rows_at_once: int = ROWS_AT_ONCE) -> None:
        if model.config.end_token_id is None:
            raise ModelError("This model has no END token (config.json: end_token_id): it cannot estimate insertions.")
        self.model = model.eval()
        self.format = format
        self.frozen = FrozenModel(model)
        self.rows_at_once = rows_at_once
        self.end: int = model.config.end_token_id
        # Never decoded; END is, when an insertion is over.
        self.not_text = tuple(sorted({model.config.pad_token_id, *format.not_text}))
        self.device = model.transformer.word_embedding.weight.device
        self._before_batch: Callable[[], None] = lambda: None

    def interruptible(self, before_batch: Callable[[], None]) -> Engine:
        """The same engine, which calls this before every batch: by raising, it ends what is being computed."""
        engine = copy(self)
        engine._before_batch = before_batch
        return engine

    # --- scoring -----------------------------------------------------------------------------------------------

    def score(self, insertions: Sequence[Insertion]) -> list[Scored]:
        """Log q̂ of every token of every insertion, END included, with the full softmax."""
        answers: dict[Insertion, Scored] = {}
        questions: dict[Context, list[Insertion]] = defaultdict(list)
        corrections: dict[tuple[Ids, ...], list[Insertion]] = defaultdict(list)
        for insertion in dict.fromkeys(insertions):
            if insertion.context.correcting:
                corrections[insertion.context.words].append(insertion)
            else:
                questions[insertion.context].append(insertion)
        # All that is asked about a text that is being corrected is answered in one pass: slots do not see each other.
        for texts in self._batches(list(corrections.values()), self._shape_of_corrections):
            asked_now = [insertion for of_text in texts for insertion in of_text]
            answers.update(zip(asked_now, self._score_slots(texts), strict=True))
        # A context with a single question is run through together with its insertion, in one pass.
        single = [asked[0] for asked in questions.values() if len(asked) == 1]
        for batch in self._batches(
            single, lambda i: (self._n_context(i.context) + len(i.inserted), len(i.inserted) + 1)
        ):
            answers.update(zip(batch, self._score_whole(batch), strict=True))
        shared = [asked for asked in questions.values() if len(asked) > 1]
        for group in self._batches(shared, lambda asked: (self._n_context(asked[0].context), 1)):
            encoded = self._encode([asked[0].context for asked in group])
            pairs = [(row, insertion) for row, asked in enumerate(group) for insertion in asked]
            for now in self._batches(pairs, lambda pair: (self._n_context(pair[1].context), 2 * len(pair[1].inserted))):
                rows = torch.tensor([row for row, _ in now], device=self.device)
                asked_now = [insertion for _, insertion in now]
                answers.update(zip(asked_now, self._score_after(encoded.select(rows), asked_now), strict=True))
        return [answers[insertion] for insertion in insertions]

    def _score_whole(self, insertions: list[Insertion]) -> list[Scored]:
        """Context and insertion in one pass: the text as it would be, with its slots."""
        texts, starts, ends = [], [], []
        for insertion in insertions:
            context = insertion.context
            text: list[int] = []
            slots: list[tuple[int, int]] = []
            for index, part in enumerate(context.parts[:-1]):
                text += part
                inserted = insertion.inserted if index == context.slot else ()
                slots.append((len(text), len(text) + len(inserted)))
                text += inserted
            texts.append([*text, *context.parts[-1], *self.format.right_end(context.style)])
            starts.append([start for start, _ in slots])
            ends.append([end for _, end in slots])
        ids, sizes = self._padded(texts)
        counts = torch.tensor([len(slots) for slots in starts])
        content, queries, _ = batched_insertion_places(sizes, _ragged(starts), _ragged(ends), counts)
        # Rows of the slots that stay open are not asked for: keep each text's own slot's, moved to the front.
        asked = queries.slot == torch.tensor([insertion.context.slot for insertion in insertions])[:, None]
        order = torch.argsort(~asked, dim=1, stable=True)[:, : int(asked.sum(1).max())]
        row = torch.arange(len(order))[:, None]
        queries = self._on_device(queries[(row, order)])
        content = self._on_device(content)
        relation = self.format.with_segments(relate(content, queries), ids)
        states, _ = self.frozen.advance(ids, relation, n_read=len(queries))
        return self._scored(_rows_of(states, insertions), insertions)

    def _shape_of_corrections(self, asked: list[Insertion]) -> tuple[int, int]:
        n_inserted = sum(len(insertion.inserted) for insertion in asked)
        return self._n_context(asked[0].context) + n_inserted, n_inserted + len(asked)

    def _score_slots(self, texts: list[list[Insertion]]) -> list[Scored]:
        """Texts that are being corrected, each with all that is asked about its slots, in one pass."""
        end = self.format.correcting_end
        places, rows = [], []
        for asked in texts:
            words = asked[0].context.words
            sizes = [(insertion.context.slot, len(insertion.inserted)) for insertion in asked]
            places.append(correction_places([len(word) for word in words], sizes, len(end)))
            inserted = (token for insertion in asked for token in insertion.inserted)
            rows.append([*(token for word in words for token in word), *end, *inserted])
        ids, _ = self._padded(rows)
        content, queries = (self._on_device(stack([both[side] for both in places])) for side in (0, 1))
        relation = self.format.with_segments(relate(content, queries), ids)
        states, _ = self.frozen.advance(ids, relation, n_read=len(queries))
        return self._scored(states[queries.slot != PADDING], [insertion for asked in texts for insertion in asked])

    def _score_after(self, encoded: _Encoded, insertions: list[Insertion]) -> list[Scored]:
        """Insertions into contexts that are encoded already."""
        ids, sizes = self._padded([list(insertion.inserted) for insertion in insertions])
        column = torch.arange(ids.shape[1] + 1, device=self.device).expand(len(insertions), -1)
        queries = encoded.inserted(column)
        content = queries[:, :-1]
        padding = column[:, :-1] >= sizes.to(self.device)[:, None]
        content = Places(content.position, content.slot.masked_fill(padding, PADDING), content.offset)
        states, _ = encoded.advance(self, ids, content, queries)
        return self._scored(_rows_of(states, insertions), insertions)

    def _scored(self, states: Tensor, insertions: list[Insertion]) -> list[Scored]:
        """Of the states of all rows, one insertion after the other. *Shape:* (N, d_model)."""
        targets = [token for insertion in insertions for token in (*insertion.inserted, self.end)]
        logprobs = self._target_logprobs(states, torch.tensor(targets, device=self.device))
        values = iter(logprobs.tolist())
        return [
            Scored(insertion.inserted, tuple(next(values) for _ in range(len(insertion.inserted) + 1)))
            for insertion in insertions
        ]

    @torch.inference_mode()
    def _target_logprobs(self, states: Tensor, targets: Tensor) -> Tensor:
        """Log softmax at the targets. *Shape:* (N, d_model), (N,) → (N,)."""
        parts = []
        # A few rows at a time, and in place: what is made of them stays in the processor's cache.
        for some, wanted in zip(states.split(LOGITS_AT_ONCE), targets.split(LOGITS_AT_ONCE), strict=True):
            logits = self.frozen.logits(some)
            picked = logits.gather(1, wanted[:, None])
            highest = logits.amax(-1, keepdim=True)
            normaliser = logits.sub_(highest).exp_().sum(-1, keepdim=True).log_()
            parts.append(picked - highest - normaliser)
        return torch.cat(parts)[:, 0]

    # --- decoding ----------------------------------------------------------------------------------------------

    def decode(self, contexts: Sequence[Context], decoding: Decoding = Decoding()) -> list[list[Scored]]:  # noqa: B008
        """The best insertions for each context, best first; or, when sampling, as many drawn ones, in their order."""
        answers: dict[Context, list[Scored]] = {}
        width = decoding.n_best if decoding.sample else decoding.width(0)
        search = _draw if decoding.sample else _beam_search
        for correcting in (False, True):
            asked = [context for context in dict.fromkeys(contexts) if context.correcting == correcting]
            for batch in self._batches(asked, lambda c: (self._n_context(c), 2), copies=width):
                answers.update(zip(batch, search(self, self._encode(batch), batch, decoding), strict=True))
        return [answers[context] for context in contexts]

    def first_logprobs(self, contexts: Sequence[Context]) -> list[NDArray[np.float32]]:
        """Log q̂ of every entry of the vocabulary as the first token of an insertion. *Shape:* each (vocabulary,)."""
        found: dict[Context, NDArray[np.float32]] = {}
        for batch in self._batches(list(dict.fromkeys(contexts)), lambda c: (self._n_context(c), 1)):
            logprobs, _ = self._encode(batch).step(self, None, 0)
            found.update(zip(batch, logprobs.cpu().numpy(), strict=True))
        return [found[context] for context in contexts]

    # --- classifying -------------------------------------------------------------------------------------------

    def classify(self, texts: Sequence[Ids]) -> list[dict[str, float]]:
        """p(style | text), for each style."""
        if not self.model.config.n_labels:
            raise ModelError("This model has no style classifier, which classify and transfer ask.")
        ending = self.format.classifying_end
        found: dict[Ids, dict[str, float]] = {}
        for batch in self._batches(list(dict.fromkeys(map(tuple, texts))), lambda t: (len(t) + len(ending), 1)):
            ids = left_padded([[*t, *ending] for t in batch], self.model).to(self.device)
            scores = classify(self.frozen, self.format, ids)
            for text, row in zip(batch, scores.softmax(-1).tolist(), strict=True):
                found[text] = dict(zip(self.format.styles, row, strict=True))
        return [found[tuple(text)] for text in texts]

    # --- batches -----------------------------------------------------------------------------------------------

    def _batches(
        self, items: Sequence[Item], shape: Callable[[Item], tuple[int, int]], copies: int = 1
    ) -> Iterator[list[Item]]:
        """Items of about the same shape (content tokens, predicted rows), within the budget; a large one by itself.

        The budget must also hold `copies` of each item.
        """
        batch: list[Item] = []
        n_rows = 0  # without padding
        most_queries = 0
        for n_content, n_queries, index in sorted((*shape(item), index) for index, item in enumerate(items)):
            n_padded = (len(batch) + 1) * (n_content + max(n_queries, most_queries))
            padding = n_padded - n_rows - n_content - n_queries
            if batch and (copies * n_padded > self.rows_at_once or padding > PADDING_AT_MOST):
                self._before_batch()
                yield batch
                batch, n_rows, most_queries = [], 0, 0
            batch.append(items[index])
            n_rows += n_content + n_queries
            most_queries = max(n_queries, most_queries)
        if batch:
            self._before_batch()
            yield batch

    def _n_context(self, context: Context) -> int:
        return sum(map(len, context.parts)) + 3

    def _encode(self, contexts: list[Context]) -> _Encoded:
        if contexts[0].correcting:
            return self._encode_corrections(contexts)
        texts = [[*(t for part in c.parts for t in part), *self.format.right_end(c.style)] for c in contexts]
        ids, sizes = self._padded(texts)
        gaps = [[sum(map(len, c.parts[: i + 1])) for i in range(len(c.parts) - 1)] for c in contexts]
        counts = torch.tensor([len(of_context) for of_context in gaps])
        at = _ragged(gaps)
        places, queries, _ = batched_insertion_places(sizes, at, at, counts)
        asked = torch.tensor([c.slot for c in contexts])  # every slot is empty, so its only row is its number
        position = queries.position[torch.arange(len(contexts)), asked].to(self.device)
        keys = self._on_device(places)
        relation = self.format.with_segments(relate(keys, keys[:, :0]), ids)
        _, cache = self.frozen.advance(ids, relation, n_read=0)
        return _Encoded(keys, ids, position, cache)

    def _encode_corrections(self, contexts: list[Context]) -> _Encoded:
        """As `_encode`; a text is encoded once, whichever of its slots are asked about."""
        end = self.format.correcting_end
        numbers = {words: number for number, words in enumerate(dict.fromkeys(c.words for c in contexts))}
        ids, _ = self._padded([[*(t for word in words for t in word), *end] for words in numbers])
        keys = [correction_places([len(word) for word in words], [], len(end))[0] for words in numbers]
        places = self._on_device(stack(keys))
        relation = self.format.with_segments(relate(places, places[:, :0]), ids)
        _, cache = self.frozen.advance(ids, relation, n_read=0)
        position = [sum(map(len, c.words[: c.slot])) + c.slot for c in contexts]
        rows = torch.tensor([numbers[c.words] for c in contexts], device=self.device)
        at = torch.tensor(position, device=self.device)
        return _Encoded(places[rows], ids[rows], at, cache.select(rows))

    def _padded(self, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        sizes = torch.tensor([len(row) for row in rows])
        ids = torch.zeros(len(rows), int(sizes.max()), dtype=torch.long)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = torch.tensor(row, dtype=torch.long)
        return ids.to(self.device), sizes

    def _on_device(self, places: Places) -> Places:
        return Places(places.position.to(self.device), places.slot.to(self.device), places.offset.to(self.device))


def _rows_of(states: Tensor, insertions: list[Insertion]) -> Tensor:
    """The states of what each insertion has, END included, of the padded rows of all. *Shape:* (B, Q, d) → (N, d)."""
    rows = [(r, k) for r, insertion in enumerate(insertions) for k in range(len(insertion.inserted) + 1)]
    where, offset = (torch.tensor(index, device=states.device) for index in zip(*rows, strict=True))
    return states[where, offset]


@dataclass(frozen=True)
class _Encoded:
    """Contexts in the cache, and what has been inserted into them so far."""

    keys: Places  # (B, K) of all that is in the cache
    key_ids: Tensor  # (B, K)
    position: Tensor  # (B,) of the slot that is asked about
    cache: Cache

    def select(self, rows: Tensor) -> _Encoded:
        return _Encoded(self.keys[rows], self.key_ids[rows], self.position[rows], self.cache.select(rows))

    def inserted(self, offset: Tensor) -> Places:
        """Places in the slot. *Shape:* (B, N) offsets → (B, N)."""
        # The number of a slot only tells it from others, and only one is being filled.
        return Places(self.position[:, None].expand_as(offset), torch.zeros_like(offset), offset)

    def advance(self, engine: Engine, ids: Tensor, content: Places, queries: Places) -> tuple[Tensor, _Encoded]:
        """Append tokens to the slot and read query rows."""
        keys = concatenate([self.keys, content])
        key_ids = torch.cat([self.key_ids, ids], dim=1)
        relation = engine.format.with_segments(relate(content, queries, keys), key_ids, whole=False)
        states, cache = engine.frozen.advance(ids, relation, n_read=queries.position.shape[1], cache=self.cache)
        return states, _Encoded(keys, key_ids, self.position, cache)

    def step(self, engine: Engine, tokens: Tensor | None, k: int) -> tuple[Tensor, _Encoded]:
        """Append y_{k−1}, if there is one, and give log q̂ of y_k. *Shape:* (B,) → (B, vocabulary)."""
        n = len(self.position)
        query = self.inserted(torch.full((n, 1), k, device=engine.device))
        new = self.inserted(torch.full((n, 0 if tokens is None else 1), k - 1, device=engine.device))
        ids = torch.zeros(n, 0, dtype=torch.long, device=engine.device) if tokens is None else tokens[:, None]
        states, encoded = self.advance(engine, ids, new, query)
        return engine.frozen.logits(states[:, 0]).log_softmax(-1), encoded


@dataclass(frozen=True)
class _Hypothesis:
    ids: Ids
    token_logprobs: tuple[float, ...]
    row: int  # in the cache

    @property
    def logprob(self) -> float:
        return math.fsum(self.token_logprobs)


def _allowed(engine: Engine, decoding: Decoding, k: int) -> Tensor:
    """Which tokens may be y_k. *Shape:* (vocabulary,) bool."""
    allowed = torch.ones(engine.model.config.vocab_size, dtype=torch.bool, device=engine.device)
    if k == 0 and decoding.first:
        allowed[:] = False
        allowed[list(decoding.first)] = True
    elif k == decoding.max_length:
        allowed[:] = False
        allowed[engine.end] = True
    if k < decoding.min_length:
        allowed[engine.end] = False
    allowed[[*engine.not_text, *decoding.without]] = False
    return allowed


def _beam_search(engine: Engine, encoded: _Encoded, contexts: list[Context], decoding: Decoding) -> list[list[Scored]]:
    """All contexts advance together; one that is finished leaves the batch. With beam 1 this is greedy decoding.

    A hypothesis is ranked by its log-probability, which can only fall as it grows: so a context is finished when its
    n best complete insertions are all at least as probable as whatever is still growing. Greedy decoding instead ends
    with the first END.

    A beam can lose what ends soon to beginnings that look good and then go on and on. With `first_beam`, so many
    hypotheses are kept after the first token, half as many after each further one, down to `beam`; and each of them
    may also end where it is, whatever else is likelier to follow.
    """
    alive: list[list[_Hypothesis]] = [[_Hypothesis((), (), row)] for row in range(len(contexts))]
    complete: list[list[Scored]] = [[] for _ in contexts]
    empty: list[Scored] = []
    tokens: Tensor | None = None
    for k in range(decoding.max_length + 1):
        logprobs, encoded = encoded.step(engine, tokens, k)
        if k == 0 and decoding.with_empty:
            empty = [Scored((), (logprob,)) for logprob in logprobs[:, engine.end].tolist()]
        allowed = _allowed(engine, decoding, k)
        keep = min(decoding.width(k) + 1, int(allowed.sum()))  # END may be among them
        values, ids = _best(logprobs.masked_fill(~allowed, -math.inf), keep)
        ends = logprobs[:, engine.end].tolist() if decoding.first_beam and bool(allowed[engine.end]) else None
        for index in range(len(contexts)):
            grown: list[_Hypothesis] = []
            for hypothesis in alive[index]:
                if ends is not None:
                    logprob = (*hypothesis.token_logprobs, ends[hypothesis.row])
                    complete[index].append(Scored(hypothesis.ids, logprob))
                for value, token in zip(values[hypothesis.row], ids[hypothesis.row], strict=True):
                    if ends is not None and token == engine.end:
                        continue
                    logprob = (*hypothesis.token_logprobs, value)
                    grown.append(_Hypothesis((*hypothesis.ids, token), logprob, hypothesis.row))
            # Stable: of equals, the one from the better hypothesis, and then the lower token, comes first.
            grown = sorted(grown, key=lambda h: -round(h.logprob, DECIMALS))[: decoding.width(k)]
            for hypothesis in grown:
                if hypothesis.ids[-1] == engine.end:
                    complete[index].append(Scored(hypothesis.ids[:-1], hypothesis.token_logprobs))
            alive[index] = [h for h in grown if h.ids[-1] != engine.end]
            complete[index].sort(key=lambda s: -round(s.logprob, DECIMALS))
            if len(complete[index]) >= decoding.n_best and alive[index]:
                worst_kept = complete[index][decoding.n_best - 1].logprob
                alive[index] = [h for h in alive[index] if round(h.logprob, DECIMALS) > round(worst_kept, DECIMALS)]
        rows = [h.row for of_context in alive for h in of_context]
        if not rows:
            break
        tokens = torch.tensor([h.ids[-1] for of_context in alive for h in of_context], device=engine.device)
        if rows != list(range(len(encoded.position))):
            encoded = encoded.select(torch.tensor(rows, device=engine.device))
        numbers = iter(range(len(rows)))
        alive = [[_Hypothesis(h.ids, h.token_logprobs, next(numbers)) for h in of_context] for of_context in alive]
    best = [of_context[: decoding.n_best] for of_context in complete]
    for found, nothing in zip(best, empty, strict=False):
        if all(scored.ids for scored in found):
            found.append(nothing)
    return best


def _best(logprobs: Tensor, n: int) -> tuple[list[list[float]], list[list[int]]]:
    """The n most probable tokens of each row; of those that are equal to `DECIMALS`, the lowest ids."""
    vocabulary = logprobs.shape[1]
    # A few more than n hold every token that is equal to the n-th, unless there are very many such.
    values, ids = logprobs.topk(min(n + 8, vocabulary), dim=1)
    rounded = _comparable(values)
    if values.shape[1] < vocabulary and bool((rounded[:, n - 1] == rounded[:, -1]).any()):
        values, ids = logprobs, torch.arange(vocabulary, device=logprobs.device).expand_as(logprobs)
        rounded = _comparable(values)
    chosen = (rounded * vocabulary - ids).topk(n, dim=1).indices
    return values.gather(1, chosen).tolist(), ids.gather(1, chosen).tolist()


def _comparable(logprobs: Tensor) -> Tensor:
    return logprobs.double().mul(10**DECIMALS).round().clamp(min=-1e9).long()


def _draw(engine: Engine, encoded: _Encoded, contexts: list[Context], decoding: Decoding) -> list[list[Scored]]:
    """Samples. What is drawn for a context depends on (seed, context, number of the sample) and nothing else."""
    n = decoding.n_best
    keys = [f"{decoding.seed} {context} {number}" for context in contexts for number in range(n)]
    encoded = encoded.select(torch.arange(len(contexts), device=engine.device).repeat_interleave(n))
    drawn: list[list[int]] = [[] for _ in keys]
    logprobs_drawn: list[list[float]] = [[] for _ in keys]
    active = list(range(len(keys)))
    tokens: Tensor | None = None
    for k in range(decoding.max_length + 1):
        logprobs, encoded = encoded.step(engine, tokens, k)
        kept = _truncate(logprobs.masked_fill(~_allowed(engine, decoding, k), -math.inf), decoding)
        cumulative = kept.softmax(-1).double().cumsum(-1)
        draws = torch.tensor([_uniform(keys[i], k) for i in active], dtype=torch.double, device=engine.device)
        chosen = torch.searchsorted(cumulative, (draws * cumulative[:, -1])[:, None], right=True)[:, 0]
        chosen = chosen.clamp(max=logprobs.shape[1] - 1)
        for i, token, logprob in zip(
            active, chosen.tolist(), logprobs.gather(1, chosen[:, None])[:, 0].tolist(), strict=True
        ):
            drawn[i].append(token)
            logprobs_drawn[i].append(logprob)
        going_on = [row for row, token in enumerate(chosen.tolist()) if token != engine.end]
        if not going_on:
            break
        tokens = chosen[going_on]
        if len(going_on) < len(active):
            encoded = encoded.select(torch.tensor(going_on, device=engine.device))
            active = [active[row] for row in going_on]
    samples = [Scored(tuple(ids[:-1]), tuple(lp)) for ids, lp in zip(drawn, logprobs_drawn, strict=True)]
    return [samples[i * n : (i + 1) * n] for i in range(len(contexts))]


def _truncate(logprobs: Tensor, decoding: Decoding) -> Tensor:
    """Only the tokens that top_k and top_p leave."""
    if decoding.top_k:
        least = logprobs.topk(min(decoding.top_k, logprobs.shape[1])).values[:, -1:]
        logprobs = logprobs.masked_fill(logprobs < least, -math.inf)
    if decoding.top_p < 1:
        ordered, order = logprobs.softmax(-1).sort(dim=-1, descending=True)
        before = ordered.cumsum(-1) - ordered  # what the more probable ones have: the first always stays
        dropped = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before >= decoding.top_p)
        logprobs = logprobs.masked_fill(dropped, -math.inf)
    return logprobs


def _uniform(key: str, k: int) -> float:
    """A number in [0, 1) that depends on nothing but its arguments."""
    digest = hashlib.blake2b(f"{key} {k}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def classify(model: XLEditorModel | FrozenModel, format: ContextFormat, ids: Tensor) -> Tensor:
    """Scores of the styles, from texts with their classifying end, padded on the left. *Shape:* (B, N) → (B, S)."""
    slot = torch.where(ids == model.config.pad_token_id, PADDING, CONTEXT)
    position = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    places = Places(position, slot, torch.zeros_like(ids))
    relation = format.with_segments(relate(places, places[:, :0], plain=True), ids)
    states, _ = model.advance(ids, relation, n_read=1)
    return model.labels(states[:, 0])


def left_padded(rows: Sequence[Sequence[int]], model: XLEditorModel) -> Tensor:
    """So that the last token of each row, `<cls>`, is in the last column."""
    size = max(map(len, rows))
    return torch.tensor([[*[model.config.pad_token_id] * (size - len(row)), *row] for row in rows])


def _ragged(rows: list[list[int]]) -> Tensor:
    size = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (size - len(row))] for row in rows], dtype=torch.long)
