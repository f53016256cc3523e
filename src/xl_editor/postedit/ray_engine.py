"""The engine for a cluster: the same chunks through Ray Data, with a model in every actor.

Ray schedules, moves, retries and restarts. Files are read and parts are written where the work is done, so that the
machine that leads only sees which chunks are done.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import ray

from xl_editor.postedit import storage
from xl_editor.postedit.job import Chunk, Job

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")

Row = dict[str, Any]


def map_files(function: Callable[[Asked], Answered], files: Iterable[Asked]) -> Iterable[Answered]:
    _connect()
    call = ray.remote(num_cpus=1)(lambda file: function(file))
    try:
        return ray.get([call.remote(file) for file in files])
    except ray.exceptions.RayTaskError as error:  # it tells the remote traceback: what is refused is enough
        raise error.cause from None


def write_parts(job: Job, processes: int | None) -> Generator[int]:
    """Write the part of each chunk that remains; yields the number of rows."""
    _connect()
    processes = processes or max(1, int(ray.cluster_resources()["CPU"]) // job.threads)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = 1  # byte: every chunk is a block by itself, which any actor can take
    files = ray.data.from_items([{"file": number} for number in range(len(job.files))])
    # Readers mostly wait for the actors, which must not wait for a core that a reader holds.
    chunks = files.map_batches(_read, fn_args=(job,), batch_size=1, num_cpus=0)
    done = chunks.map(
        _Worker,
        fn_constructor_args=(job,),
        compute=ray.data.ActorPoolStrategy(size=processes),
        num_cpus=job.threads,
    )
    for row in done.iter_rows():
        yield row["n_rows"]


def _connect() -> None:
    """Join the cluster that RAY_ADDRESS names or that runs on this machine; begin one here if there is none."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False)


def _read(files: dict[str, Any], job: Job) -> Iterator[Row]:
    for number in files["file"]:
        for chunk in job.chunks_of(int(number)):
            yield {"chunk": np.array([chunk], dtype=object)}  # Ray carries objects between its processes


class _Worker:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.editor = job.load_editor()

    def __call__(self, row: Row) -> Row:
        chunk: Chunk = row["chunk"]
        storage.write(self.job.part_url(chunk.file, chunk.index), self.job.answer(self.editor, chunk))
        return {"n_rows": len(chunk.rows)}
