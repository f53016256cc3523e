"""XLNet as a plain torch module: two streams, relative attention, any geometry.

The *content* stream holds what tokens mean; the *query* stream starts from one learned vector and predicts the
token at a place without seeing it. Both share all weights, and only content is ever attended to. So everything
the model does is one primitive, `advance`: append content tokens to a cache, and read some rows against it.

    score a known y        advance(text, rows of y ⊕ END)                     one pass
    encode a context       advance(context)                                   once
    decode                 advance(y_{k−1}, row of y_k, cache)                a step a token
    classify               advance(x ⊕ <cls>, n_read=1)                       the last content row

Weight names, shapes and files are those of Hugging Face's XLNet. The model has never heard of text, styles or
tasks: END and style tokens are ordinary entries of its vocabulary.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from xl_editor.config import CONFIG_FILE, WEIGHTS_FILE, XLEditorConfig, load_config, read_settings
from xl_editor.errors import ModelError
from xl_editor.geometry import Relation

# What stands in config.py is found here, too.
__all__ = [
    "CONFIG_FILE",
    "WEIGHTS_FILE",
    "ModelError",
    "XLEditorConfig",
    "XLEditorModel",
    "load_config",
    "read_settings",
]

DISTANCES_AT_ONCE = 64

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,  # the erf form, as Hugging Face's; XLNet's original code used tanh ("gelu_new")
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "relu": lambda x: x.clamp(min=0),  # F.relu's gradient reads its output, which dropout overwrites
}


class Grown:
    """Keys or values that grow, with room behind them: appending copies what is new, not what is there."""

    ROOM = 8  # for more tokens: what is inserted is seldom longer

    def __init__(self, room: Tensor, size: int | None = None) -> None:
        self._room = room  # (B, H, at least K, D)
        self.now = room[:, :, :size]  # (B, H, K, D)

    def append(self, new: Tensor) -> Tensor:
        batch, n_heads, size, d_head = self.now.shape
        end = size + new.shape[2]
        if torch.is_grad_enabled():  # autograd wants back what it has read
            self.now = self._room = torch.cat([self.now, new], dim=2)
        elif end > size:
            if end > self._room.shape[2]:
                self._room = new.new_empty(batch, n_heads, end + self.ROOM, d_head)
                self._room[:, :, :size] = self.now
            self._room[:, :, size:end] = new
            self.now = self._room[:, :, :end]
        return self.now

    def select(self, index: Tensor) -> Grown:
        return Grown(self._room[index], self.now.shape[2])


@dataclass(frozen=True)
class Cache:
    """Keys and values of all content so far, a layer each. What goes on from it, `advance` appends."""

    keys: tuple[Grown, ...]
    values: tuple[Grown, ...]

    @property
    def size(self) -> int:
        return self.keys[0].now.shape[2]

    def select(self, index: Tensor) -> Cache:
        """A copy with these rows of the batch, in this order (rows may repeat or be left out)."""
        return Cache(*(tuple(grown.select(index) for grown in part) for part in (self.keys, self.values)))


class Dropout(nn.Module):
    """Dropout whose masks are slices, at random offsets, of one long random mask.

    Drawing millions of random numbers a step costs a CPU a sixth of its training time; drawing an offset, nothing.
    """

    POOL = 1 << 23  # elements; a larger tensor draws its own mask

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        mask = self._mask(x)
        return x if mask is None else x * mask

    def overwrite(self, x: Tensor) -> Tensor:
        """Return dropout(x), in the place of x, which nobody else reads."""
        mask = self._mask(x)
        return x if mask is None else x.mul_(mask)

    def add(self, base: Tensor, x: Tensor) -> Tensor:
        """Return base + dropout(x), in one pass; x, which nobody else reads, may be overwritten."""
        mask = self._mask(x)
        if mask is not None:
            return torch.addcmul(base, x, mask)
        # Under autocast x is rounded, and the sum is not to be.
        return x.add_(base) if x.dtype == base.dtype else base + x

    def _mask(self, x: Tensor) -> Tensor | None:
        if not self.training or self.p == 0:
            return None
        if x.device.type != "cpu" or x.numel() > self.POOL // 2:
            return F.dropout(torch.ones_like(x), self.p)
        pool = _dropout_mask(self.p, self.POOL, x.dtype)
        offset = int(torch.randint(self.POOL - x.numel(), ()))
        return pool[offset : offset + x.numel()].view(x.shape)


@lru_cache(maxsize=4)
def _dropout_mask(p: float, size: int, dtype: torch.dtype) -> Tensor:
    """0 with probability p, else 1 / (1 − p); the same in every process and every run."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(size, generator=generator).ge_(p).div_(1 - p).to(dtype)


