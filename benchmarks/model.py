"""The model against Hugging Face's XLNet: time and memory of a forward pass and of a training step.

Both get the same tokens, the same targets (partial prediction through `perm_mask` and `target_mapping` there) and the
same random weights, in the plain geometry that both know. Runs are interleaved; medians are reported. Answers are
checked equal first.

    python benchmarks/model.py [--rounds 15] [--threads N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F
from transformers import XLNetConfig, XLNetLMHeadModel

from xl_editor.geometry import batched_insertion_places, relate
from xl_editor.model import XLEditorModel
from xl_editor.training.objectives import summed_cross_entropy
from xl_editor.training.run import prepare_process

VOCABULARY = 9_500


@dataclass(frozen=True)
class Shape:
    name: str
    batch: int
    n_tokens: int
    n_targets: int


SHAPES = (Shape("sentences", 125, 12, 4), Shape("windows", 15, 100, 33))


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
    config = XLNetConfig(vocab_size=VOCABULARY, d_model=256, n_layer=4, n_head=4, d_inner=512, dropout=dropout)
    theirs = XLNetLMHeadModel(config)
    with tempfile.TemporaryDirectory() as directory:
        theirs.save_pretrained(directory)
        ours = XLEditorModel.from_pretrained(directory)
    return theirs, ours


def interleaved(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call, one after the other, again and again."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def gemm_peak() -> float:
    """GFLOP/s of a large product."""
    a = torch.randn(2048, 2048)
    durations = interleaved({"gemm": lambda: a @ a}, 10)["gemm"]
    return 2 * 2048**3 / statistics.median(durations) / 1e9


def peak_memory(side: str, shape: Shape) -> float:
    """MiB that a training step adds, in a process of its own."""
    code = (
        "import sys; sys.path.insert(0, 'benchmarks'); import model as m\n"
        f"problem = m.Problem(m.SHAPES[{SHAPES.index(shape)}]); theirs, ours = m.models(0.1)\n"
        "before = m.high_water_mark()\n"
        f"side, call = ({side!r}, problem.{side})\n"
        "[call({'theirs': theirs, 'ours': ours}[side].train()).backward() for _ in range(2)]\n"
        "print(m.high_water_mark() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def high_water_mark() -> float:
    """The most memory that this process has held so far, in MiB."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    prepare_process(arguments.threads)
    peak = gemm_peak()
    print(f"torch {torch.__version__}, {arguments.threads} threads, GEMM peak {peak:.0f} GFLOP/s")
    print(f"{'batch':10} {'pass':9} {'HF ms':>8} {'ours ms':>8} {'ratio':>6} {'GFLOP/s':>8} {'of peak':>8}")
    for shape in SHAPES:
        problem = Problem(shape)
        theirs, ours = models(dropout=0.1)
        with torch.no_grad():
            torch.testing.assert_close(problem.ours(ours.eval()), problem.theirs(theirs.eval()), atol=1e-4, rtol=0)

        def step(loss: Callable[..., torch.Tensor], model: XLNetLMHeadModel | XLEditorModel) -> Callable[[], None]:
            def run() -> None:
                model.train()
                model.zero_grad()
                loss(model).backward()

            return run

        def forward(loss: Callable[..., torch.Tensor], model: XLNetLMHeadModel | XLEditorModel) -> Callable[[], object]:
            def run() -> object:
                model.eval()
                with torch.no_grad():
                    return loss(model)

            return run

        for name, make, passes in (("forward", forward, 1), ("training", step, 3)):
            calls: dict[str, Callable[[], object]] = {
                "theirs": make(problem.theirs, theirs),
                "ours": make(problem.ours, ours),
            }
            seconds = {side: statistics.median(s) for side, s in interleaved(calls, arguments.rounds).items()}
            rate = passes * problem.gflop(theirs.config) / seconds["ours"]
            print(
                f"{shape.name:10} {name:9} {1e3 * seconds['theirs']:8.1f} {1e3 * seconds['ours']:8.1f} "
                f"{seconds['theirs'] / seconds['ours']:5.2f}× {rate:8.0f} {rate / peak:8.0%}"
            )
        memory = {side: peak_memory(side, shape) for side in ("theirs", "ours")}
        print(f"{shape.name:10} memory    {memory['theirs']:5.0f} MB {memory['ours']:5.0f} MB")


if __name__ == "__main__":
    main()
