"""A job: fixed chunks of consecutive rows, each answered by itself and kept as a part; in the end the parts are joined.

    OUT.job/manifest.json     what the job is; whoever goes on with it must ask for the same
    OUT.job/parts/F/C         chunk C of file F: a line with its summary, then its rows as they will stand in the output
    OUT                       appears when all parts are there
    OUT.summary.json          written last; after that, OUT.job is removed

A chunk is computed the same way wherever and however often that happens: its rows, the model and the number of threads
are all that matters. So a job may be killed at any moment, and whatever is done twice is done alike.
"""

from __future__ import annotations

import json
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO

import torch

from xl_editor import __version__
from xl_editor.editor import TEXTS_AT_ONCE, Editor
from xl_editor.errors import RequestError
from xl_editor.files import PARTIAL
from xl_editor.model import CONFIG_FILE, WEIGHTS_FILE
from xl_editor.models import find_model
from xl_editor.postedit import storage
from xl_editor.postedit.answers import Answer, Task
from xl_editor.postedit.formats import (
    DEFAULT_FIELD,
    JSON_LINES,
    LINES,
    FileKind,
    FormatError,
    Rows,
    Unreadable,
    render_json,
)
from xl_editor.postedit.summary import Summary
from xl_editor.text import TOKENIZER_FILE

STANDARD_STREAM = "-"
MANIFEST, PARTS = "manifest.json", "parts"  # what a job keeps in its directory
CHUNK_SIZE = TEXTS_AT_ONCE  # rows: as many as the editor takes at once


class JobError(RequestError):
    """A job that cannot be begun or gone on with, in one sentence."""


@dataclass(frozen=True)
class InputFile:
    """A file to read, and the one to write."""

    name: str  # below the input directory, if it is one
    source: str
    target: str
    kind: FileKind
    target_kind: FileKind
    n_rows: int | None = None  # not known of standard input
    digest: str | None = None

    def surveyed(self, field: str) -> InputFile:
        """With its number of rows and its digest; refused if it cannot be read to its end."""
        try:
            with self.open() as stream:
                self.kind.format.check(stream, field)
            with self.open() as stream:
                n_rows = self.kind.format.count(stream)
        except (FormatError, EOFError, OSError, zlib.error) as error:
            raise JobError(f"{self.source} cannot be read: {error}") from None
        return replace(self, n_rows=n_rows, digest=storage.digest(self.source))

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        if self.source == STANDARD_STREAM:
            if sys.stdin is None:
                raise JobError("Standard input is closed.")
            yield sys.stdin.buffer
            return
        with storage.open_input(self.source) as stream, self.kind.reading(stream) as unpacked:
            yield unpacked


@dataclass(frozen=True)
class Chunk:
    file: int
    index: int
    rows: Rows


