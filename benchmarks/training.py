"""How fast a recipe trains: against Hugging Face's XLNet on the same batches, and against this machine's GEMM peak.

A step is what a run does: losses and gradients of its batches, clipping, AdamW; ours also makes the batches. Both get
the same sentences and predict the same targets. XLNet has END in its input, hides what must not be seen by `perm_mask`
and asks for the targets by `target_mapping`; it keeps its own distances, as it knows no others. Each side is a process
of its own, set up as its users run it (as in model.py); they take turns, and medians are reported.

Arithmetic is what the method needs, three times a forward pass: no padding, only pairs that attend, and in the last
layer nothing but keys and values of the content. The peak is float32's.

    python benchmarks/training.py [RECIPE --data DIR] [--steps 4] [--rounds 7] [--threads N] [--profile]

Without a recipe, recipes/yelp.yaml is trained on made-up sentences of Yelp's lengths.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from transformers import XLNetLMHeadModel
from transformers.utils import logging

from model import AS_IT_COMES, ROUNDED, SIDES, gemm_peak, sides_here
from xl_editor.cores import n_usable_cores
from xl_editor.geometry import PADDING, Places, relate
from xl_editor.model import XLEditorConfig
from xl_editor.training.objectives import IGNORED, Batch, Examples, InsertionObjective, places_and_labels
from xl_editor.training.recipe import Recipe, load_recipe
from xl_editor.training.run import load_data, make_objective, prepare_process, stream_settings
from xl_editor.training.sampling import Slots
from xl_editor.training.stream import MicroBatches
from xl_editor.training.trainer import rounded_products

YELP = Path(__file__).parents[1] / "recipes" / "yelp.yaml"
# Sentences of 1..15 words in Yelp's training text, and how many different words there are.
YELP_LENGTHS = (1478, 8959, 22148, 25736, 36386, 39827, 37977, 36859, 36455, 36436, 35552, 34525, 32502, 30117, 28302)
YELP_WORDS = 9_500
N_SYNTHETIC = 20_000


def write_synthetic_yelp(directory: Path) -> list[str]:
    """Sentences of Yelp's lengths, of words as frequent as words are; and what to set in the recipe."""
    random = np.random.default_rng(0)
    frequency = 1 / np.arange(1, YELP_WORDS + 1)
    lengths = 1 + random.choice(len(YELP_LENGTHS), N_SYNTHETIC, p=np.array(YELP_LENGTHS) / sum(YELP_LENGTHS))
    words = random.choice(YELP_WORDS, lengths.sum(), p=frequency / frequency.sum())
    words[:YELP_WORDS] = np.arange(YELP_WORDS)  # each at least once
    sentences = [" ".join(f"w{word}" for word in part) for part in np.split(words, np.cumsum(lengths)[:-1])]
    styles = {"negative": sentences[::2], "positive": sentences[1::2]}
    for style, of_style in styles.items():
        (directory / f"train.{style}").write_text("\n".join(of_style) + "\n")
        (directory / f"dev.{style}").write_text("\n".join(of_style[:50]) + "\n")
    files = {part: {style: f"{part}.{style}" for style in styles} for part in ("train", "dev")}
    return [f"data={json.dumps({'dir': str(directory), 'max_tokens': 32, **files})}", "vocabulary.min_count=1"]


# --- Hugging Face's XLNet -----------------------------------------------------------------------------------------


