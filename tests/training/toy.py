"""A toy language, tiny recipes, and the real command, run in processes of their own.

The processes are forked from one that has imported everything, which would take each of them seconds.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random
from threading import Timer
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


# oneDNN then keeps from AMX, which some virtual machines have without saying how to set it up; any machine obeys.
WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


def training_sentences(style: str = "", n: int = 3000) -> list[str]:
    random = Random(style)
    chosen: list[str] = []
    while len(chosen) < n:
        pairs = [random.randrange(N_PAIRS) if random.random() < 0.75 else None for _ in KINDS]
        if style and pairs[0] is None:  # where it would show
            continue
        has_held_out = any(a is not None and b == (a + 1) % N_PAIRS for a, b in pairwise(pairs))
        if any(pair is not None for pair in pairs) and not has_held_out:
            chosen.append(sentence(pairs, style))
    return chosen


def write_lines(path: Path, lines: Iterable[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path.name


def styled_files(directory: Path, styles: tuple[str, ...]) -> dict[str, dict[str, str]]:
    return {
        part: {style: write_lines(directory / f"{part}.{style}", lines(style)) for style in styles}
        for part, lines in (("train", training_sentences), ("dev", held_out_sentences))
    }


# --- recipes ---------------------------------------------------------------------------------------------------


def write_recipe(directory: Path, **sections: Any) -> Path:
    """A recipe for a tiny model of the toy language. A section given is merged; one that is None is left out."""
    recipe: dict[str, Any] = {
        "objective": "xl-editor",
        "data": {"dir": str(directory), "max_tokens": 16},
        "vocabulary": {"kind": "word"},
        "model": {"n_layer": 2, "n_head": 4, "d_model": 64, "d_inner": 128, "dropout": 0.0},
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


def log_often() -> None:
    import xl_editor.training.run as run

    run.LOG_EVERY_STEPS = 5


def signal_in_step(number: int, step: int, seconds: float = 0.0) -> None:
    """Get a signal this long after a step of this process, counted from 1, has begun."""
    from xl_editor.training.trainer import InsertionTrainer

    begin = InsertionTrainer.training_step
    begun: set[int] = set()

    def training_step(self: Any, *arguments: Any) -> Any:
        begun.add(self.state.global_step)
        if len(begun) == step:
            begun.add(-1)  # once
            if seconds:
                Timer(seconds, os.kill, (os.getpid(), number)).start()
            else:
                os.kill(os.getpid(), number)
        return begin(self, *arguments)

    InsertionTrainer.training_step = training_step


def kill_in_save(where: str, number: int) -> None:
    """Die by SIGKILL in the middle of a save, the so-and-so-many-th of this process.

    `weights` and `optimizer`: half of that file is written; `rename`: all is written, and nothing has its name yet;
    `rotation`: half of an old checkpoint is deleted.
    """
    import shutil

    import torch

    import xl_editor.model as model
    import xl_editor.training.trainer as trainer

    left = [number]

    def dies(
        call: Callable[..., Any], halve: Callable[..., object], concerns: Callable[..., bool]
    ) -> Callable[..., Any]:
        def dying(*arguments: Any, **options: Any) -> Any:
            if concerns(*arguments):
                left[0] -= 1
            if concerns(*arguments) and not left[0]:
                halve(*arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return dying

    def half_written(call: Callable[..., Any]) -> Callable[..., object]:
        def halve(content: Any, path: Any, **options: Any) -> None:
            call(content, path, **options)
            os.truncate(path, os.path.getsize(path) // 2)

        return halve

    def half_deleted(path: Any, **_: Any) -> None:
        files = sorted(Path(path).iterdir())
        for file in files[: len(files) // 2]:
            file.unlink()

    def is_whole_checkpoint(path: Any, *_: Any) -> bool:
        return Path(path).name.startswith("checkpoint-") and Path(path).is_dir()

    if where == "weights":
        model.save_file = dies(model.save_file, half_written(model.save_file), lambda *_: True)
    elif where == "optimizer":
        torch.save = dies(torch.save, half_written(torch.save), lambda _, path, *__: "optimizer" in str(path))
    elif where == "rename":
        trainer.sync_tree = dies(trainer.sync_tree, lambda _: None, lambda _: True)
    elif where == "rotation":
        shutil.rmtree = dies(shutil.rmtree, half_deleted, is_whole_checkpoint)
    else:
        raise ValueError(where)


if __name__ == "__main__":  # under torchrun: the command, with a log of every step
    from xl_editor.cli import main

    log_every_step()
    main()
