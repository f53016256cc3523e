"""The engine for one machine: processes with a model each."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from itertools import islice
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from xl_editor.cores import n_usable_cores
from xl_editor.editor import Editor
from xl_editor.postedit import storage
from xl_editor.postedit.job import Chunk, Job, JobError

CHUNKS_PER_PROCESS = 4  # that wait or are worked on: what bounds the memory
MAX_DEATHS = 3  # of workers, one after the other, with no chunk answered in between

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


def map_files(function: Callable[[Asked], Answered], files: Iterable[Asked]) -> Iterable[Answered]:
    return map(function, files)


def write_parts(job: Job, processes: int | None) -> Generator[int]:
    """Write the part of each chunk that remains; yields the number of rows."""
    with closing(answer_chunks(job, processes)) as answered:
        for chunk, part in answered:
            storage.write(job.part_url(chunk.file, chunk.index), part)
            yield len(chunk.rows)


def answer_chunks(job: Job, processes: int | None) -> Generator[tuple[Chunk, bytes]]:
    """Each chunk that remains, with its part, in order; as many processes as there are cores unless told."""
    chunks = job.chunks()
    processes = processes or n_usable_cores()
    if processes == 1:
        editor = job.load_editor()
        for chunk in chunks:
            yield chunk, job.answer(editor, chunk)
        return
    waiting: deque[Chunk] = deque()  # have been read, and are not answered
    deaths = 0
    while True:
        try:
            with _workers(job, processes) as pool:
                for answered in _answered(pool, waiting, chunks, CHUNKS_PER_PROCESS * processes):
                    deaths = 0
                    yield answered
                return
        except BrokenProcessPool:
            deaths += 1
            if deaths == MAX_DEATHS:
                raise JobError(
                    f"Worker processes died {deaths} times in a row: perhaps memory ran out (see --processes). "
                    "What is done is kept, and the same command goes on."
                ) from None


def _answered(
    pool: ProcessPoolExecutor, waiting: deque[Chunk], chunks: Iterator[Chunk], most: int
) -> Iterator[tuple[Chunk, bytes]]:
    def submitted(chunk: Chunk) -> Future[bytes]:
        with _interrupts_held():  # workers are begun here, and inherit that
            return pool.submit(_answer, chunk)

    parts = deque(map(submitted, waiting))
    while True:
        for chunk in islice(chunks, most - len(waiting)):
            waiting.append(chunk)
            parts.append(submitted(chunk))
        if not waiting:
            return
        part = parts.popleft().result()
        yield waiting.popleft(), part


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C takes effect afterwards."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _workers(job: Job, processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose workers end with us, however we end: they watch a pipe that only we hold open."""
    watched, held = Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin_work, (job, watched))
    try:
        yield pool
    finally:
        held.close()
        pool.shutdown(cancel_futures=True)
        watched.close()


_job: Job
_editor: Editor


def _begin_work(job: Job, watched: Connection) -> None:
    global _job, _editor
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that leads us
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()
    _job, _editor = job, job.load_editor()


def _end_with(watched: Connection) -> None:
    try:
        watched.recv_bytes()  # nothing is ever sent: this returns when the other end is closed
    except EOFError:
        os._exit(0)


def _answer(chunk: Chunk) -> bytes:
    return _job.answer(_editor, chunk)
