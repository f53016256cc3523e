"""The one thread that computes: a bounded queue, what waits together is answered together.

Quick calls that wait are answered as one batch. Transfers go on round by round, and let a batch of quick calls pass
after each of their rounds; those that wait together and ask for the same go on together. A request of many texts is
answered in portions, and stands at the end of the queue again after each.
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
from itertools import accumulate, islice
from typing import Any

from xl_editor.editor import Call, Editor
from xl_editor.edits import Trace
from xl_editor.server.metrics import Metrics

CHARACTERS_AT_ONCE = 4_000  # of the texts that are answered together
TRANSFERRED_AT_ONCE = 500  # of those that are revised together: quick calls wait for a round of them
SECONDS_PER_REQUEST = 60.0
MAX_RETRY_SECONDS = 60


class BusyError(Exception):
    """The queue is full."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"The server is busy; try again in {retry_after} s.")
        self.retry_after = retry_after


class StoppingError(Exception):
    """The server finishes what it has accepted, and accepts nothing more."""


class RefusedTextError(ValueError):
    """One of the texts of a transfer cannot be revised."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class _NobodyWaitsError(Exception):
    """All who asked for what is being computed have left."""


@dataclass(eq=False)
class _Job:
    """Calls of one request, and how to tell those who wait for them."""

    editor: Editor
    calls: Sequence[Call]
    loop: asyncio.AbstractEventLoop
    answers: list[Any] = field(default_factory=list)  # to the first of the calls
    told: asyncio.Queue[Trace | list[Any] | Exception] = field(default_factory=asyncio.Queue)
    abandoned: bool = False

    @property
    def is_transfer(self) -> bool:
        return self.calls[0].method == "transfer"

    @property
    def remaining(self) -> Sequence[Call]:
        return self.calls[len(self.answers) :]

    @property
    def settings(self) -> dict[str, Any]:
        """All that a transfer asks for but its texts."""
        return {name: value for name, value in self.calls[0].arguments.items() if name != "text"}

    def portion(self, n_characters: int) -> _Portion:
        """As many of the calls that remain as have no more characters."""
        n_calls = sum(n <= n_characters for n in accumulate(map(_n_characters, self.remaining)))
        return _Portion(self, self.remaining[:n_calls])

    def tell(self, news: Trace | list[Any] | Exception) -> None:
        """A trace so far, all the results, or what went wrong; from the worker's thread."""
        self.loop.call_soon_threadsafe(self.told.put_nowait, news)


@dataclass(frozen=True)
class _Portion:
    """Calls of a job that are answered together with others."""

    job: _Job
    calls: Sequence[Call]

    @property
    def texts(self) -> list[str]:
        """Of a transfer."""
        return [call.arguments["text"] for call in self.calls]


@dataclass(frozen=True)
class _Transfer:
    """What is revised together, and what becomes of all the texts, round by round."""

    portions: list[_Portion]
    rounds: Iterator[list[Trace]]
    finished: set[int] = field(default_factory=set)  # indices of portions


def _n_characters(call: Call) -> int:
    return sum(len(value) for value in call.arguments.values() if isinstance(value, str))