@dataclass(frozen=True)
class Job:
    target: str
    task: Task
    model_digest: str
    field: str
    chunk_size: int
    threads: int
    files: tuple[InputFile, ...]

    @property
    def directory(self) -> str:
        return f"{self.target.rstrip('/')}.job"

    @property
    def summary_url(self) -> str:
        return f"{self.target.rstrip('/')}.summary.json"

    @property
    def resumable(self) -> bool:
        return all(file.digest is not None for file in self.files)

    @property
    def n_rows(self) -> int | None:
        return sum(file.n_rows or 0 for file in self.files) if self.resumable else None

    def part_url(self, file: int, index: int) -> str:
        return f"{self._parts_of(file)}/{index:08d}"

    def _parts_of(self, file: int) -> str:
        return f"{self.directory}/{PARTS}/{file:06d}"

    def done(self, file: int) -> set[int]:
        """The chunks of a file that have been answered."""
        directory = self._parts_of(file)
        return {int(name) for name in storage.names_below(directory)} if storage.exists(directory) else set()

    def n_rows_done(self) -> int:
        """In all parts that are there."""
        done = 0
        for number, file in enumerate(self.files):
            n_rows = file.n_rows or 0
            done += sum(min(self.chunk_size, n_rows - index * self.chunk_size) for index in self.done(number))
        return done

    def chunks(self) -> Iterator[Chunk]:
        """All chunks that remain to be answered, in order."""
        for number in range(len(self.files)):
            yield from self.chunks_of(number)

    def chunks_of(self, number: int) -> Iterator[Chunk]:
        file, done = self.files[number], self.done(number) if self.target != STANDARD_STREAM else set()
        n_rows = 0
        with file.open() as stream:
            for index, rows in enumerate(file.kind.format.read(stream, self.chunk_size)):
                n_rows += len(rows)
                if index not in done:
                    yield Chunk(number, index, rows)
        if file.n_rows is not None and n_rows != file.n_rows:
            raise JobError(f"{file.source} changed while it was read: it had {file.n_rows:,} rows, now {n_rows:,}.")

    def answer(self, editor: Editor, chunk: Chunk) -> bytes:
        """The part for a chunk."""
        file = self.files[chunk.file]
        texts = file.kind.format.texts(chunk.rows, self.field)
        found = iter(self.task.answer(editor, [text for text in texts if not isinstance(text, Unreadable)]))
        answers = [Answer(error=text.reason) if isinstance(text, Unreadable) else next(found) for text in texts]
        summary = Summary.of(texts, answers, file.name, chunk.index * self.chunk_size + 1)
        if file.kind.format.name == file.target_kind.format.name:
            rows = file.kind.format.render(chunk.rows, answers, self.field, self.task.fields)
        else:
            rows = render_json(file.kind.format.objects(chunk.rows, self.field), answers, self.field)
        return json.dumps(asdict(summary)).encode() + b"\n" + rows

    def load_editor(self) -> Editor:
        return Editor.from_pretrained(self.task.model, threads=self.threads)

    def join(self, number: int) -> Summary:
        """Write the output of a file from its parts, which must all be there."""
        file, indices = self.files[number], sorted(self.done(number))
        expected = len(indices) if file.n_rows is None else max(1, math.ceil(file.n_rows / self.chunk_size))
        if indices != list(range(expected)):
            raise JobError(f"Parts are missing in {self._parts_of(number)}; run the same command again.")
        summaries: list[Summary] = []

        def rows() -> Iterator[bytes]:
            for index in indices:
                summary, rendered = split_part(storage.read(self.part_url(number, index)))
                summaries.append(summary)
                yield rendered

        with storage.writing(file.target) as stream, file.target_kind.writing(stream) as packed:
            file.target_kind.format.join(rows(), packed)
        return Summary.total(summaries)

    def manifest(self) -> dict[str, Any]:
        files = [{"name": file.name, "rows": file.n_rows, "digest": file.digest} for file in self.files]
        made_with = {"xl_editor": __version__, "torch": torch.__version__, "model_digest": self.model_digest}
        settings = {"field": self.field, "chunk_size": self.chunk_size, "threads": self.threads}
        # As JSON has it, so that it can be compared with one that was read.
        return json.loads(json.dumps({**asdict(self.task), **settings, **made_with, "files": files}))

    def begin(self) -> Summary | None:
        """Begin, or go on with what was begun; the summary if all is done already."""
        if storage.exists(self.summary_url):
            return self._finished()
        manifest_url = f"{self.directory}/{MANIFEST}"
        if self.resumable and storage.exists(manifest_url):
            self._compare(_read_own(manifest_url, {"files"}), "begun", f"remove {self.directory}")
        elif storage.exists(self.target):
            raise JobError(f"{self.target} is there already; remove it, or name another output.")
        elif others := [name for name in storage.entries(self.directory) if not _is_own(name)]:
            raise JobError(
                f"{self.directory}, where the job would work, has {others[0]}, which is not of a job; "
                "name another output."
            )
        else:
            storage.remove_tree(f"{self.directory}/{PARTS}")
            for number in range(len(self.files)):
                storage.make_directory(self._parts_of(number))
            storage.write(manifest_url, json.dumps(self.manifest(), indent=1).encode())
        return None

    def finish(self, summaries: Iterable[Summary]) -> Summary:
        """Keep the summary of all files, and remove what was only needed on the way."""
        total = Summary.total(summaries)
        for file in self.files:  # parts of two versions would make an output of neither
            if file.digest is not None and storage.digest(file.source) != file.digest:
                raise JobError(
                    f"{file.source} changed while it was read, so {file.target} may be of both versions; remove it and "
                    f"{self.directory} to begin again."
                )
        sizes = {file.name: storage.size(file.target) for file in self.files}
        kept = {"summary": asdict(total), "bytes": sizes, "job": self.manifest()}
        storage.write(self.summary_url, json.dumps(kept, indent=1).encode())
        self._clear()
        return total

    def _clear(self) -> None:
        """Remove the job's directory, unless somebody else keeps something there."""
        for name in filter(_is_own, storage.entries(self.directory)):
            storage.remove_tree(f"{self.directory}/{name}")
        if not storage.entries(self.directory):
            storage.remove_tree(self.directory)

    def _finished(self) -> Summary:
        kept = _read_own(self.summary_url, {"summary", "bytes", "job"})
        if not self.resumable:
            raise JobError(f"{self.target} is complete; remove it and {self.summary_url} to make it again.")
        self._compare(kept["job"], "made", f"remove {self.target} and {self.summary_url}")
        for file in self.files:
            if not storage.exists(file.target) or storage.size(file.target) != kept["bytes"][file.name]:
                raise JobError(
                    f"{file.target} is not as the job left it; remove what there is of {self.target}, "
                    f"and {self.summary_url}, to make it again."
                )
        self._clear()  # if it was killed just before that
        return Summary.from_dict(kept["summary"])

    def _compare(self, begun: dict[str, Any], was: str, to_begin_anew: str) -> None:
        asked = self.manifest()
        if begun.get("files") != asked["files"]:
            before = {file["name"]: file for file in begun.get("files", [])}
            now = {file["name"]: file for file in asked["files"]}
            changed = next(name for name in [*now, *before] if now.get(name) != before.get(name))
            raise JobError(
                f"The input {changed} has changed since {self.target} was {was}; {to_begin_anew} to begin anew."
            )
        for name, value in asked.items():
            if begun.get(name) != value:
                raise JobError(
                    f"{name} is {value!r}, but {self.target} was {was} with {begun.get(name)!r}; "
                    f"ask for the same, or {to_begin_anew} to begin anew.",
                    name,
                )