Parts = tuple[Tensor, Tensor]  # those that were known, those that are new
Rows = slice | Tensor  # some of the rows: from one to another, or by their numbers
# From (depth, new keys, new values) to all keys and values of that layer.
Extend = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]] | Callable[[int, Tensor, Tensor], tuple[Parts, Parts]]


@dataclass(frozen=True)
class Positions:
    """What a layer's attention makes of each of M distances, one after the other; scaled already.

    Where there are segments, of each distance within one segment, and then of each between two.
    """

    keys: Tensor  # R_d, which a row's query meets, (H, D, M)
    biases: Tensor  # what is the same for every row, (H, 1, M)

    def some(self, which: slice, n_segments: int) -> Positions:
        keys, biases = (t.unflatten(-1, (n_segments, -1))[..., which].flatten(-2) for t in (self.keys, self.biases))
        return Positions(keys, biases)


@dataclass(frozen=True)
class Pairs:
    """The relation of rows to keys, as attention reads it."""

    position: Tensor  # as indices into the positions, the same for all heads, (B, H, R, K)
    unseen: Tensor  # 0; −inf where the row may not attend to the key, (B, 1, R, K)

    def of_rows(self, rows: Rows) -> Pairs:
        return Pairs(self.position[:, :, rows], self.unseen[:, :, rows])