class TheirObjective(nn.Module):
    """The same loss by XLNetLMHeadModel, beginning with the same weights."""

    def __init__(self, ours: InsertionObjective) -> None:
        super().__init__()
        with tempfile.TemporaryDirectory() as directory:
            ours.model.save_pretrained(directory)
            self.model = XLNetLMHeadModel.from_pretrained(directory)
        self.summary, self.projection = ours.model.sequence_summary, ours.model.logits_proj
        self.classifier_weight = ours.classifier_weight
        self.pad = ours.model.config.pad_token_id
        self.end = None if ours.plain else ours.model.config.end_token_id
        self.collate_ours, self.right_end = ours.collate, ours.context.right_end

    def collate(self, examples: Examples) -> Batch:
        """What XLNet takes, with END as a token of the text."""
        ends = [self.right_end(style) for style in examples.styles]
        batch = places_and_labels(self._with_end(examples), ends, None, plain=True)
        content = Places(batch["position"], batch["slot"], batch["offset"])
        hidden = ~relate(content, content[:, :0], plain=True).visible
        itself = torch.eye(len(content), dtype=torch.bool) & (content.slot >= 0)[:, None, :]
        is_real = (batch["labels"] != IGNORED)[..., None]
        classified = self.collate_ours(examples) if examples.labels is not None else {}
        return {
            "input_ids": batch["ids"],
            "perm_mask": (hidden | itself).float(),  # a query does not see what it is to predict
            "target_mapping": (F.one_hot(batch["query_position"], len(content)) * is_real).float(),
            "input_mask": (content.slot == PADDING).float(),
            "labels": batch["labels"],
            **{name: tensor for name, tensor in classified.items() if name.startswith("classified_")},
        }

    def _with_end(self, examples: Examples) -> Examples:
        if self.end is None:
            return examples
        tokens = []
        slots = examples.slots
        starts, ends = slots.starts.copy(), slots.ends.copy()
        for row, of_row in enumerate(examples.tokens):
            stops = [end for _, end in slots.intervals(row)]
            tokens.append(np.insert(of_row, stops, self.end))
            for index in range(len(stops)):
                starts[row, index] += index
                ends[row, index] += index + 1
        return Examples(tokens, Slots(starts, ends, slots.counts), examples.styles, examples.labels)

    def forward(
        self,
        num_items_in_batch: int,
        classified_ids: Tensor | None = None,
        classified_labels: Tensor | None = None,
        **batch: Tensor,
    ) -> dict[str, Tensor]:
        labels = batch.pop("labels")
        logits = self.model(**batch, use_mems=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        if classified_ids is not None and classified_labels is not None:
            assert self.summary is not None
            assert self.projection is not None
            padding = (classified_ids == self.pad).float()
            states = self.model.transformer(input_ids=classified_ids, input_mask=padding, use_mems=False)[0]
            scores = self.projection(self.summary(states[:, -1]))
            loss = loss + self.classifier_weight * F.cross_entropy(scores, classified_labels, reduction="sum")
        return {"loss": loss / num_items_in_batch}

    def save(self, directory: Path) -> None:
        self.model.save_pretrained(directory)

    def load(self, directory: Path) -> None:
        raise NotImplementedError


# --- the arithmetic -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """What there is to do in some steps."""

    n_tokens: int  # of the sequences, what stands at their right end included
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
    query_pairs = int(visible[:, len(content) :][is_query].sum())
    all_pairs = int(visible[:, : len(content)][is_content].sum()) + query_pairs
    flop = forward_flop(config, n_content, (n_content + n_queries, all_pairs), (n_queries, query_pairs))
    flop += 2 * n_queries * config.d_model * config.vocab_size
    if "classified_ids" in batch:
        lengths = (batch["classified_ids"] != config.pad_token_id).sum(1)
        n_tokens, pairs = int(lengths.sum()), int((lengths * lengths).sum())
        flop += forward_flop(config, n_tokens, (n_tokens, pairs), (len(lengths), n_tokens))
    return Work(n_content, n_queries, 3 * flop / 1e9)


def forward_flop(
    config: XLEditorConfig, n_content: int, rows_and_pairs: tuple[int, int], in_last_layer: tuple[int, int]
) -> int:
    """Of all layers, from their rows and the pairs of a row and a key that it attends to."""
    d = config.d_model
    total = 0
    for rows, pairs in [rows_and_pairs] * (config.n_layer - 1) + [in_last_layer]:
        total += 2 * n_content * 2 * d * d  # keys and values
        total += 2 * rows * (2 * d * d + 2 * d * config.d_inner)  # queries, outputs, feed-forward
        total += 2 * pairs * 3 * d  # scores by content and by distance, and the values
    return total


# --- a side, in its own process -----------------------------------------------------------------------------------


class Side:
    """One of those that train: `steps` of the recipe, again and again."""

    def __init__(self, side: str, recipe: Recipe, n_steps: int) -> None:
        tokenizer, corpus, _ = load_data(recipe, Console(quiet=True))
        ours = make_objective(recipe, tokenizer, corpus.style_names)
        if not isinstance(ours, InsertionObjective):
            raise SystemExit("The seq2seq baseline is a model of transformers: there is nothing to compare it with.")
        is_ours = side.startswith("ours")
        self.objective: Any = ours if is_ours else TheirObjective(ours)
        self.precision = "bfloat16" if side in ROUNDED else "float32"
        self.objective.train()
        self.stream = MicroBatches(corpus, cast(Any, self.objective), stream_settings(recipe))
        per_step = recipe.batches_per_step
        self.steps = [range(step * per_step, (step + 1) * per_step) for step in range(n_steps)]
        # Nobody has written a fast collator for their side, so none is held against them: it is done beforehand.
        self.made = {} if is_ours else {item: self.stream[item] for step in self.steps for item in step}
        o = recipe.optim
        self.clip = o.clip
        self.optimiser = torch.optim.AdamW(
            self.objective.parameters(), 1e-6, betas=o.betas, weight_decay=o.weight_decay, fused=True
        )

    def run(self) -> None:
        for step in self.steps:
            batches = [self.made.get(item) or self.stream[item] for item in step]
            n_targets = sum(int((batch["labels"] != IGNORED).sum()) for batch in batches)
            for batch in batches:
                with rounded_products(self.precision, torch.device("cpu")):
                    loss = self.objective(**batch, num_items_in_batch=n_targets)["loss"]
                loss.backward()
            nn.utils.clip_grad_norm_(self.objective.parameters(), self.clip)
            self.optimiser.step()
            self.optimiser.zero_grad()

    def targets(self) -> list[list[int]]:
        """What is to be predicted, batch by batch."""
        batches = (self.made.get(item) or self.stream[item] for step in self.steps for item in step)
        return [batch["labels"][batch["labels"] != IGNORED].tolist() for batch in batches]

    def answer(self, question: str) -> Any:
        if question == "seconds":
            started = time.perf_counter()
            self.run()
            return time.perf_counter() - started
        if question == "targets":
            return self.targets()
        if question == "peak":
            return gemm_peak()
        if question == "work":
            config, plain = self.objective.model.config, self.objective.plain
            works = [work_of(self.stream[item], config, plain=plain) for step in self.steps for item in step]
            padding = self.stream.plan(0).batches.padding_share
            return {**asdict(sum(works[1:], works[0])), "padding": padding, "vocabulary": config.vocab_size}
        assert question == "profile"
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            self.run()
        return profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=50)


