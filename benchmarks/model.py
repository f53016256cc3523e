"""The model against Hugging Face's XLNet: time and memory of a forward pass and of a training step.

Both get the same tokens, the same targets (partial prediction, through `perm_mask` and `target_mapping` there) and the
same weights, in the plain geometry that both know; answers are checked equal first. Each side is a process of its own,
set up as its users run it: ours as `xl-editor train` does, theirs as it comes, and theirs once more with our setting of
the C allocator; where a recipe with `precision: auto` would take bfloat16, both also in that. The processes take turns,
one step each, again and again; medians are reported. The peak is float32's.

    python benchmarks/model.py [--rounds 15] [--threads N]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from transformers import XLNetConfig, XLNetLMHeadModel

from xl_editor.cores import n_usable_cores
from xl_editor.geometry import batched_insertion_places, relate
from xl_editor.model import XLEditorModel
from xl_editor.training.objectives import summed_cross_entropy
from xl_editor.training.run import prepare_process, settle_precision
from xl_editor.training.trainer import rounded_products

VOCABULARY = 9_500
SIDES = ("theirs", "theirs, our allocator", "ours")
ROUNDED = ("theirs, bfloat16", "ours, bfloat16")  # with `optim.precision: bfloat16`, or autocast, which is the same
AS_IT_COMES = ("theirs", "theirs, bfloat16")  # without our setting of the allocator


def sides_here() -> tuple[str, ...]:
    """Bfloat16, too, where it is any faster than float32: where it is not, its steps take very long."""
    return (*SIDES, *ROUNDED) if settle_precision("auto") == "bfloat16" else SIDES


@dataclass(frozen=True)
class Shape:
    name: str
    batch: int
    n_tokens: int
    n_targets: int


SHAPES = {s.name: s for s in (Shape("sentences", 330, 12, 4), Shape("windows", 40, 100, 33))}


class Problem:
    """One batch for both models: an interval of each text is predicted left to right."""

    def __init__(self, shape: Shape) -> None:
        torch.manual_seed(0)
        b, t, n = shape.batch, shape.n_tokens, shape.n_targets
        self.shape = shape
        self.ids = torch.randint(10, VOCABULARY, (b, t))
        start = torch.randint(0, t - n, (b, 1))
        content, queries, target = batched_insertion_places(
            torch.full((b,), t), start, start + n, torch.ones(b, dtype=torch.long), plain=True
        )
        self.relation = relate(content, queries, plain=True)
        self.labels = self.ids.gather(1, target)
        is_target = content.slot >= 0
        later_or_same = content.offset[:, None, :] >= content.offset[:, :, None]
        # the context sees no target; a target sees those before it
        hidden = is_target[:, None, :] & (~is_target[:, :, None] | later_or_same)
        self.perm_mask = hidden.float()
        self.target_mapping = F.one_hot(target, t).float()

    def theirs(self, model: XLNetLMHeadModel) -> torch.Tensor:
        output = model(input_ids=self.ids, perm_mask=self.perm_mask, target_mapping=self.target_mapping, use_mems=False)
        return F.cross_entropy(output.logits.flatten(0, 1), self.labels.flatten())

    def ours(self, model: XLEditorModel) -> torch.Tensor:
        states, _ = model.advance(self.ids, self.relation, n_read=self.shape.n_targets)
        return summed_cross_entropy(states.flatten(0, 1), model.lm_loss, self.labels.flatten()) / self.labels.numel()

    def gflop(self, config: XLNetConfig) -> float:
        """Multiply-adds that a forward pass needs, twice: projections, attention and vocabulary."""
        b, t, q = self.shape.batch, self.shape.n_tokens, self.shape.n_targets
        d, inner = config.d_model, config.d_inner
        total = 0
        for layer in range(config.n_layer):
            rows = b * q + (0 if layer == config.n_layer - 1 else b * t)
            total += 2 * b * t * 2 * d * d + 2 * rows * (2 * d * d + 2 * d * inner) + 2 * rows * t * 2 * d
        return (total + 2 * b * q * d * VOCABULARY) / 1e9


def models(dropout: float) -> tuple[XLNetLMHeadModel, XLEditorModel]:
    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=VOCABULARY, d_model=256, n_layer=4, n_head=4, d_inner=512, dropout=dropout)
    theirs = XLNetLMHeadModel(config)
    with tempfile.TemporaryDirectory() as directory:
        theirs.save_pretrained(directory)
        ours = XLEditorModel.from_pretrained(directory)
    return theirs, ours


# --- a side, in its own process -----------------------------------------------------------------------------------


def work(side: str, shape: Shape, threads: int) -> None:
    """Answer each line of standard input (`forward`, `training`, `memory`, `peak`, `loss`) with a number."""
    if side in AS_IT_COMES:
        torch.set_num_threads(threads)
    else:
        prepare_process(threads)
    precision = "bfloat16" if side in ROUNDED else "float32"
    problem = Problem(shape)
    theirs, ours = models(dropout=0.1)
    model, in_full = (ours, problem.ours) if side.startswith("ours") else (theirs, problem.theirs)
    del theirs, ours

    def loss(model: Any) -> torch.Tensor:
        with rounded_products(precision, torch.device("cpu")):
            return in_full(model)

    settled = memory_high_water_mark()
    for line in sys.stdin:
        started = time.perf_counter()
        if line.strip() == "training":
            model.train()
            model.zero_grad()
            loss(model).backward()
            answer = time.perf_counter() - started
        elif line.strip() == "memory":
            answer = memory_high_water_mark() - settled
        elif line.strip() == "peak":
            answer = gemm_peak()
        else:
            model.eval()
            with torch.no_grad():
                value = float(loss(model))
            answer = value if line.strip() == "loss" else time.perf_counter() - started
        print(answer, flush=True)


def memory_high_water_mark() -> float:
    """The most memory that this process has held so far, in MiB."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def gemm_peak() -> float:
    """GFLOP/s of a large product."""
    a = torch.randn(2048, 2048)
    durations = []
    for _ in range(10):
        started = time.perf_counter()
        a @ a
        durations.append(time.perf_counter() - started)
    return 2 * 2048**3 / statistics.median(durations) / 1e9


