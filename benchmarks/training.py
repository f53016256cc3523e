"""How fast a recipe trains: against Hugging Face's XLNet on the same batches, and against this machine's GEMM peak.

A step is what a run does: batches are made, losses and gradients computed, gradients clipped, AdamW applied. Both sides
get the same sentences and predict the same targets. XLNet has END in its input, hides what must not be seen by
`perm_mask` and asks for the targets by `target_mapping`; it keeps its own distances, as it knows no others. Steps are
interleaved, medians are reported. Arithmetic is what the method needs: no padding, only pairs that attend, no last
layer of the content; three times the forward pass.

    python benchmarks/training.py [RECIPE --data DIR] [--steps 4] [--rounds 7] [--threads N] [--profile]

Without a recipe, recipes/yelp.yaml is trained on made-up sentences of Yelp's lengths.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model import gemm_peak, interleaved
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from transformers import XLNetLMHeadModel

from xl_editor.geometry import CONTEXT, END_OF_INSERTION, PADDING, Places, relate
from xl_editor.model import XLEditorConfig
from xl_editor.training.objectives import IGNORED, Batch, InsertionObjective
from xl_editor.training.recipe import Recipe, load_recipe
from xl_editor.training.run import load_data, make_objective, prepare_process, stream_settings
from xl_editor.training.stream import MicroBatches

YELP = Path(__file__).parents[1] / "recipes" / "yelp.yaml"
# Sentences of 1..15 words among those of Yelp's training text, and how many different words they have.
YELP_LENGTHS = (1478, 8959, 22148, 25736, 36386, 39827, 37977, 36859, 36455, 36436, 35552, 34525, 32502, 30117, 28302)
YELP_WORDS = 9_500
N_SYNTHETIC = 20_000


def write_synthetic_yelp(directory: Path) -> list[str]:
    """Sentences of Yelp's lengths, of words as frequent as words are; what to set in its recipe."""
    random = np.random.default_rng(0)
    frequency = 1 / np.arange(1, YELP_WORDS + 1)
    lengths = 1 + random.choice(len(YELP_LENGTHS), N_SYNTHETIC, p=np.array(YELP_LENGTHS) / sum(YELP_LENGTHS))
    words = random.choice(YELP_WORDS, lengths.sum(), p=frequency / frequency.sum())
    words[:YELP_WORDS] = np.arange(YELP_WORDS)  # each at least once
    sentences = [" ".join(f"w{word}" for word in part) for part in np.split(words, np.cumsum(lengths)[:-1])]
    for number, name in enumerate(("train.neg", "train.pos", "dev.neg", "dev.pos")):
        (directory / name).write_text("\n".join(sentences[number % 2 :: 2][: None if number < 2 else 50]) + "\n")
    return [
        f"data.dir={directory}",
        "data.train={negative: train.neg, positive: train.pos}",
        "data.dev={negative: dev.neg, positive: dev.pos}",
        "vocabulary.min_count=1",
    ]


# --- Hugging Face's XLNet ----------------------------------------------------------------------------------------