def serve(side: str, recipe: Recipe, n_steps: int, threads: int) -> None:
    """Answer each line of standard input by a line of JSON."""
    torch.set_num_threads(threads) if side in AS_IT_COMES else prepare_process(threads)
    logging.set_verbosity_error()  # their language model has no use for our classifier, and says so at length
    logging.disable_progress_bar()
    torch.manual_seed(0)
    worker = Side(side, recipe, n_steps)
    for line in sys.stdin:
        print(json.dumps(worker.answer(line.strip())), flush=True)


# --- the comparison -----------------------------------------------------------------------------------------------


def asker(side: str, arguments: list[str]) -> Callable[[str], Any]:
    """Start a side; what is returned asks it."""
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments, "--side", side],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(question: str) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(question + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"The process of {side} has ended.")
        return json.loads(line)

    return ask


def compare(names: tuple[str, ...], arguments: list[str], n_steps: int, rounds: int, *, with_profile: bool) -> None:
    sides = {side: asker(side, arguments) for side in names}
    work = sides["ours"]("work")
    targets = sides["ours"]("targets")
    assert all(ask("targets") == targets for ask in sides.values()), "the sides have other targets"
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    peaks = []
    for turn in range(rounds + 1):
        for side, ask in sides.items():
            taken = ask("seconds")
            if turn:  # the first one warms up
                seconds[side].append(taken)
        peaks.append(sides["ours"]("peak"))  # in every round: a shared machine's peak drifts within minutes
    peak = statistics.median(peaks[1:])
    median = {side: statistics.median(taken) for side, taken in seconds.items()}

    print(f"torch {torch.__version__}, GEMM peak {peak:.0f} ({min(peaks):.0f}–{max(peaks):.0f}) GFLOP/s", end="; ")
    print(f"medians of {rounds} rounds of {n_steps} steps")
    print(f"{work['n_tokens'] / n_steps:,.0f} tokens and {work['n_targets'] / n_steps:,.0f} targets a step", end="; ")
    print(f"{work['padding']:.1%} padding, vocabulary {work['vocabulary']:,}")
    print(
        f"{'':24}{'ms a step':>10}{'tokens/s':>10}{'targets/s':>11}{'GFLOP/s':>9}{'of peak':>9}{'ours is':>9}"
        + (f"{'in bfloat16':>13}" if "ours, bfloat16" in median else "")
    )
    for side, taken in median.items():
        rate = work["gflop"] / taken
        print(
            f"{side:24}{1e3 * taken / n_steps:10.1f}{work['n_tokens'] / taken:10,.0f}"
            f"{work['n_targets'] / taken:11,.0f}{rate:9.0f}{rate / peak:9.0%}{taken / median['ours']:8.2f}×"
            + (f"{taken / median['ours, bfloat16']:12.2f}×" if "ours, bfloat16" in median else "")
        )
    if with_profile:
        print(sides["ours"]("profile"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, nargs="?", default=YELP)
    parser.add_argument("--data", type=Path, help="where the recipe's files lie; made-up sentences without it")
    parser.add_argument("--set", action="append", default=[], dest="settings", help="override a key of the recipe")
    parser.add_argument("--steps", type=int, default=4, help="different steps, done again in every round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=n_usable_cores())
    parser.add_argument("--profile", action="store_true", help="also print where our time goes")
    parser.add_argument("--side", choices=(*SIDES, *ROUNDED), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        serve(given.side, load_recipe(given.recipe, given.settings), given.steps, given.threads)
        return
    with tempfile.TemporaryDirectory() as directory:
        if given.data:
            data = [f"data.dir={given.data}"]
        else:
            os.environ["XL_EDITOR_CACHE"] = directory  # nobody will need these sentences again
            data = write_synthetic_yelp(Path(directory))
        overrides = [part for setting in (*data, *given.settings) for part in ("--set", setting)]
        load_recipe(given.recipe, overrides[1::2])  # refused here, and not in each process
        sizes = ["--steps", str(given.steps), "--threads", str(given.threads)]
        compare(
            sides_here(), [str(given.recipe), *overrides, *sizes], given.steps, given.rounds, with_profile=given.profile
        )


if __name__ == "__main__":
    main()