class RelativeAttention(nn.Module):
    """score(i, j) = (q_i + r_w)·k_j + (q_i + r_r)·R_{distance(i, j)} + (q_i + r_s)·segment(i, j).

    Computed with q_i + r_w throughout, to which the constants (r_r − r_w)·R_d and (r_s − r_w)·segment are added.
    """

    def __init__(self, config: XLEditorConfig) -> None:
        super().__init__()
        self.d_model = config.d_model
        shape = (config.d_model, config.n_head, config.d_head)
        self.q, self.k, self.v, self.o, self.r = (nn.Parameter(torch.empty(shape)) for _ in range(5))
        self.r_w_bias, self.r_r_bias, self.r_s_bias = (nn.Parameter(torch.empty(shape[1:])) for _ in range(3))
        self.seg_embed = nn.Parameter(torch.empty(2, *shape[1:]))
        self.layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)
        self.scale = 1 / math.sqrt(config.d_head)

    def queries(self, rows: Tensor) -> Tensor:
        """q_i + r_w. *Shape:* (…, d_model) → (…, H, D)."""
        return self._by_head(F.linear(rows, self.q.flatten(1).T, self.r_w_bias.flatten()))

    def keys_and_values(self, content: Tensor) -> tuple[Tensor, Tensor]:
        """*Shape:* (…, d_model) → twice (…, H, D)."""
        return self._heads(content, self.k), self._heads(content, self.v)

    def weights_of_positions(self) -> tuple[nn.Parameter, ...]:
        return self.r, self.r_r_bias, self.r_w_bias, self.r_s_bias, self.seg_embed

    def positions(self, sinusoids: Tensor, segments: Tensor | None) -> Positions:
        """*Shape:* sinusoids (M, d_model); segments (M, 2), where there are any: in one segment, in two."""
        keys = self._heads(sinusoids, self.r * self.scale)  # (M, H, D)
        biases = (keys * (self.r_r_bias - self.r_w_bias)).sum(-1)  # (M, H)
        if segments is not None:
            of_segments = self._by_head(segments @ (self.seg_embed * self.scale).flatten(1))
            biases = biases + (of_segments * (self.r_s_bias - self.r_w_bias)).sum(-1)
            keys = keys + of_segments
        return Positions(keys.permute(1, 2, 0), biases.transpose(0, 1).unsqueeze(1))

    def forward(
        self,
        rows: Tensor,
        query: Tensor,
        keys: Tensor | Parts,
        values: Tensor | Parts,
        positions: Positions,
        pairs: Pairs,
    ) -> Tensor:
        """*Shape:* rows (B, R, d_model), query (B, R, H, D), keys and values (B, H, K, D)."""
        batch, n_rows, n_heads, _ = query.shape
        if isinstance(keys, tuple) and isinstance(values, tuple):
            attended = self._attend_in_parts(query.transpose(1, 2), keys, values, positions, pairs)
        else:
            # One small product for the M distinct distances, shared by the batch; then each pair picks its own.
            by_distance = torch.baddbmm(positions.biases, query.flatten(0, 1).transpose(0, 1), positions.keys)
            by_distance = by_distance.view(n_heads, batch, n_rows, -1).transpose(0, 1)  # (B, H, R, M)
            bias = by_distance.gather(-1, pairs.position)  # (B, H, R, K)
            assert isinstance(keys, Tensor) and isinstance(values, Tensor)  # noqa: PT018
            attended = self._attend(query.transpose(1, 2), keys, values, bias.add_(pairs.unseen))  # (B, H, R, D)
        attended = attended.transpose(1, 2)
        output = self.output(attended.reshape(*attended.shape[:2], self.d_model))
        return self.layer_norm(self.dropout.add(rows, output))

    def _attend_in_parts(self, query: Tensor, keys: Parts, values: Parts, positions: Positions, pairs: Pairs) -> Tensor:
        """The same for graphs: keys, (B, H, D, K), and values, (B, H, K, D), stay in their parts and are not copied."""
        bias = (query @ positions.keys + positions.biases).gather(-1, pairs.position) + pairs.unseen
        scores = torch.cat([query @ part for part in keys], dim=-1)
        weights = (scores * self.scale + bias).softmax(-1)
        n_first = values[0].shape[2]
        return weights[..., :n_first] @ values[0] + weights[..., n_first:] @ values[1]

    def output(self, attended: Tensor) -> Tensor:
        """*Shape:* (…, H · D) → (…, d_model)."""
        return F.linear(attended, self.o.flatten(1))

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
        """softmax(query · keysᵀ · scale + bias) · values. *Shape:* (B, H, R, D)."""
        if not torch.is_grad_enabled():
            return F.scaled_dot_product_attention(query, keys, values, attn_mask=bias, scale=self.scale)
        # The fused kernel has no gradient for a bias; what torch falls back to on a CPU is slower than this.
        flat = [tensor.flatten(0, 1) for tensor in (bias, query, keys, values)]
        scores = torch.baddbmm(flat[0], flat[1], flat[2].transpose(1, 2), alpha=self.scale)
        attended = torch.bmm(self.dropout(scores.softmax(-1)), flat[3])
        return attended.unflatten(0, query.shape[:2])

    def _heads(self, rows: Tensor, weight: Tensor) -> Tensor:
        """*Shape:* (…, d_model) → (…, H, D)."""
        return self._by_head(rows @ weight.flatten(1))

    def _by_head(self, rows: Tensor) -> Tensor:
        """*Shape:* (…, H · D) → (…, H, D)."""
        return rows.view(*rows.shape[:-1], *self.r_w_bias.shape)


