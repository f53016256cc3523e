"""The network on ONNX Runtime beside torch's: cold starts, and what the engine asks of a warm one. One thread.

    python benchmarks/network.py [--model yelp] [--rounds 7]

Sides take turns. Seconds are those that the processor worked, so that a busy neighbour counts less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

MODELS = Path(__file__).parents[1] / "src/xl_editor/models"
SIDES = ("torch", "onnx", "int8")
N_CONTEXT, N_DECODED = 200, 20  # tokens before and after the blank, and in it
N_WORDS, MAX_SPAN = 12, 3  # of a sentence of which every span is scored


def opened(side: str, directory: Path) -> Any:
    if side == "torch":
        import torch

        from xl_editor.network.torch import TorchNetwork

        torch.set_num_threads(1)
        return TorchNetwork.from_pretrained(directory)
    from xl_editor.network.onnx import OnnxNetwork

    return OnnxNetwork(directory, int8=side == "int8", threads=1)


def relation(rows: list[tuple[int, int]], keys: list[tuple[int, int]], n_content: int) -> SimpleNamespace:
    """Of tokens that stand at (position, offset in what is inserted, from 1; 0 for the context): see geometry.py."""
    (i, k), (j, m) = (np.array(places, dtype=int).reshape(-1, 2).T for places in (rows, keys))
    i, k = i[:, None], k[:, None]
    itself = np.arange(len(rows))[:, None] < n_content
    visible = (m == 0) | ((k > 0) & np.where(itself, m <= k, m < k))
    to_left = np.where(k > 0, k - 1, 0) - np.where(m > 0, m - 1, 0)
    distance = np.where(visible, i - j + np.where(j <= i, to_left, -(k > 0).astype(int)), 0)
    return SimpleNamespace(distance=distance[None], visible=visible[None], other_segment=None)


def decode(network: Any, n_context: int, n_decoded: int) -> list[int]:
    """One blank in the middle of a text, greedily, and no END."""
    slot = n_context // 2
    keys = [(position + (position >= slot), 0) for position in range(n_context)]
    ids = np.random.default_rng(0).integers(10, 2000, (1, n_context))
    _, cache = network.advance(ids, relation(keys, keys, n_context), n_read=0)
    inserted: list[int] = []
    for k in range(n_decoded):
        new = [(slot, k)] if k else []
        keys = keys + new
        ids = np.array([inserted[-1:]], dtype=int)
        states, cache = network.advance(ids, relation([*new, (slot, k + 1)], keys, len(new)), n_read=1, cache=cache)
        inserted.append(int(network.logprobs(states[:, 0])[0, 10:].argmax()) + 10)
    return inserted


def score_spans(network: Any) -> np.ndarray[Any, Any]:
    """All spans of a sentence, each as an insertion into what is left without it; a length at a time."""
    text = np.random.default_rng(1).integers(10, 2000, N_WORDS)
    found = []
    for length in range(1, MAX_SPAN + 1):
        starts = range(N_WORDS - length + 1)
        relations = []
        for start in starts:
            content = [
                (start, t - start + 1) if start <= t < start + length else (t - (t > start) * (length - 1), 0)
                for t in range(N_WORDS)
            ]
            rows = [*content, *((start, k + 1) for k in range(length + 1))]
            relations.append(relation(rows, content, N_WORDS))
        asked = SimpleNamespace(
            distance=np.concatenate([r.distance for r in relations]),
            visible=np.concatenate([r.visible for r in relations]),
            other_segment=None,
        )
        states, _ = network.advance(np.tile(text, (len(starts), 1)), asked, n_read=length + 1)
        wanted = np.array([[*text[start : start + length], 5] for start in starts]).ravel()
        found.append(network.wanted_logprobs(states.reshape(len(wanted), -1), np.arange(len(wanted)), wanted))
    return np.concatenate(found)


def start_cold(side: str, directory: Path) -> None:
    """In a process of its own: everything that an answer wants, and what it took."""
    decode(opened(side, directory), 12, 3)
    memory = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    print(json.dumps({"seconds": time.process_time(), "megabytes": int(memory) / 1024}))


def turns(tasks: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds + 1):
        for name, task in tasks.items():
            started = time.process_time()
            task()
            seconds[name].append(time.process_time() - started)
    return {name: 1000 * statistics.median(taken[1:]) for name, taken in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="yelp")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cold", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    directory = MODELS / arguments.model
    if arguments.cold:
        start_cold(arguments.cold, directory)
        return
    rows: dict[str, dict[str, float]] = {"cold start, s": {}, "cold start, MB": {}}
    cold: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for _ in range(arguments.rounds):
        for side in SIDES:
            command = [sys.executable, __file__, "--model", arguments.model, "--cold", side]
            told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            cold[side].append(json.loads(told))
    for side, told_of in cold.items():
        rows["cold start, s"][side] = statistics.median(told["seconds"] for told in told_of)
        rows["cold start, MB"][side] = statistics.median(told["megabytes"] for told in told_of)
    networks = {side: opened(side, directory) for side in SIDES}

    decoding = {side: partial(decode, network, N_CONTEXT, N_DECODED) for side, network in networks.items()}
    scoring = {side: partial(score_spans, network) for side, network in networks.items()}
    rows[f"decode {N_DECODED} tokens into {N_CONTEXT}, ms"] = turns(decoding, arguments.rounds)
    rows[f"score all spans of {N_WORDS} tokens, ms"] = turns(scoring, arguments.rounds)
    print(f"| {arguments.model} | {' | '.join(SIDES)} |\n| --- | --- | --- | --- |")
    for name, values in rows.items():
        figures = [f"{values[side]:.2f} ({values['torch'] / values[side]:.2f}×)" for side in SIDES]
        print(f"| {name} | {' | '.join(figures)} |")
    exact, found, rounded = (score_spans(network) for network in networks.values())
    far, farther = (np.abs(other - exact).max() for other in (found, rounded))
    print(f"Log-probabilities differ by at most {far:.1e}, int8's by {farther:.2f}.")
    same = [a == b for a, b in zip(*(decode(networks[side], N_CONTEXT, N_DECODED) for side in SIDES[:2]), strict=True)]
    print(f"Decoded tokens that are the same: {sum(same)} of {len(same)}.")


if __name__ == "__main__":
    main()