class TheirObjective(nn.Module):
    """The same loss by XLNetLMHeadModel, with the same weights."""

    def __init__(self, ours: InsertionObjective) -> None:
        super().__init__()
        with tempfile.TemporaryDirectory() as directory:
            ours.model.save_pretrained(directory)
            self.model = XLNetLMHeadModel.from_pretrained(directory)
        self.summary, self.labels_head = ours.model.sequence_summary, ours.model.logits_proj
        self.ours = [ours]  # in a list, so that its weights are not ours to train

    def forward(self, num_items_in_batch: int, **batch: Tensor) -> Tensor:
        classified = {name: batch.pop(name) for name in ("classified_ids", "classified_labels") if name in batch}
        output = self.model(**batch, use_mems=False)
        loss = F.cross_entropy(
            output.logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED, reduction="sum"
        )
        if classified and self.summary is not None and self.labels_head is not None:
            ids = classified["classified_ids"]
            padding = (ids == self.ours[0].model.config.pad_token_id).float()
            states = self.model.transformer(input_ids=ids, input_mask=padding, use_mems=False).last_hidden_state
            scores = self.labels_head(self.summary(states[:, -1]))
            of_labels = F.cross_entropy(scores, classified["classified_labels"], reduction="sum")
            loss = loss + self.ours[0].classifier_weight * of_labels
        return loss / num_items_in_batch

    def prepare(self, batch: Batch) -> Batch:
        """One of our batches, with END where it belongs, as XLNet takes it."""
        end = self.ours[0].model.config.end_token_id
        assert end is not None or self.ours[0].plain
        rows = [self._row(batch, row, end) for row in range(len(batch["ids"]))]
        size, n_targets = max(len(ids) for ids, *_ in rows), batch["labels"].shape[1]
        ids = torch.zeros(len(rows), size, dtype=torch.long)
        slot, offset = torch.full((2, len(rows), size), PADDING)
        target = torch.full((len(rows), n_targets), size)  # none: one that is cut off below
        for row, (row_ids, row_slot, row_offset) in enumerate(rows):
            n = len(row_ids)
            ids[row, :n], slot[row, :n], offset[row, :n] = map(torch.tensor, (row_ids, row_slot, row_offset))
            places = (slot[row] >= 0).nonzero()[:, 0]
            target[row, : len(places)] = places
        content = Places(torch.arange(size).expand_as(ids), slot, offset)
        hidden = ~relate(content, content[:, :0], plain=True).visible
        itself = torch.eye(size, dtype=torch.bool) & (slot >= 0)[:, None, :]
        classified = {name: tensor for name, tensor in batch.items() if name.startswith("classified_")}
        return {
            "input_ids": ids,
            "perm_mask": (hidden | itself).float(),
            "target_mapping": F.one_hot(target, size + 1)[..., :size].float(),
            "input_mask": (slot == PADDING).float(),
            "labels": batch["labels"],
            **classified,
        }

    @staticmethod
    def _row(batch: Batch, row: int, end: int | None) -> tuple[list[int], list[int], list[int]]:
        """A sequence's tokens with their slots and offsets, an END after every slot."""
        ids, slots, offsets = (batch[name][row].tolist() for name in ("ids", "slot", "offset"))
        tokens = [token for token in zip(ids, slots, offsets, strict=True) if token[1] != PADDING]
        if end is not None:
            labels, of_slot, of_offset = (batch[n][row].tolist() for n in ("labels", "query_slot", "query_offset"))
            ends = [q for q in zip(labels, of_slot, of_offset, strict=True) if q[0] == end and q[1] >= 0]
            positions = _ends_of_slots(batch, row)
            for at, query in sorted(zip(positions, ends, strict=True), reverse=True):
                tokens.insert(at, query)
        columns = [list(column) for column in zip(*tokens, strict=True)]
        return columns[0], columns[1], columns[2]


def _ends_of_slots(batch: Batch, row: int) -> list[int]:
    """Before which token each slot ends. A position counts a slot as one token, so what precedes it tells."""
    slots, positions = batch["slot"][row].tolist(), batch["position"][row].tolist()
    n_slots = int(batch["query_slot"][row].max()) + 1
    at_slot = [int(batch["query_position"][row][batch["query_slot"][row] == slot][0]) for slot in range(n_slots)]
    return [
        sum(
            slot != PADDING and (position < at or slot == index)
            for slot, position in zip(slots, positions, strict=True)
        )
        for index, at in enumerate(at_slot)
    ]


# --- what is measured --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What there is to do in some steps."""

    n_tokens: int  # of the sequences, without what stands at their right end
    n_targets: int
    gflop: float  # that the method needs

    def __add__(self, other: Work) -> Work:
        return Work(self.n_tokens + other.n_tokens, self.n_targets + other.n_targets, self.gflop + other.gflop)


def work_of(batch: Batch, config: XLEditorConfig, *, plain: bool) -> Work:
    content = Places(batch["position"], batch["slot"], batch["offset"])
    queries = Places(batch["query_position"], batch["query_slot"], batch["query_offset"])
    visible = relate(content, queries, plain=plain).visible
    is_content, is_query = content.slot != PADDING, queries.slot != PADDING
    n_content, n_queries = int(is_content.sum()), int(is_query.sum())
    size = content.slot.shape[1]
    content_pairs = int(visible[:, :size][is_content].sum())
    query_pairs = int(visible[:, size:][is_query].sum())
    flop = _flop(config, n_content, n_queries, content_pairs, query_pairs)
    flop += 2 * n_queries * config.d_model * config.vocab_size
    if "classified_ids" in batch:
        lengths = (batch["classified_ids"] != config.pad_token_id).sum(1)
        pairs = int((lengths * lengths).sum())
        flop += _flop(config, int(lengths.sum()), 0, pairs, 0, n_read=len(lengths), read_pairs=int(lengths.sum()))
    return Work(n_content - len(batch["ids"]), n_queries, 3 * flop / 1e9)


def _flop(
    config: XLEditorConfig,
    n_content: int,
    n_queries: int,
    content_pairs: int,
    query_pairs: int,
    *,
    n_read: int | None = None,
    read_pairs: int = 0,
) -> int:
    """Of a forward pass below the vocabulary. In the last layer only the rows that are read need more than keys."""
    d = config.d_model
    total = 0
    for layer in range(config.n_layer):
        is_last = layer == config.n_layer - 1
        rows, pairs = n_content + n_queries, content_pairs + query_pairs
        if is_last:
            rows, pairs = (n_queries, query_pairs) if n_read is None else (n_read, read_pairs)
        total += 2 * n_content * 2 * d * d  # keys and values
        total += 2 * rows * (2 * d * d + 2 * d * config.d_inner)  # queries, outputs, feed-forward
        total += 2 * pairs * 3 * d  # by content, by distance, and of values
    return total