class FeedForward(nn.Module):
    def __init__(self, config: XLEditorConfig) -> None:
        super().__init__()
        self.layer_1 = nn.Linear(config.d_model, config.d_inner)
        self.layer_2 = nn.Linear(config.d_inner, config.d_model)
        self.layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)
        self.activation = ACTIVATIONS[config.ff_activation]

    def forward(self, rows: Tensor) -> Tensor:
        inner = self.dropout.overwrite(self.activation(self.layer_1(rows)))
        return self.layer_norm(self.dropout.add(rows, self.layer_2(inner)))


class Layer(nn.Module):
    def __init__(self, config: XLEditorConfig) -> None:
        super().__init__()
        self.rel_attn = RelativeAttention(config)
        self.ff = FeedForward(config)


class Transformer(nn.Module):
    """The weights below `transformer.` in a checkpoint."""

    def __init__(self, config: XLEditorConfig) -> None:
        super().__init__()
        self.word_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.mask_emb = nn.Parameter(torch.empty(1, 1, config.d_model))  # where every query row starts
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.n_layer))

    def layers(self) -> Iterator[Layer]:
        yield from self.layer  # type: ignore[misc]  # nn.ModuleList does not say what it holds


class SequenceSummary(nn.Module):
    """XLNet's own classification head, as `XLNetForSequenceClassification` names it."""

    def __init__(self, config: XLEditorConfig) -> None:
        super().__init__()
        self.summary = nn.Linear(config.d_model, config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, states: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.summary(states)))