def _is_own(name: str) -> bool:
    """Whether a job makes this in its directory: also what it was writing when it was killed."""
    return name in (MANIFEST, PARTS) or name.startswith(PARTIAL)


def _read_own(url: str, names: set[str]) -> dict[str, Any]:
    """What a job wrote as JSON, by these names at least."""
    try:
        kept = json.loads(storage.read(url))
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not names <= kept.keys():
        raise JobError(f"{url} was not written by postedit; remove it, or name another output.")
    return kept


def split_part(part: bytes) -> tuple[Summary, bytes]:
    header, _, rows = part.partition(b"\n")
    return Summary.from_dict(json.loads(header)), rows


def plan(
    source: str,
    target: str,
    task: Task,
    *,
    field: str | None,
    chunk_size: int,
    threads: int,
    survey: Callable[[Callable[[InputFile], InputFile], list[InputFile]], Iterable[InputFile]],
) -> Job:
    """What is to be done, from what the user asks for; `survey` maps a function over files."""
    files = _files(source, target, field)
    for file in files:
        if not file.target_kind.writable_from(file.kind):
            raise JobError(
                f"{target} would hold {file.target_kind.format.name}, but the input holds {file.kind.format.name}: "
                "name an output of the same kind, or .jsonl."
            )
        if file.kind.format is LINES and field:
            raise JobError(f"field must be left out: {file.name} holds plain lines.", "field")
        if file.target_kind.format is LINES and (task.trace or task.operation == "locate"):
            asked = "trace" if task.trace else task.operation
            raise JobError(f"Plain lines have no place for what {asked} tells; name an output .jsonl.")
    column = field or DEFAULT_FIELD
    if source != STANDARD_STREAM:
        files = list(survey(lambda file: file.surveyed(column), files))
    return Job(target, task, _model_digest(task.model), column, chunk_size, threads, tuple(files))


def _files(source: str, target: str, field: str | None) -> list[InputFile]:
    if source == STANDARD_STREAM:
        kind = FileKind(JSON_LINES if field else LINES, None)
        return [InputFile("standard input", source, target, kind, _target_kind(target, kind))]
    if not storage.exists(source):
        raise JobError(f"There is no {source}.")
    if target != STANDARD_STREAM and f"{storage.canonical(target)}/".startswith(f"{storage.canonical(source)}/"):
        raise JobError(f"The output, {target}, must be elsewhere than the input, {source}.")
    if not storage.is_directory(source):
        kind = FileKind.of(source)
        return [InputFile(source.rsplit("/", 1)[-1], source, target, kind, _target_kind(target, kind))]
    if target == STANDARD_STREAM:
        raise JobError("The output of a directory is a directory, not standard output.")
    if FileKind.of(target) != FileKind.of(""):
        raise JobError(f"The output of a directory is a directory, and {target} is called as a file is.")
    names = storage.names_below(source)
    if not names:
        raise JobError(f"{source} holds no files.")
    source, target = source.rstrip("/"), target.rstrip("/")
    kinds = {name: FileKind.of(name) for name in names}
    return [InputFile(n, f"{source}/{n}", f"{target}/{n}", kinds[n], kinds[n]) for n in names]


def _target_kind(target: str, kind: FileKind) -> FileKind:
    return FileKind(kind.format, None) if target == STANDARD_STREAM else FileKind.of(target)


def _model_digest(model: str) -> str:
    directory = find_model(model)
    return "-".join(
        storage.digest(os.fspath(directory / name))[:16] for name in (CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE)
    )