class Side:
    """One of the two that train, and how it does a step."""

    def __init__(
        self, module: nn.Module, recipe: Recipe, prepare: Callable[[Batch], Batch] = lambda batch: batch
    ) -> None:
        self.module = module.train()
        self.prepare = prepare
        self.clip = recipe.optim.clip
        o = recipe.optim
        self.optimiser = torch.optim.AdamW(
            module.parameters(), 1e-6, betas=o.betas, weight_decay=o.weight_decay, fused=True
        )

    def step(self, batches: list[Batch]) -> None:
        n_targets = sum(int((batch["labels"] != IGNORED).sum()) for batch in batches)
        for batch in batches:
            output: Any = self.module(**batch, num_items_in_batch=n_targets)
            (output["loss"] if isinstance(output, dict) else output).backward()
        nn.utils.clip_grad_norm_(self.module.parameters(), self.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()


def check_same_targets(ours: list[Batch], theirs: list[Batch]) -> None:
    """Every target of a batch is what XLNet is asked to predict, where it stands."""
    for mine, its in zip(ours, theirs, strict=True):
        asked = (its["target_mapping"] @ its["input_ids"].float()[..., None])[..., 0].long()
        real = mine["labels"] != IGNORED
        assert torch.equal(asked[real], mine["labels"][real]), "XLNet is asked for other targets than we are"


def print_profile(run: Callable[[], object]) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    print("\nWhere the time goes (ours):")
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=50))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, nargs="?", default=YELP)
    parser.add_argument("--data", type=Path, help="where the recipe's files are; made-up sentences without it")
    parser.add_argument("--set", action="append", default=[], dest="settings", help="override a key of the recipe")
    parser.add_argument("--steps", type=int, default=4, help="different steps, done again in every round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--profile", action="store_true", help="also print where our time goes")
    arguments = parser.parse_args()
    prepare_process(arguments.threads)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as directory:
        os.environ.setdefault("XL_EDITOR_CACHE", directory)
        settings = write_synthetic_yelp(Path(directory)) if arguments.data is None else [f"data.dir={arguments.data}"]
        recipe = load_recipe(arguments.recipe, [*settings, *arguments.settings])
        measure(recipe, arguments.steps, arguments.rounds, with_profile=arguments.profile)


def measure(recipe: Recipe, n_steps: int, rounds: int, *, with_profile: bool) -> None:
    tokenizer, corpus, _ = load_data(recipe, Console(quiet=True))
    objective = make_objective(recipe, tokenizer, corpus.style_names)
    if not isinstance(objective, InsertionObjective):
        raise SystemExit("The seq2seq baseline is transformers' own model: there is nothing to compare.")
    stream = MicroBatches(corpus, objective, stream_settings(recipe))
    per_step = recipe.batches_per_step
    steps = [range(first * per_step, (first + 1) * per_step) for first in range(n_steps)]
    theirs = TheirObjective(objective)
    # Their batches are made beforehand: nobody has written a fast collator for them, so none is held against them.
    prepared = {item: theirs.prepare(stream[item]) for step in steps for item in step}
    check_same_targets([stream[item] for item in prepared], list(prepared.values()))

    sides = {"Hugging Face": Side(theirs, recipe), "ours": Side(objective, recipe)}
    calls: dict[str, Callable[[], object]] = {
        "Hugging Face": lambda: [sides["Hugging Face"].step([dict(prepared[i]) for i in step]) for step in steps],
        "ours": lambda: [sides["ours"].step([stream[i] for i in step]) for step in steps],
    }
    seconds = {name: statistics.median(times) for name, times in interleaved(calls, rounds).items()}
    works = [work_of(stream[item], objective.model.config, plain=objective.plain) for item in prepared]
    work = sum(works[1:], works[0])
    peak = gemm_peak()

    padding = stream.plan(0).batches.padding_share
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, GEMM peak {peak:.0f} GFLOP/s")
    print(
        f"{n_steps} steps of {recipe.optim.tokens_per_step:,} rows ({padding:.1%} padding): {work.n_tokens:,} tokens, "
        f"{work.n_targets:,} targets, vocabulary {objective.model.config.vocab_size:,}, medians of {rounds} rounds"
    )
    print(f"{'':14}{'ms a step':>10}{'tokens/s':>10}{'targets/s':>11}{'GFLOP/s':>9}{'of peak':>9}")
    for name, duration in seconds.items():
        print(
            f"{name:14}{1e3 * duration / n_steps:10.1f}{work.n_tokens / duration:10,.0f}"
            f"{work.n_targets / duration:11,.0f}{work.gflop / duration:9.0f}{work.gflop / duration / peak:9.0%}"
        )
    print(f"ours is {seconds['Hugging Face'] / seconds['ours']:.2f} times as fast")
    if with_profile:
        print_profile(calls["ours"])


if __name__ == "__main__":
    main()
