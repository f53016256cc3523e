"""A toy language, tiny recipes, and the real command, run in processes of their own.

The processes are forked from one that has imported everything, which would take each of them seconds.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from typing import Any

import yaml

SECONDS = 600  # after which a run hangs
KINDS = ("ab", "lm", "xy")  # the letters of a pair
N_PAIRS = 12  # of each kind

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["xl_editor.cli", "xl_editor.training.run", "matplotlib.figure"])


# --- the language ----------------------------------------------------------------------------------------------


def sentence(pairs: Sequence[int | None], style: str = "") -> str:
    """Pairs of words, each kind in its place or left out. A style shows in the first pair."""
    words = []
    for kind, number in enumerate(pairs):
        if number is not None:
            first, second = KINDS[kind]
            words += [f"{first}{number}", f"{second}{number}{'' if kind else style}"]
    return " ".join(words)


def held_out_sentences(style: str = "") -> list[str]:
    """No pair is new in these, but no two of them have met before. All kinds are there, so nothing can be added,
    and what is missing can be told exactly.
    """
    return [sentence([n, (n + 1) % N_PAIRS, (n + shift) % N_PAIRS], style) for n in range(N_PAIRS) for shift in (2, 3)]


def training_sentences(style: str = "", n: int = 1200) -> list[str]:
    random = Random(style)
    chosen: list[str] = []
    while len(chosen) < n:
        pairs = [random.randrange(N_PAIRS) if random.random() < 0.75 else None for _ in KINDS]
        has_held_out = any(a is not None and b == (a + 1) % N_PAIRS for a, b in pairwise(pairs))
        if any(pair is not None for pair in pairs) and not has_held_out:
            chosen.append(sentence(pairs, style))
    return chosen


def write_lines(path: Path, lines: Iterable[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path.name


# --- recipes ---------------------------------------------------------------------------------------------------


def write_recipe(directory: Path, **sections: Any) -> Path:
    """A recipe for a tiny model of the toy language. A section given is merged; one that is None is left out."""
    recipe: dict[str, Any] = {
        "objective": "xl-editor",
        "data": {"dir": str(directory), "max_tokens": 16},
        "vocabulary": {"kind": "word"},
        "model": {"n_layer": 2, "n_head": 2, "d_model": 64, "d_inner": 128, "dropout": 0.0},
        "sampling": {},
        "optim": {
            "learning_rate": 3e-3,
            "tokens_per_step": 400,
            "tokens_per_batch": 400,
            "steps": 10,
            "eval_every": 1000,
            "save_every_minutes": 60,
            "threads": 1,
        },
    }
    for name, section in sections.items():
        is_merged = isinstance(section, dict) and name in recipe and "init" not in section
        recipe[name] = {**recipe[name], **section} if is_merged else section
    if "train" not in recipe["data"]:
        recipe["data"]["train"] = write_lines(directory / "train.txt", training_sentences())
        recipe["data"]["dev"] = write_lines(directory / "dev.txt", held_out_sentences())
    path = directory / "recipe.yaml"
    written = {name: section for name, section in recipe.items() if section is not None}
    path.write_text(yaml.safe_dump(written), encoding="utf-8")
    return path


# --- the command -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    process: ForkServerProcess
    output: Path

    def wait(self) -> int:
        """The exit code; negative if a signal ended it."""
        self.process.join(SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
            raise TimeoutError(f"The run hangs. It said: {self.said}")
        return self.process.exitcode

    @property
    def said(self) -> str:
        """What it wrote to standard output and standard error, all runs in this directory one after the other."""
        return said_file(self.output).read_text(encoding="utf-8")


def said_file(output: Path) -> Path:
    return output.with_name(f"{output.name}.said")


def start(
    recipe: Path,
    output: Path,
    *arguments: str,
    before: Callable[[], None] | None = None,
    environment: dict[str, str] | None = None,
) -> Run:
    """Start `xl-editor train`; `before` is called first, in its process."""
    argv = ["xl-editor", "train", str(recipe), "--output", str(output), *arguments]
    environment = {"XL_EDITOR_CACHE": str(output.parent / "cache"), **(environment or {})}
    process = _forks.Process(target=_command, args=(argv, said_file(output), before, environment))
    process.start()
    return Run(process, output)


def train(recipe: Path, output: Path, *arguments: str, **how: Any) -> Path:
    """Train to the end; the output directory."""
    run = start(recipe, output, *arguments, **how)
    assert run.wait() == 0, run.said
    return output


def log_of(output: Path, key: str) -> list[float]:
    """The values of a key in a run's log."""
    entries = [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [entry[key] for entry in entries if key in entry]


def _command(argv: list[str], said: Path, before: Callable[[], None] | None, environment: dict[str, str]) -> None:
    descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.update(environment)
    sys.argv = argv
    from xl_editor.cli import main

    if before is not None:
        before()
    main()


# --- what a test may change in a run ---------------------------------------------------------------------------


def log_every_step() -> None:
    import xl_editor.training.run as run

    run.LOG_EVERY_STEPS = 1
