"""Post-editing of whole files, on one machine or a cluster: resumable, with the same output however it was made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Protocol, TypeVar

from xl_editor.postedit import local, storage
from xl_editor.postedit.answers import OPERATIONS, Task
from xl_editor.postedit.job import CHUNK_SIZE, STANDARD_STREAM, Job, JobError, plan, split_part
from xl_editor.postedit.progress import Progress
from xl_editor.postedit.summary import Summary

__all__ = ["OPERATIONS", "JobError", "Summary", "Task", "postedit"]

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


class Workers(Protocol):
    """What does the work: a module each."""

    def map_files(self, function: Callable[[Asked], Answered], files: Iterable[Asked], /) -> Iterable[Answered]:
        """Do something with each of a few files, in order."""

    def write_parts(self, job: Job, processes: int | None, /) -> Generator[int]:
        """Write the part of each chunk that remains; yields the number of rows whenever some are done."""


def postedit(
    source: str,
    target: str,
    task: Task,
    *,
    field: str | None = None,
    engine: str = "local",
    processes: int | None = None,
    chunk_size: int | None = None,
    threads: int = 1,
) -> Summary:
    """Do a task with every text of a file, a directory of files or standard input ("-").

    The same call goes on with a job that was interrupted, unless it reads standard input or writes standard output.

    Args:
        source: a path, or a URL that fsspec knows; its name says how it is written: .jsonl, .parquet, else lines.
        target: the same for the output; a directory if the source is one.
        task: what to do.
        field: which field of JSON lines, or column of Parquet, holds the text; "text" by default.
        engine: "local" or "ray".
        processes: how many work at a time; as many as there are cores by default.
        chunk_size: rows that are answered together; by default as many as the editor takes at once. This and the
            number of threads can change the last digits of a score.
        threads: of each process.
    """
    for name, value in (("processes", processes), ("chunk_size", chunk_size), ("threads", threads)):
        if value is not None and value < 1:
            raise JobError(f"{name} must be at least 1, got {value}.", name)
    if target == STANDARD_STREAM and sys.stdout is None:
        raise JobError("Standard output is closed.")
    workers = _workers(engine, to_files=STANDARD_STREAM not in (source, target))
    job = plan(
        source,
        target,
        task,
        field=field,
        chunk_size=chunk_size or CHUNK_SIZE,
        threads=threads,
        survey=workers.map_files,
    )
    task.check(job.load_editor())
    if target == STANDARD_STREAM:
        return _stream(job, processes)
    with storage.alone_in(job.directory):
        summary = job.begin()
        if summary is None:
            progress = Progress(job.n_rows, job.n_rows_done())
            with closing(progress), closing(workers.write_parts(job, processes)) as done:
                for n_rows in done:
                    progress.advance(n_rows)
            summary = job.finish(workers.map_files(job.join, range(len(job.files))))
    return summary


def _workers(engine: str, *, to_files: bool) -> Workers:
    if engine == "local":
        return local
    if engine != "ray":
        raise JobError(f"engine must be local or ray, got {engine!r}.", "engine")
    if not to_files:
        raise JobError("The engine ray reads and writes files, not standard input and output.")
    from xl_editor.postedit import ray_engine

    return ray_engine


def _stream(job: Job, processes: int | None) -> Summary:
    """Answer to standard output, as it comes."""
    total = Summary()

    def rows() -> Iterator[bytes]:
        nonlocal total
        with closing(local.answer_chunks(job, processes)) as answered:
            for _, part in answered:
                summary, rendered = split_part(part)
                total = total + summary
                yield rendered
                sys.stdout.buffer.flush()

    job.files[0].target_kind.format.join(rows(), sys.stdout.buffer)
    return total
