"""What the engine asks a network: one primitive, `advance`, and what becomes of the states that it gives.

    score a known y        advance(text, rows of y ⊕ END) → wanted_logprobs
    encode a context       advance(context, n_read=0)
    decode                 advance(y_{k−1}, row of y_k, cache) → logprobs
    classify               advance(x ⊕ <cls>, n_read=1) → classify

Arrays are numpy's. Nothing above this seam knows what computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from xl_editor.config import XLEditorConfig
from xl_editor.errors import ModelError

Ints: TypeAlias = NDArray[np.integer[Any]]
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float32]

Own = TypeVar("Own")

LOGPROBS_AT_ONCE = 128  # rows of the whole vocabulary, when only some of it is wanted


class Relation(Protocol):
    """What each row (a token that attends) knows of each key (a token attended to). *Shape:* (B, R, K)."""

    @property
    def distance(self) -> Ints: ...  # row minus key

    @property
    def visible(self) -> Bools: ...  # may the row attend to the key?

    @property
    def other_segment(self) -> Bools | None: ...  # XLNet's segment encoding; None where segments are not used


class Cache(Protocol):
    """What a network knows of all content so far. Only the network that made it can read it."""

    @property
    def size(self) -> int:
        """How many tokens a sequence has."""

    def select(self, rows: Ints) -> Cache:
        """A copy with these sequences of the batch, in this order; they may repeat or be left out."""


class Network(Protocol):
    @property
    def config(self) -> XLEditorConfig: ...

    def advance(
        self, ids: Ints, relation: Relation, *, n_read: int, cache: Cache | None = None
    ) -> tuple[Floats, Cache]:
        """Append content tokens to the cache and read the last rows.

        Args:
            ids: the content tokens to append, (B, N).
            relation: of the rows (first the N content tokens, then any number of query rows) to the keys
                (first those in the cache, then the N appended), (B, R, K). Every row must see some key.
            n_read: how many rows, from the end, to return.
            cache: what came before, from an earlier call with the same batch size. It must not be used again: to go on
                from it in two ways, `select` a copy.

        Returns:
            The final states of the rows read, (B, n_read, d_model), and the cache with the tokens appended.

        """

    def logprobs(self, states: Floats) -> Floats:
        """Log-probabilities of the next token. *Shape:* (N, d_model) → (N, vocab_size)."""

    def wanted_logprobs(self, states: Floats, rows: Ints, tokens: Ints) -> Floats:
        """The log-probability of each token at the state that its row names; each state's normaliser is made once.

        *Shape:* states (N, d_model), rows (W,), tokens (W,) → (W,)
        """

    def classify(self, states: Floats) -> Floats:
        """Probabilities of the labels, from the states of `<cls>`. *Shape:* (N, d_model) → (N, n_labels)."""


def own_cache(cache: Cache | None, kind: type[Own]) -> Own | None:
    """The cache, which must be one that this kind of network made."""
    if cache is not None and not isinstance(cache, kind):
        raise TypeError(f"A {kind.__name__} was expected, got a {type(cache).__name__}.")
    return cache


def check_request(config: XLEditorConfig, ids: Ints, relation: Relation, n_read: int, n_cached: int) -> None:
    """Refuse what `advance` cannot be asked, in one sentence."""
    if ids.ndim != 2 or relation.distance.ndim != 3:
        raise ModelError(
            f"advance wants ids (B, N) and a relation (B, R, K), got shapes {ids.shape} and {relation.distance.shape}."
        )
    batch, n_content = ids.shape
    rows, keys = relation.distance.shape[1:]
    if batch == 0 or keys == 0:
        raise ModelError("advance got an empty batch: there must be at least one sequence and one key.")
    if relation.distance.shape[0] != batch or keys != n_cached + n_content or rows < n_content:
        raise ModelError(
            f"The relation {relation.distance.shape} does not fit {batch} sequences of {n_content} new and {n_cached} "
            f"cached tokens: expected ({batch}, at least {n_content}, {n_cached + n_content})."
        )
    if not 0 <= n_read <= rows:
        raise ModelError(f"n_read must lie within 0..{rows} (the number of rows), got {n_read}.")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < config.vocab_size:
        raise ModelError(f"Token ids must lie within 0..{config.vocab_size - 1}, got {ids.min()}..{ids.max()}.")


def wanted_by_block(logprobs_of: Callable[[Floats], Floats], states: Floats, rows: Ints, tokens: Ints) -> Floats:
    """`wanted_logprobs` from `logprobs`, of which a few rows at a time are made."""
    found = np.empty(len(tokens), dtype=np.float32)
    for first in range(0, len(states), LOGPROBS_AT_ONCE):
        some = (rows >= first) & (rows < first + LOGPROBS_AT_ONCE)
        if some.any():
            logprobs = logprobs_of(states[first : first + LOGPROBS_AT_ONCE])
            found[some] = logprobs[rows[some] - first, tokens[some]]
    return found