class XLEditorModel(nn.Module):
    def __init__(self, config: XLEditorConfig, *, initialise: bool = True) -> None:
        super().__init__()
        self.config = config
        self.transformer = Transformer(config)
        self.lm_loss = nn.Linear(config.d_model, config.vocab_size)
        self.lm_loss.weight = self.transformer.word_embedding.weight
        self.sequence_summary = SequenceSummary(config) if config.n_labels else None
        self.logits_proj = nn.Linear(config.d_model, config.n_labels) if config.n_labels else None
        self.dropout = Dropout(config.dropout)
        if initialise:  # not where weights are about to be loaded
            self._initialise()

    def _initialise(self) -> None:
        """As XLNet: everything normal, biases zero, layer norms at one."""
        for name, parameter in self.named_parameters():
            if "layer_norm" in name:
                nn.init.constant_(parameter, float(name.endswith("weight")))
            elif parameter.dim() == 1:
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=self.config.initializer_range)

    def advance(
        self,
        ids: Tensor,
        relation: Relation,
        *,
        n_read: int,
        cache: Cache | None = None,
        known_positions: PositionTable | None = None,
    ) -> tuple[Tensor, Cache]:
        """Append content tokens to the cache and read the last rows.

        Args:
            ids: the content tokens to append, (B, N).
            relation: of the rows (first the N content tokens, then any number of query rows) to the keys
                (first those in the cache, then the N appended), (B, R, K). Every row must see some key.
            n_read: how many rows, from the end, to return: usually the query rows. In the last layer only
                these are computed, because nobody else's output is read.
            cache: what came before, from an earlier call with the same batch size. It is appended to; to go on from
                it in two ways, take a copy.
            known_positions: of this model, if its weights stay as they are; computed anew without.

        Returns:
            The final states of the rows read, (B, n_read, d_model), and the cache with the tokens appended.

        """
        n_content, n_rows = ids.shape[-1], relation.distance.shape[1]
        self._check(ids, relation, n_read, cache)
        embedding, mask = self.transformer.word_embedding, self.transformer.mask_emb
        started: list[tuple[Grown, Grown]] = []

        def extended(depth: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            if cache is not None:
                return cache.keys[depth].append(key), cache.values[depth].append(value)
            started.append((Grown(key), Grown(value)))
            return key, value

        positions, pairs = self._pairs(relation, known_positions)
        content, last = slice(n_content), slice(n_rows - n_read, None)
        if self._is_learning:
            # expand, not repeat: the query stream's start is one vector
            queries = mask.expand(ids.shape[0], n_rows - n_content, -1)
            rows = self.dropout(torch.cat([embedding(ids), queries], dim=1))
            states = self.dropout(self.read(rows, content, last, positions, pairs, extended))
        else:
            distinct, which = ids.unique(return_inverse=True)
            which = F.pad(which, (0, n_rows - n_content), value=len(distinct))
            states = self.read_tokens(distinct, which, content, last, positions, pairs, extended)
        return states, cache or Cache(*zip(*started, strict=True))

    def read_tokens(
        self,
        distinct: Tensor,
        which: Tensor,
        content: Rows,
        last: Rows,
        positions: Sequence[Positions],
        pairs: Pairs,
        extended: Extend,
    ) -> Tensor:
        """`read` the rows of tokens, given by their numbers among the distinct ones; query rows have the next number.

        Before the first layer a row is its token's embedding and nothing else, or the query stream's start: what is
        made of it there is made once a distinct token, and then copied.

        *Shape:* distinct (T,); which (B, R), from 0 to T.
        """
        start = torch.cat([self.transformer.word_embedding(distinct), self.transformer.mask_emb[0]])
        return self.read(start[which], content, last, positions, pairs, extended, (start, which))

    def read(
        self,
        rows: Tensor,
        content: Rows,
        last: Rows,
        positions: Sequence[Positions],
        pairs: Pairs,
        extended: Extend,
        start: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Pass rows through all layers, and give what the `last` of them come to.

        The `content` rows are appended to what came before them: `extended` is told the new keys and values of a layer,
        and gives all.
        """
        for depth, layer in enumerate(self.transformer.layers()):
            attention = layer.rel_attn
            is_last = depth == self.config.n_layer - 1
            some = rows[:, last] if is_last else rows  # those whose output is read
            if depth == 0 and start is not None:
                distinct, which = start
                query = attention.queries(distinct)[which[:, last] if is_last else which]
                key, value = (of_start[which[:, content]] for of_start in attention.keys_and_values(distinct))
            else:
                query = attention.queries(some)
                key, value = attention.keys_and_values(rows[:, content].contiguous())
            keys, values = extended(depth, key.transpose(1, 2), value.transpose(1, 2))
            if some.shape[1]:
                some_pairs = pairs.of_rows(last) if is_last else pairs
                some = layer.ff(attention(some, query, keys, values, positions[depth], some_pairs))
            rows = some
        return rows

    def logits(self, states: Tensor) -> Tensor:
        """Scores of the next token. *Shape:* (…, d_model) → (…, vocab_size)."""
        return self.lm_loss(states)

    def labels(self, states: Tensor) -> Tensor:
        """Scores of the labels, from the state of `<cls>`. *Shape:* (…, d_model) → (…, n_labels)."""
        if self.sequence_summary is None or self.logits_proj is None:
            raise ModelError("This model has no classification head (its config has n_labels = 0).")
        return self.logits_proj(self.sequence_summary(states))

    def add_tokens(self, n_tokens: int) -> range:
        """Grow the vocabulary; the ids of the new tokens, whose embeddings start random."""
        old = self.config.vocab_size
        embedding = nn.Embedding(old + n_tokens, self.config.d_model)
        head = nn.Linear(self.config.d_model, old + n_tokens)
        with torch.no_grad():
            nn.init.normal_(embedding.weight, std=self.config.initializer_range)
            embedding.weight[:old] = self.transformer.word_embedding.weight
            head.bias.zero_()
            head.bias[:old] = self.lm_loss.bias
        head.weight = embedding.weight
        self.transformer.word_embedding, self.lm_loss = embedding, head
        self.config = XLEditorConfig(**{**asdict(self.config), "vocab_size": old + n_tokens})
        return range(old, old + n_tokens)

    @property
    def _is_learning(self) -> bool:
        """Does dropout fall, or are the weights about to change?"""
        return self.training or torch.is_grad_enabled()

    def _pairs(self, relation: Relation, known: PositionTable | None) -> tuple[list[Positions], Pairs]:
        """Each layer's positions for all distances that occur, and each pair's index among them."""
        distance, other_segment = relation.distance, relation.other_segment
        low, high = (int(bound) for bound in torch.aminmax(distance)) if distance.numel() else (0, 0)
        index = distance - low
        if other_segment is not None:
            index = index + (high + 1 - low) * other_segment
        dtype = self.transformer.mask_emb.dtype
        unseen = torch.zeros_like(relation.visible, dtype=dtype).masked_fill_(~relation.visible, -math.inf)
        pairs = Pairs(index.unsqueeze(1).expand(-1, self.config.n_head, -1, -1), unseen.unsqueeze(1))
        n_segments = 1 if other_segment is None else 2
        return (known.between if known else self.positions)(low, high, n_segments), pairs

    def positions(self, low: int, high: int, n_segments: int) -> list[Positions]:
        """What each layer makes of the distances low..high."""
        return self._positions(self.dropout(self.sinusoids(self._distances(low, high))), n_segments)

    def _positions(self, sinusoids: Tensor, n_segments: int) -> list[Positions]:
        """Each layer's, for these distances, and where there are segments for each of the two cases."""
        # A block at a time: so R_d is the same to the last bit, however many distances are asked for with it.
        blocks = sinusoids.split(DISTANCES_AT_ONCE)
        cases = torch.eye(2, dtype=sinusoids.dtype, device=sinusoids.device) if n_segments == 2 else [None]
        parts = [(block, None if case is None else case.expand(len(block), -1)) for case in cases for block in blocks]

        def of_layer(attention: RelativeAttention) -> Positions:
            made = [attention.positions(*part) for part in parts]
            return Positions(torch.cat([m.keys for m in made], -1), torch.cat([m.biases for m in made], -1))

        return [of_layer(layer.rel_attn) for layer in self.transformer.layers()]

    def _distances(self, low: int, high: int) -> Tensor:
        return torch.arange(low, high + 1, device=self.transformer.mask_emb.device)

    def sinusoids(self, distances: Tensor) -> Tensor:
        """XLNet's position encodings. *Shape:* (M,) → (M, d_model)."""
        exponents = torch.arange(0, self.config.d_model, 2, device=distances.device, dtype=torch.float32)
        angles = distances.float().unsqueeze(1) / torch.pow(10000, exponents / self.config.d_model)
        return torch.cat([angles.sin(), angles.cos()], dim=-1).to(self.transformer.mask_emb.dtype)

    def _check(self, ids: Tensor, relation: Relation, n_read: int, cache: Cache | None) -> None:
        n_cached = cache.size if cache is not None else 0
        if ids.dim() != 2 or relation.distance.dim() != 3:
            raise ModelError(
                f"advance wants ids (B, N) and a relation (B, R, K), got shapes {tuple(ids.shape)} and "
                f"{tuple(relation.distance.shape)}."
            )
        batch, n_content = ids.shape
        rows, keys = relation.distance.shape[1:]
        if batch == 0 or keys == 0:
            raise ModelError("advance got an empty batch: there must be at least one sequence and one key.")
        if relation.distance.shape[0] != batch or keys != n_cached + n_content or rows < n_content:
            raise ModelError(
                f"The relation {tuple(relation.distance.shape)} does not fit {batch} sequences of {n_content} new "
                f"and {n_cached} cached tokens: expected ({batch}, at least {n_content}, {n_cached + n_content})."
            )
        if not 0 <= n_read <= rows:
            raise ModelError(f"n_read must lie within 0..{rows} (the number of rows), got {n_read}.")
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.config.vocab_size:
            raise ModelError(
                f"Token ids must lie within 0..{self.config.vocab_size - 1}, got {int(ids.min())}..{int(ids.max())}."
            )

    def save_pretrained(self, directory: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write `config.json` and `model.safetensors`, in half precision if `dtype` says so."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / CONFIG_FILE).write_text(json.dumps(self.config.to_dict(), indent=2) + "\n", encoding="utf-8")
        weights = {
            name: tensor.detach().to(dtype).contiguous() if dtype else tensor.detach().contiguous()
            for name, tensor in self.state_dict().items()
            if name != "lm_loss.weight"  # tied to the embeddings
        }
        save_file(weights, directory / WEIGHTS_FILE, metadata={"format": "pt"})
        shutil.copymode(directory / CONFIG_FILE, directory / WEIGHTS_FILE)  # its writer lets nobody else read it

    @classmethod
    def from_pretrained(cls, directory: str | Path, dtype: torch.dtype = torch.float32) -> XLEditorModel:
        """Load one of our directories, or any XLNet checkpoint directory; ready to predict. `models` finds them."""
        directory = Path(directory)
        config = load_config(directory)
        model = cls(config, initialise=False)
        model.load_weights(directory / WEIGHTS_FILE)
        return model.to(dtype).eval()

    def load_weights(self, path: Path, *, without_head: bool = False) -> None:
        """Load a safetensors file into this model, refusing one that does not fit.

        With `without_head`, the classification head stays as it is, whatever the file has.
        """
        if not path.is_file():
            raise ModelError(f"{path.parent} holds no {path.name} (weights are read from safetensors only).")
        try:
            weights = load_file(path)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path} is not a readable safetensors file: {error}.") from None
        own = self.state_dict()
        if without_head:
            head = ("sequence_summary.", "logits_proj.")
            own, weights = ({k: v for k, v in d.items() if not k.startswith(head)} for d in (own, weights))
        for name, tensor in weights.items():
            if name in own and own[name].shape != tensor.shape:
                raise ModelError(
                    f"{path}: {name} has shape {tuple(tensor.shape)}, but config.json asks for "
                    f"{tuple(own[name].shape)}."
                )
        missing = sorted(own.keys() - weights.keys() - {"lm_loss.weight"})
        if missing:
            raise ModelError(f"{path} is no XLNet language model: it lacks {len(missing)} weights, {missing[0]} first.")
        self.load_state_dict(weights, strict=False)


class PositionTable:
    """The positions of all layers, computed once; for more distances when more are asked for.

    They depend on the weights alone, which must stay as they are.
    """

    def __init__(self, model: XLEditorModel) -> None:
        self._model = model
        self._reach = 0  # distances from −reach to reach − 1 are known
        self._n_segments = 0
        self._of_layers: list[Positions] = []

    def between(self, low: int, high: int, n_segments: int) -> list[Positions]:
        """Each layer's positions of the distances low..high."""
        if self._n_segments != n_segments or self._reach < max(-low, high + 1):
            # More than asked for, in whole blocks: the next text may be longer.
            self._reach, self._n_segments = max(DISTANCES_AT_ONCE, 1 << max(-low, high).bit_length()), n_segments
            with torch.inference_mode(False), torch.no_grad():
                self._of_layers = self._model.positions(-self._reach, self._reach - 1, n_segments)
        some = slice(low + self._reach, high + 1 + self._reach)
        return [of_layer.some(some, n_segments) for of_layer in self._of_layers]


class FrozenModel:
    """A model that only answers: its weights no longer change, so what depends on them alone is computed once."""

    def __init__(self, model: XLEditorModel) -> None:
        self.model = model.eval()
        self._positions = PositionTable(model)

    @property
    def config(self) -> XLEditorConfig:
        return self.model.config

    @torch.inference_mode()
    def advance(
        self, ids: Tensor, relation: Relation, *, n_read: int, cache: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        """`XLEditorModel.advance`, without gradients."""
        return self.model.advance(ids, relation, n_read=n_read, cache=cache, known_positions=self._positions)

    @torch.inference_mode()
    def logits(self, states: Tensor) -> Tensor:
        return self.model.logits(states)

    @torch.inference_mode()
    def labels(self, states: Tensor) -> Tensor:
        return self.model.labels(states)
