"""The one thread that computes: a bounded queue, what waits together is answered together.

Quick calls that wait are answered as one batch. Transfers go on round by round, and let a batch of quick calls pass
after each of their rounds; those that come meanwhile join in with the next round, if there is room. A request of many
texts is answered in portions, and stands at the end of the queue again after each.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from xl_editor.editor import Call, Editor
from xl_editor.edits import Edit
from xl_editor.operations import Ongoing
from xl_editor.operations.questions import PanicError
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


class CallFailedError(Exception):
    """One of the calls of a request has ended with an error."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(str(error))
        self.index = index
        self.error = error


class _NobodyWaitsError(Exception):
    """All who asked for what is being computed have left."""


@dataclass(eq=False)
class _Job:
    """Calls of one request, and how to tell those who wait for them."""

    editor: Editor
    calls: Sequence[Call]
    loop: asyncio.AbstractEventLoop
    answers: list[Any] = field(default_factory=list)  # to the first of the calls
    ongoing: list[Ongoing[Any]] = field(default_factory=list)  # the calls after these, which are being answered
    told: asyncio.Queue[Edit | list[Any] | Exception] = field(default_factory=asyncio.Queue)
    abandoned: bool = False

    @property
    def is_transfer(self) -> bool:
        return self.calls[0].method == "transfer"

    @property
    def waiting(self) -> Sequence[Call]:
        """The calls that have not been begun."""
        return self.calls[len(self.answers) + len(self.ongoing) :]

    @property
    def n_characters(self) -> int:
        """Of what is being answered."""
        n_done = len(self.answers)
        return sum(map(_n_characters, self.calls[n_done : n_done + len(self.ongoing)]))

    def begin(self, n_characters: int, *, at_least: int) -> None:
        """As many of the calls that wait as have no more characters."""
        n_calls = sum(n <= n_characters for n in accumulate(map(_n_characters, self.waiting)))
        self.ongoing = [self.editor.begin(call, self.tell) for call in self.waiting[: max(n_calls, at_least)]]

    def tell(self, news: Edit | list[Any] | Exception) -> None:
        """An edit that was made, all the results, or what went wrong; from the worker's thread."""
        self.loop.call_soon_threadsafe(self.told.put_nowait, news)


def _n_characters(call: Call) -> int:
    return sum(len(value) for value in call.arguments.values() if isinstance(value, str))


class Worker:
    def __init__(self, max_waiting: int, metrics: Metrics) -> None:
        self.max_waiting = max_waiting  # texts
        self.metrics = metrics
        self._waiting: list[_Job] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._transfers: list[_Job] = []  # that have been begun
        self._seconds_per_text = 0.1
        self._thread = threading.Thread(target=self._run, name="xl-editor-worker", daemon=True)
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
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_ready(self) -> bool:
        return self.is_alive and not self._stopping

    async def ask(self, editor: Editor, calls: Sequence[Call]) -> list[Any]:
        """The result of each call."""
        async with aclosing(self.watch(editor, calls)) as news:
            async for told in news:
                if isinstance(told, list):
                    return told
        raise AssertionError("A job ends with its results.")

    async def watch(self, editor: Editor, calls: Sequence[Call]) -> AsyncGenerator[Edit | list[Any], None]:
        """The edits of a transfer as they are made, and then the results. Whoever stops listening abandons the job."""
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
            if self._n_waiting and self._n_waiting + len(job.calls) > self.max_waiting:
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
        return sum(len(job.waiting) for job in self._waiting)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._transfers or self._stopping)
                if not self._waiting and not self._transfers:
                    return
                quick = self._take([], CHARACTERS_AT_ONCE, transfers=False)
            while quick:
                quick = self._advance(quick)
            with self._changed:
                self._transfers += self._take(self._transfers, TRANSFERRED_AT_ONCE, transfers=True)
            self._transfers = self._advance(self._transfers)

    def _take(self, begun: Sequence[_Job], n_characters: int, *, transfers: bool) -> list[_Job]:
        """Begin the jobs of a kind that have waited longest, for one model.

        Together with those that are begun already they have no more characters than these, unless it is a single call.
        """
        waiting = [job for job in self._waiting if job.is_transfer == transfers]
        n_characters -= sum(job.n_characters for job in begun)
        taken: list[_Job] = []
        for job in waiting:
            if job.editor is not [*begun, *waiting][0].editor:
                continue
            job.begin(n_characters, at_least=0 if begun or taken else 1)
            if job.ongoing:
                taken.append(job)
                n_characters -= job.n_characters
                self._waiting.remove(job)
            if job.waiting:
                break
        return taken

    def _advance(self, jobs: Sequence[_Job]) -> list[_Job]:
        """Answer what these jobs ask now, all together; those that have more to ask."""
        jobs = [job for job in jobs if not job.abandoned]
        if not jobs:
            return []

        def stop_if_nobody_waits() -> None:
            if all(job.abandoned for job in jobs):
                raise _NobodyWaitsError

        asking = [plan for job in jobs for plan in job.ongoing if not plan.is_finished]
        began = time.monotonic()
        try:
            jobs[0].editor.advance(asking, stop_if_nobody_waits)
        except _NobodyWaitsError:
            return []
        except BaseException as error:  # whatever it is, it ends what was asked now, and not this thread
            told = error if isinstance(error, Exception) else PanicError(f"{type(error).__name__}: {error}")
            for job in jobs:
                job.tell(told)
            return []
        self._note_speed((time.monotonic() - began) / len(asking))
        self.metrics.batch_texts.observe(len(asking))
        return [job for job in jobs if self._goes_on(job)]

    def _goes_on(self, job: _Job) -> bool:
        """Whether what was begun of a job has more to ask; if not, who waits is told, or the next calls wait."""
        for index, plan in enumerate(job.ongoing, start=len(job.answers)):
            if plan.error is not None:
                job.tell(CallFailedError(index, plan.error))
                return False
        if not all(plan.is_finished for plan in job.ongoing):
            return True
        job.answers += [plan.result for plan in job.ongoing]
        job.ongoing = []
        if not job.waiting:
            job.tell(job.answers)
            return False
        with self._changed:
            if not job.abandoned:
                self._waiting.append(job)
        return False

    def _note_speed(self, seconds_per_text: float) -> None:
        self._seconds_per_text += 0.1 * (seconds_per_text - self._seconds_per_text)