# --- the comparison -----------------------------------------------------------------------------------------------


class Worker:
    def __init__(self, side: str, shape: Shape, threads: int) -> None:
        command = [sys.executable, __file__, "--work", side, shape.name, "--threads", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, what: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(sides: tuple[str, ...], shape: Shape, rounds: int, threads: int) -> None:
    workers = {side: Worker(side, shape, threads) for side in sides}
    losses = {side: worker.ask("loss") for side, worker in workers.items() if side in SIDES}
    assert max(losses.values()) - min(losses.values()) < 1e-4, f"answers differ: {losses}"
    config = XLNetConfig(d_model=256, n_layer=4, n_head=4, d_inner=512)
    for what, passes in (("forward", 1), ("training", 3)):
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        peaks = []
        for turn in range(rounds + 2):
            for side, worker in workers.items():
                taken = worker.ask(what)
                if turn >= 2:  # the first ones warm up
                    seconds[side].append(taken)
            peaks.append(workers["ours"].ask("peak"))  # in every round: a shared machine's drifts within minutes
        peak = statistics.median(peaks)
        median = {side: statistics.median(taken) for side, taken in seconds.items()}
        needed = passes * Problem(shape).gflop(config)
        for side in sides:
            rate = needed / median[side]
            ratios = "".join(f"{median[side] / median[other]:10.2f}×" for other in sides if other.startswith("ours"))
            of_peak = f"{rate / peak:.0%} of {peak:.0f}"
            print(f"{shape.name:10} {what:9} {side:22}{1e3 * median[side]:9.1f}{rate:9.0f}{of_peak:>12}{ratios}")
    for side, worker in workers.items():
        print(f"{shape.name:10} memory    {side:22}{worker.ask('memory'):9.0f} MB")
    for worker in workers.values():
        worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=n_usable_cores())
    parser.add_argument("--work", nargs=2, metavar=("SIDE", "SHAPE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work[0], SHAPES[arguments.work[1]], arguments.threads)
        return
    print(f"torch {torch.__version__}, {arguments.threads} threads, paper size, vocabulary {VOCABULARY}, dropout 0.1")
    sides = sides_here()
    ratios = "".join(f"{f'{side} is':>11}" for side in ("ours", "in bf16")[: 1 + (ROUNDED[1] in sides)])
    print(f"{'batch':10} {'pass':9} {'':22}{'ms':>9}{'GFLOP/s':>9}{'of the peak':>12}{ratios}")
    for shape in SHAPES.values():
        compare(sides, shape, arguments.rounds, arguments.threads)


if __name__ == "__main__":
    main()
