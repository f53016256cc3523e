"""What the server bears: many clients at once, ten times as many, and SIGTERM in the middle.

python benchmarks/server.py [--seconds 60] [--clients 64] [--model yelp]

Every answer is checked against the direct call of the editor. First each operation by itself, asked by one client and
by all; then all operations mixed; then ten times the clients, who come again as late as a 429 tells them; last, SIGTERM
under load. Meanwhile /healthz is asked every 50 ms by a process of its own, and the server's memory is read.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import math
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2

from xl_editor import Editor
from xl_editor.editor import Call
from xl_editor.server import schema

HEALTH_FLOOR = 0.1  # seconds
INFILL_FLOOR = 2.0  # times the rate of one by one
SURELY_ACCEPTED = 0.5  # seconds before SIGTERM: what was sent earlier is not on its way any more
ARRIVAL = 1.0  # seconds in which the clients come, or a tenth of the time they have
SUBJECTS = ("the food", "the waitress", "our table", "the pizza", "the place", "my husband", "the staff", "the bill")
JUDGEMENTS = ("was cold and bland", "is great for the price", "was rude to everybody", "could be a lot better")
ENDINGS = ("and we waited an hour .", "and i will come back soon .", "so never again !")


@dataclass(frozen=True)
class Question:
    operation: str
    body: dict[str, Any]
    expected: Any


@dataclass
class Tally:
    """What came back."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # of right answers
    wrong: list[str] = field(default_factory=list)
    n_busy: int = 0
    n_unanswered: int = 0  # of those that were surely accepted
    took: float = 0.0  # seconds, until the last answer

    @property
    def n_right(self) -> int:
        return sum(map(len, self.seconds.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each phase; a tenth for an operation by itself")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--model", default="yelp")
    arguments = parser.parse_args()
    questions = make_questions(Editor.from_pretrained(arguments.model))
    with serving(arguments.model) as (address, process):
        alone, together = {}, {}
        for operation, asked in questions.items():
            alone[operation] = rate(address, asked, 1, arguments.seconds / 10)
            together[operation] = rate(address, asked, arguments.clients, arguments.seconds / 10)
        everything = [question for asked in questions.values() for question in asked]
        with watching(address, process.pid) as watched:
            mixed = asyncio.run(drive(address, everything, arguments.clients, arguments.seconds))
        report_mixed(alone, together, mixed, arguments.clients)
        watched.report(f"{arguments.clients} clients")
        with watching(address, process.pid) as watched:
            crowd = asyncio.run(drive(address, everything, 10 * arguments.clients, arguments.seconds))
        report_tally(f"{10 * arguments.clients} clients", crowd)
        watched.report(f"{10 * arguments.clients} clients")
        last = asyncio.run(drive(address, everything, arguments.clients, arguments.seconds / 10, process))
        status = process.wait(timeout=120)
        report_tally("SIGTERM", last)
        print(f"the server ended with status {status}")
    check("no answer was wrong", not (mixed.wrong or crowd.wrong or last.wrong))
    check("no accepted request was lost", mixed.n_unanswered + crowd.n_unanswered + last.n_unanswered == 0)
    check(f"infill gains {INFILL_FLOOR:g} ×", together["infill"] >= INFILL_FLOOR * alone["infill"])
    # Rates of a few seconds each waver by some per cent.
    check("no operation loses", all(together[name] >= 0.95 * alone[name] for name in alone))


def make_questions(editor: Editor) -> dict[str, list[Question]]:
    """Questions about different texts, with the editor's own answers."""
    pairs = [(subject, judgement) for subject in SUBJECTS for judgement in JUDGEMENTS]
    texts = [f"{subject} {judgement} {ENDINGS[i % len(ENDINGS)]}" for i, (subject, judgement) in enumerate(pairs)]
    blanked = [re.sub(r"\b(was|is|be|and)\b", "[_]", text) for text in texts]
    made: dict[str, list[dict[str, Any]]] = {
        "locate": [{"text": text, "top": 3} for text in texts],
        "infill": [{"text": text, "n": 3} for text in blanked],
        "score": [{"left": text[:8], "inserted": text[8:20], "right": text[20:]} for text in texts],
        "replace": [{"text": text, "span": text.split()[2], "n": 3} for text in texts],
        "delete": [{"text": text, "unit": "word", "top": 3} for text in texts],
        "classify": [{"text": text} for text in texts],
        "transfer": [{"text": text, "to": "positive", "max_steps": 1} for text in texts],
    }
    asked = {}
    for operation, bodies in made.items():
        results = [getattr(editor, operation)(**body) for body in bodies]
        answers = [schema.to_json(Call(operation, body), result) for body, result in zip(bodies, results, strict=True)]
        plain = json.loads(json.dumps(answers))
        asked[operation] = [Question(operation, body, answer) for body, answer in zip(bodies, plain, strict=True)]
    return asked


@contextmanager
def serving(model: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "xl_editor.cli", "serve", "--model", model, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx2.get(f"{address}/readyz").raise_for_status()
                break
            except httpx2.TransportError:
                if process.poll() is not None:
                    raise SystemExit("The server did not start.") from None
                time.sleep(0.1)
        yield address, process
    finally:
        process.kill()


def rate(address: str, questions: list[Question], n_clients: int, seconds: float) -> float:
    """Right answers a second."""
    tally = asyncio.run(drive(address, questions, n_clients, seconds))
    if tally.wrong:
        print(f"wrong: {tally.wrong[0]}")
    return tally.n_right / tally.took


async def drive(
    address: str,
    questions: list[Question],
    n_clients: int,
    seconds: float,
    terminated: subprocess.Popen[bytes] | None = None,
) -> Tally:
    """Clients that ask one question after the other; in the end, the server may be told to stop."""
    tally = Tally()
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        began = time.monotonic()
        end = began + seconds
        arrival = min(ARRIVAL, seconds / 10)
        clients = [
            ask_until(end, client, questions, random.Random(number), tally, arrival * number / n_clients)
            for number in range(n_clients)
        ]
        running = asyncio.gather(*clients)
        if terminated:
            await asyncio.sleep(seconds)
            terminated.terminate()
        await running
        tally.took = time.monotonic() - began
    return tally


async def ask_until(
    end: float,
    client: httpx2.AsyncClient,
    questions: list[Question],
    chance: random.Random,
    tally: Tally,
    arrival: float,
) -> None:
    """A client that comes after `arrival` seconds."""
    await asyncio.sleep(arrival)
    while (began := time.monotonic()) < end:
        question = chance.choice(questions)
        try:
            answer = await client.post(f"/v1/{question.operation}", json=question.body)
        except httpx2.TransportError:
            # A connection that is cut in the moment of SIGTERM may carry a request that never arrived.
            tally.n_unanswered += began < end - SURELY_ACCEPTED
            continue
        if answer.status_code == 429:
            tally.n_busy += 1
            await asyncio.sleep(min(float(answer.headers["Retry-After"]), max(0.0, end - time.monotonic())))
        elif answer.status_code == 503 and began > end - SURELY_ACCEPTED:
            continue
        elif answer.status_code == 200 and agree(answer.json(), question.expected):
            tally.seconds[question.operation].append(time.monotonic() - began)
        else:
            tally.wrong.append(f"{question.operation} {question.body}: {answer.status_code} {answer.text[:300]}")


def agree(found: Any, expected: Any) -> bool:
    """Whether two answers are equal, but for the last digits, by which near-equal ones may change places in a list."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(agree(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        pairs = zip(sorted(found, key=without_numbers), sorted(expected, key=without_numbers), strict=False)
        return len(found) == len(expected) and all(agree(one, other) for one, other in pairs)
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-3, abs_tol=1e-3)
    return bool(found == expected)


def without_numbers(value: Any) -> str:
    """To sort by: what does not depend on the last digits."""
    if isinstance(value, dict):
        return json.dumps([item for item in value.values() if isinstance(item, str | int | list)])
    return "" if isinstance(value, float) else json.dumps(value)


@dataclass
class Watched:
    """What was seen of the server meanwhile."""

    health_seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    def report(self, when: str) -> None:
        worst, p50 = max(self.health_seconds), statistics.median(self.health_seconds)
        middle = len(self.megabytes) // 2
        early, late = max(self.megabytes[middle // 4 : middle + 1]), max(self.megabytes[middle:])
        print(f"/healthz: p50 {1000 * p50:.1f} ms, at most {1000 * worst:.0f} ms ({len(self.health_seconds)} times)")
        print(f"memory: at most {early:,.0f} MB until the middle, {late:,.0f} MB after it")
        check(f"{when}: /healthz under {1000 * HEALTH_FLOOR:g} ms throughout", worst < HEALTH_FLOOR)
        check(f"{when}: flat memory", late < 1.05 * early)


@contextmanager
def watching(address: str, pid: int) -> Iterator[Watched]:
    """By a process of its own, which does not wait for the clients."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    watcher = context.Process(target=watch, args=(address, pid, theirs), daemon=True)
    watcher.start()
    ours.recv()
    watched = Watched()
    yield watched
    ours.send("stop")
    watched.health_seconds, watched.megabytes = ours.recv()
    watcher.join()


def watch(address: str, pid: int, pipe: Connection) -> None:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    health_seconds, megabytes = [], []
    pipe.send("ready")
    while not pipe.poll():
        began = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        health_seconds.append(time.perf_counter() - began)
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        megabytes += [int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:")]
        time.sleep(0.05)
    pipe.send((health_seconds, megabytes))


def report_mixed(alone: dict[str, float], together: dict[str, float], mixed: Tally, n_clients: int) -> None:
    print(f"| operation | one by one, /s | {n_clients} clients, /s | gain | mixed, /s | p50 | p95 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for operation, before in alone.items():
        taken = mixed.seconds[operation]
        p50, p95 = (quantile(taken, q) for q in (0.5, 0.95))
        gain = f"{together[operation] / before:.2f} ×" if before else ""
        rates = f"{before:.1f} | {together[operation]:.1f} | {gain} | {len(taken) / mixed.took:.1f}"
        print(f"| {operation} | {rates} | {1000 * p50:,.0f} ms | {1000 * p95:,.0f} ms |")
    report_tally(f"{n_clients} clients", mixed)


def report_tally(when: str, tally: Tally) -> None:
    print(
        f"\n{when}: {tally.n_right:,} right answers, {len(tally.wrong)} wrong, {tally.n_busy:,} × 429, "
        f"{tally.n_unanswered} lost"
    )
    for wrong in tally.wrong[:3]:
        print(f"wrong: {wrong}")


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else math.nan


def check(what: str, holds: bool) -> None:
    print(f"{'held' if holds else 'MISSED'}: {what}")


if __name__ == "__main__":
    main()
