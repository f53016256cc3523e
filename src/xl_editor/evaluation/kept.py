"""Results that took long to make are kept: the same question, asked of the same weights, is answered from a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from xl_editor.errors import RequestError
from xl_editor.files import content_digest, unpacked, write_whole

METHODS = 2  # to be raised whenever the same model would answer otherwise


def kept(directory: Path, question: Sequence[Any], weights: Iterable[Tensor], make: Callable[[], Any]) -> Any:
    """What `make` gives, as JSON does, or gave for the same question, weights and methods."""
    path = directory / f"{_fingerprint(question, weights)}.json"
    if not path.exists():
        made = json.dumps(make())
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(path, made)
    return json.loads(path.read_text(encoding="utf-8"))


class KeptAnswers:
    """Answers of the same weights to a series of questions, a line each: an interrupted series goes on where it was."""

    def __init__(self, directory: Path, series: Sequence[Any], weights: Iterable[Tensor]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"{_fingerprint(series, weights)}.jsonl"
        self._path.touch()
        written = self._path.read_text(encoding="utf-8")
        whole = written[: written.rfind("\n") + 1]
        if whole != written:
            write_whole(self._path, whole)  # without the line that an interruption has cut short
        self._found: dict[str, Any] = dict(map(json.loads, whole.splitlines()))

    def __call__(self, question: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, as JSON does, or gave."""
        if question not in self._found:
            line = json.dumps([question, make()])
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
            self._found[question] = json.loads(line)[1]
        return self._found[question]


def claim(directory: Path, name: str, files: Iterable[Path]) -> None:
    """Keep a directory for what is made from these files, however they are packed.

    One that holds what was made from others is refused.
    """
    digests = []
    for file in files:
        with unpacked(file) as stream:
            digests.append(content_digest(stream))
    path, written = directory / f"{name}.sha256", "\n".join(digests)
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(path, written)
    elif path.read_text(encoding="ascii") != written:
        raise RequestError(
            f"{directory} holds what was made from other {name} data; choose another directory to work in."
        )


def _fingerprint(question: Sequence[Any], weights: Iterable[Tensor]) -> str:
    digest = hashlib.sha256(json.dumps([METHODS, *question]).encode())
    for tensor in weights:
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]