class Worker:
    def __init__(self, editors: Sequence[Editor], max_waiting: int, metrics: Metrics) -> None:
        self.max_waiting = max_waiting  # texts
        self.metrics = metrics
        self._waiting: list[_Job] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._computing: list[_Job] = []
        self._transfer: _Transfer | None = None
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
        return sum(len(job.remaining) for job in self._waiting)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._transfer or self._stopping)
                if not self._waiting and not self._transfer:
                    return
                batch = self._take_batch()
                begun = [] if self._transfer else self._take_transfers()
            if batch:
                self._answer(batch)
            if begun:
                self._transfer = self._begin(begun)
            if self._transfer:
                self._advance(self._transfer)

    def _take_batch(self) -> list[_Portion]:
        """The quick jobs that have waited longest, for one model, until there are enough of them."""
        waiting = [job for job in self._waiting if not job.is_transfer]
        return self._take([job for job in waiting if job.editor is waiting[0].editor], CHARACTERS_AT_ONCE)

    def _take_transfers(self) -> list[_Portion]:
        """The transfer that has waited longest, and those that ask for the same."""
        waiting = [job for job in self._waiting if job.is_transfer]
        same = [job for job in waiting if job.editor is waiting[0].editor and job.settings == waiting[0].settings]
        return self._take(same, TRANSFERRED_AT_ONCE)

    def _take(self, jobs: Sequence[_Job], n_characters: int) -> list[_Portion]:
        """What comes first in the jobs, with no more characters than these unless it is a single call."""
        taken: list[_Portion] = []
        for job in jobs:
            portion = job.portion(n_characters)
            if not portion.calls and not taken:
                portion = _Portion(job, job.remaining[:1])
            if portion.calls:
                taken.append(portion)
                n_characters -= sum(map(_n_characters, portion.calls))
                self._waiting.remove(job)
            if len(portion.calls) < len(job.remaining):
                break
        return taken

    def _answer(self, portions: list[_Portion]) -> None:
        self._computing = [portion.job for portion in portions]
        calls = [call for portion in portions for call in portion.calls]
        began = time.monotonic()
        try:
            results = iter(portions[0].job.editor.answer_all(calls))
        except _NobodyWaitsError:
            return
        except Exception as error:
            for portion in portions:
                portion.job.tell(error)
            return
        for portion in portions:
            self._finish(portion, list(islice(results, len(portion.calls))))
        self._note_speed((time.monotonic() - began) / len(calls))
        self.metrics.batch_texts.observe(len(calls))

    def _finish(self, portion: _Portion, results: list[Any]) -> None:
        job = portion.job
        job.answers += results
        if not job.remaining:
            job.tell(job.answers)
            return
        with self._changed:
            if not job.abandoned:
                self._waiting.append(job)

    def _begin(self, portions: list[_Portion]) -> _Transfer | None:
        """All of them, but for those with a text that is refused, which is no fault of the others."""
        accepted = []
        for portion in portions:
            index = len(portion.job.answers)
            try:
                for text in portion.texts:
                    portion.job.editor.check(text)
                    index += 1
            except ValueError as refusal:
                portion.job.tell(RefusedTextError(str(refusal), index))
            except Exception as error:
                portion.job.tell(error)
            else:
                accepted.append(portion)
        if not accepted:
            return None
        job, texts = accepted[0].job, [text for portion in accepted for text in portion.texts]
        return _Transfer(accepted, job.editor.transfer_rounds(texts, **job.settings))

    def _advance(self, transfer: _Transfer) -> None:
        self._computing = [portion.job for portion in transfer.portions]
        began = time.monotonic()
        try:
            self._stop_if_nobody_waits()
            traces = next(transfer.rounds)
        except _NobodyWaitsError:
            self._transfer = None
            return
        except Exception as error:
            self._transfer = None
            for portion in transfer.portions:
                portion.job.tell(error)
            return
        remaining = iter(traces)
        for index, portion in enumerate(transfer.portions):
            own = list(islice(remaining, len(portion.calls)))
            if index in transfer.finished:
                continue
            if all(trace.stopped for trace in own):
                transfer.finished.add(index)
                self._finish(portion, own)
            else:
                portion.job.tell(own[0])
        if len(transfer.finished) == len(transfer.portions):
            self._transfer = None
        self._note_speed((time.monotonic() - began) / len(traces))

    def _note_speed(self, seconds_per_text: float) -> None:
        self._seconds_per_text += 0.1 * (seconds_per_text - self._seconds_per_text)

    def _stop_if_nobody_waits(self) -> None:
        if threading.current_thread() is self._thread and all(job.abandoned for job in self._computing):
            raise _NobodyWaitsError
