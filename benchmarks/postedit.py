"""How fast whole files are post-edited, how much of the editor's bare speed that is, and whether the memory stays flat.

python benchmarks/postedit.py TEXTS [--sentences 10000] [--plot memory.png]

First, the editor's bare speed: processes that do nothing but `Editor.transfer_all`, as many as there are cores with one
thread each, and one with all threads. Then `xl-editor postedit` over distinct sentences of TEXTS (plain lines, also
.gz), beside which the memory of all its processes is read every second. Last, what larger jobs would cost.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from xl_editor import Editor
from xl_editor.postedit.formats import FileKind
from xl_editor.postedit.job import CHUNK_SIZE

FLOOR = 0.85  # of the bare speed
JOBS = (10**6, 10**8, 10**10)


@dataclass(frozen=True)
class How:
    """What is done with the texts."""

    model: str
    to: str
    preset: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--bare-sentences", type=int, default=4 * CHUNK_SIZE, help="for each process")
    parser.add_argument("--model", default="yelp")
    parser.add_argument("--to", default="positive")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--price", type=float, default=0.04, help="of a core-hour, in your currency")
    parser.add_argument("--plot", type=Path, help="draw the memory into this file")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    n_cores = len(os.sched_getaffinity(0))
    texts = distinct_lines(arguments.texts, arguments.sentences)
    print(f"{len(texts):,} distinct sentences, {n_cores} cores, preset {arguments.preset}")
    how = How(arguments.model, arguments.to, arguments.preset)

    # From the whole file: the sentences at its beginning may be shorter or longer than the others.
    sample = texts[:: max(1, len(texts) // arguments.bare_sentences)][: arguments.bare_sentences]
    modes = {f"{n_cores} × 1 thread": (n_cores, 1), f"1 × {n_cores} threads": (1, n_cores)}

    def bare() -> float:
        """The speed of the faster way."""
        found = {name: bare_speed(sample, how, *mode) for name, mode in modes.items()}
        for name, speed in found.items():
            print(f"bare, {name:14} {speed:7.2f} sentences/s")
        return max(found.values())

    before = bare()
    seconds, megabytes = run_job(texts, how, n_cores)
    # And once more after the job: a shared machine's speed drifts within minutes.
    speed, fastest = len(texts) / seconds, (before + bare()) / 2
    print(f"xl-editor postedit   {speed:7.2f} sentences/s, {speed / fastest:.1%} of the bare speed (floor {FLOOR:.0%})")
    # From the second tenth on all models are loaded, and all kinds of batches have been seen.
    early, late = (
        max(megabytes[int(len(megabytes) * a) : int(len(megabytes) * b) + 1]) for a, b in ((0.1, 0.5), (0.5, 1))
    )
    print(f"memory of all processes: at most {early:,.0f} MB until the middle, {late:,.0f} MB after it")
    if arguments.plot:
        plot(megabytes, arguments.plot)

    per_core = speed / n_cores
    print(f"\n{per_core:.2f} sentences a core-second\n")
    print("| sentences | core-hours | on 1,000 cores | cost |\n| --- | --- | --- | --- |")
    for job in JOBS:
        hours = job / per_core / 3600
        print(f"| {job:.0e} | {hours:,.0f} | {hours / 1000:,.1f} h | {hours * arguments.price:,.0f} |")


def distinct_lines(path: Path, n: int) -> list[str]:
    with path.open("rb") as stream, FileKind.of(path.name).reading(stream) as lines:
        found = dict.fromkeys(line.decode().strip() for line in islice(lines, 4 * n))
    return [line for line in found if line][:n]


def bare_speed(texts: list[str], how: How, n_processes: int, threads: int) -> float:
    """Sentences a second of processes that only edit, all at the same time."""
    context = get_context("spawn")
    ready, seconds = context.Barrier(n_processes), context.Queue()
    arguments = (texts, how, threads, ready, seconds)
    processes = [context.Process(target=edit, args=arguments) for _ in range(n_processes)]
    for process in processes:
        process.start()
    taken = [seconds.get() for _ in processes]
    for process in processes:
        process.join()
    return n_processes * len(texts) / max(taken)


def edit(texts: list[str], how: How, threads: int, ready: Barrier, seconds: Any) -> None:
    editor = Editor.from_pretrained(how.model, threads=threads)
    editor.transfer_all(texts[:8], how.to, preset=how.preset)
    ready.wait()
    started = time.perf_counter()
    editor.transfer_all(texts, how.to, preset=how.preset)
    seconds.put(time.perf_counter() - started)


def run_job(texts: list[str], how: How, n_processes: int) -> tuple[float, list[float]]:
    """Seconds of the whole command, from start to end, and its memory in MB, second by second."""
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory) / "in.txt", Path(directory) / "out.jsonl"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        command = [sys.executable, "-m", "xl_editor.cli", "postedit", str(source), str(target)]
        command += ["--model", how.model, "--to", how.to, "--preset", how.preset, "--processes", str(n_processes)]
        started = time.perf_counter()
        process = subprocess.Popen(command)
        megabytes = []
        while process.poll() is None:
            megabytes.append(sum(map(resident_megabytes, family(process.pid))))
            time.sleep(1)
        seconds = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(f"xl-editor postedit ended with {process.returncode}")
        assert [json.loads(line)["text"] for line in target.open(encoding="utf-8")] == texts
    return seconds, megabytes


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [pid, *(descendant for child in children for descendant in family(int(child)))]


def resident_megabytes(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def plot(megabytes: list[float], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.add_subplot(xlabel="seconds", ylabel="MB, all processes", ylim=(0, 1.2 * max(megabytes)))
    axes.plot(megabytes)
    figure.savefig(path)


if __name__ == "__main__":
    main()
