"""The one thread that computes: a bounded queue, what waits together is answered together.

Quick calls that wait are answered as one batch. A transfer goes on round by round, and lets a batch of quick calls pass
after each of its rounds; one transfer at a time is under way.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from xl_editor.editor import Call, Editor
from xl_editor.edits import Trace
from xl_editor.server.metrics import Metrics

CHARACTERS_AT_ONCE = 4_000  # of the texts that are answered together
SECONDS_PER_REQUEST = 60.0
MAX_RETRY_SECONDS = 60


class BusyError(Exception):
    """The queue is full."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"The server is busy; try again in {retry_after} s.")
        self.retry_after = retry_after


class StoppingError(Exception):
    """The server finishes what it has accepted, and accepts nothing more."""


class _NobodyWaitsError(Exception):
    """All who asked for what is being computed have left."""


@dataclass(eq=False)
class _Job:
    """Calls of one request, and how to tell those who wait for them."""

    editor: Editor
    calls: Sequence[Call]
    loop: asyncio.AbstractEventLoop
    told: asyncio.Queue[Trace | list[Any] | Exception] = field(default_factory=asyncio.Queue)
    abandoned: bool = False

    @property
    def is_transfer(self) -> bool:
        return self.calls[0].method == "transfer"

    @property
    def n_characters(self) -> int:
        return sum(len(value) for call in self.calls for value in call.arguments.values() if isinstance(value, str))

    def tell(self, news: Trace | list[Any] | Exception) -> None:
        """A trace so far, all the results, or what went wrong; from the worker's thread."""
        self.loop.call_soon_threadsafe(self.told.put_nowait, news)


class Worker:
    def __init__(self, editors: Sequence[Editor], max_waiting: int, metrics: Metrics) -> None:
        self.max_waiting = max_waiting  # texts
        self.metrics = metrics
        self._waiting: list[_Job] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._computing: list[_Job] = []
        self._transfer: tuple[_Job, Iterator[list[Trace]]] | None = None
        self._seconds_per_text = 0.1
        self._thread = threading.Thread(target=self._run, name="xl-editor-worker", daemon=True)
        for editor in editors:
            editor.engine.before_batch = self._stop_if_nobody_waits
        metrics.waiting.set_function(lambda: self._n_waiting)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish what was accepted, and accept nothing more."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    @property
    def is_ready(self) -> bool:
        return self._thread.is_alive() and not self._stopping

    async def ask(self, editor: Editor, calls: Sequence[Call]) -> list[Any]:
        """The result of each call, or the ValueError by which it was refused."""
        async with aclosing(self.watch(editor, calls)) as news:
            async for told in news:
                if isinstance(told, list):
                    return told
        raise AssertionError("A job ends with its results.")

    async def watch(self, editor: Editor, calls: Sequence[Call]) -> AsyncGenerator[Trace | list[Any], None]:
        """Traces of a transfer as it goes on, and then the results. Whoever stops listening abandons the job."""
        job = _Job(editor, calls, asyncio.get_running_loop())
        self._accept(job)
        deadline = time.monotonic() + SECONDS_PER_REQUEST
        try:
            while True:
                told = await asyncio.wait_for(job.told.get(), deadline - time.monotonic())
                if isinstance(told, Exception):
                    raise told
                yield told
                if isinstance(told, list):
                    return
        finally:
            self._abandon(job)

    def _accept(self, job: _Job) -> None:
        with self._changed:
            if self._stopping:
                raise StoppingError("The server is shutting down.")
            if self._waiting and self._n_waiting + len(job.calls) > self.max_waiting:
                raise self._busy()
            self._waiting.append(job)
            self._changed.notify()

    def _abandon(self, job: _Job) -> None:
        with self._changed:
            job.abandoned = True
            if job in self._waiting:
                self._waiting.remove(job)

    def check_room(self) -> None:
        """Raises `BusyError` if nothing whatever would be accepted."""
        if self._n_waiting >= self.max_waiting:
            raise self._busy()

    def _busy(self) -> BusyError:
        # Those who are refused together are not to come back together.
        seconds = math.ceil(self._n_waiting * self._seconds_per_text * random.uniform(1, 2))
        return BusyError(min(max(seconds, 1), MAX_RETRY_SECONDS))

    @property
    def _n_waiting(self) -> int:
        return sum(len(job.calls) for job in self._waiting)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._transfer or self._stopping)
                if not self._waiting and not self._transfer:
                    return
                batch = self._take_batch()
                begun = None if self._transfer else self._take_transfer()
            if batch:
                self._answer(batch)
            if begun:
                texts = [call.arguments["text"] for call in begun.calls]
                settings = {name: value for name, value in begun.calls[0].arguments.items() if name != "text"}
                self._transfer = begun, begun.editor.transfer_rounds(texts, **settings)
            if self._transfer:
                self._advance(*self._transfer)

    def _take_batch(self) -> list[_Job]:
        """The quick jobs that have waited longest, for one model, until there are enough of them."""
        batch: list[_Job] = []
        n_characters = 0
        for job in [job for job in self._waiting if not job.is_transfer]:
            n_characters += job.n_characters
            if batch and (job.editor is not batch[0].editor or n_characters > CHARACTERS_AT_ONCE):
                break
            batch.append(job)
        for job in batch:
            self._waiting.remove(job)
        return batch

    def _take_transfer(self) -> _Job | None:
        job = next((job for job in self._waiting if job.is_transfer), None)
        if job:
            self._waiting.remove(job)
        return job

    def _answer(self, jobs: list[_Job]) -> None:
        self._computing = jobs
        calls = [call for job in jobs for call in job.calls]
        began = time.monotonic()
        try:
            results = iter(jobs[0].editor.answer_all(calls))
        except _NobodyWaitsError:
            return
        except Exception as error:
            for job in jobs:
                job.tell(error)
            return
        for job in jobs:
            job.tell([next(results) for _ in job.calls])
        self._note_speed((time.monotonic() - began) / len(calls))
        self.metrics.batch_texts.observe(len(calls))

    def _advance(self, job: _Job, rounds: Iterator[list[Trace]]) -> None:
        self._computing = [job]
        began = time.monotonic()
        try:
            self._stop_if_nobody_waits()
            traces = next(rounds)
        except _NobodyWaitsError:
            self._transfer = None
            return
        except Exception as error:
            self._transfer = None
            job.tell(error)
            return
        if all(trace.stopped for trace in traces):
            self._transfer = None
            job.tell(traces)
        else:
            job.tell(traces[0])
        self._note_speed((time.monotonic() - began) / len(traces))

    def _note_speed(self, seconds_per_text: float) -> None:
        self._seconds_per_text += 0.1 * (seconds_per_text - self._seconds_per_text)

    def _stop_if_nobody_waits(self) -> None:
        if threading.current_thread() is self._thread and all(job.abandoned for job in self._computing):
            raise _NobodyWaitsError
