"""How far a job is: one line, which a terminal shows anew and a log gets now and then."""

from __future__ import annotations

import sys
import time

SECONDS_BETWEEN_LINES = {True: 0.5, False: 30.0}  # on a terminal, and elsewhere


class Progress:
    def __init__(self, n_rows: int | None, n_done_before: int) -> None:
        self.n_rows = n_rows
        self.done = self.before = n_done_before
        self.started = self.shown = time.monotonic()
        self.on_terminal = sys.stderr.isatty()

    def advance(self, n_rows: int) -> None:
        self.done += n_rows
        now = time.monotonic()
        if now - self.shown >= SECONDS_BETWEEN_LINES[self.on_terminal]:
            self.shown = now
            start, end = ("\r\x1b[K", "") if self.on_terminal else ("", "\n")
            print(f"{start}{self.line(now - self.started)}", end=end, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.on_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def line(self, seconds: float) -> str:
        """Rows done, rows a second in this run, time left."""
        rate = (self.done - self.before) / seconds
        if self.n_rows is None:
            return f"{self.done:,} lines  {rate:.1f}/s"
        left = (self.n_rows - self.done) / rate if rate else float("inf")
        return f"{self.done:,} of {self.n_rows:,} lines  {rate:.1f}/s  {_duration(left)} left"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}" if seconds < float("inf") else "?"
    return f"{seconds:.0f} s"
