"""A job is killed, starved of disk or of workers: in the end its output is complete, and the same."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xl_editor.postedit import Task, postedit

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc, and sends POSIX signals")

SUBJECTS, QUALITIES = ("food", "service", "pizza"), ("great", "slow", "cold", "good")
TEXTS = [f"the {a} was {b} and the {c} is {b} ." for a in SUBJECTS for b in QUALITIES for c in ("staff", "place")]
CHUNK_SIZE = 2
OPTIONS = ["--preset", "paper", "--threshold", "-100", "--max-steps", "1", "--chunk-size", str(CHUNK_SIZE)]
N_PARTS = len(TEXTS) // CHUNK_SIZE


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "in.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    return path


@pytest.fixture(scope="module")
def expected(source, toy_directory):
    """The bytes of a run that nothing happens to."""
    task = Task("transfer", str(toy_directory), "positive", preset="paper", threshold=-100.0, max_steps=1)
    postedit(str(source), str(source.with_name("whole.jsonl")), task, processes=1, chunk_size=CHUNK_SIZE)
    return source.with_name("whole.jsonl").read_bytes()


def start(source, target, model, processes, **kwargs) -> subprocess.Popen:
    command = [sys.executable, "-m", "xl_editor.cli", "postedit", str(source), str(target), "--to", "positive"]
    options = ["--model", str(model), "--processes", str(processes), *OPTIONS]
    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, **kwargs)


def finish(process: subprocess.Popen) -> str:
    said = process.communicate(timeout=300)[1].decode()
    assert process.returncode == 0, said
    return said


def n_parts(target) -> int:
    return len([part for part in Path(f"{target}.job").glob("parts/*/*") if part.name.isdigit()])


def wait_until(condition, process) -> None:
    """Until it holds, or the process has ended."""
    until = time.monotonic() + 300
    while not condition() and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.002)


def workers_of(process) -> list[int]:
    """The processes that do the work: those of a pool, without the one that multiprocessing keeps for itself."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def kill_again_and_again(n_kills, seed, source, expected, model, tmp_path) -> None:
    chance = random.Random(seed)
    killed = 0
    while killed < n_kills:
        target = tmp_path / f"out-{killed}.jsonl"
        while not target.with_name(f"{target.name}.summary.json").exists():
            process = start(source, target, model, processes=chance.choice((1, 2)))
            if killed < n_kills:
                more = n_parts(target) + chance.randint(0, N_PARTS // 2)
                wait_until(lambda: n_parts(target) >= more, process)  # noqa: B023
                time.sleep(chance.uniform(0, 0.05))
                process.kill()
                process.communicate()
                killed += 1
            else:
                finish(process)
        assert target.read_bytes() == expected


def test_killed_three_times_the_output_is_the_same(source, expected, toy_directory, tmp_path):
    kill_again_and_again(3, 0, source, expected, toy_directory, tmp_path)


@pytest.mark.slow
def test_killed_thirty_times_the_output_is_the_same(source, expected, toy_directory, tmp_path):
    kill_again_and_again(30, 1, source, expected, toy_directory, tmp_path)


def test_workers_may_die_and_die_with_their_leader(source, expected, toy_directory, tmp_path):
    target = tmp_path / "out.jsonl"
    process = start(source, target, toy_directory, 2)
    wait_until(lambda: n_parts(target) >= 1, process)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    done = n_parts(target)
    wait_until(lambda: n_parts(target) > done + 4, process)  # it goes on with new workers
    workers = workers_of(process)
    process.kill()
    process.communicate()
    assert n_parts(target) > done
    until = time.monotonic() + 60
    while any(map(is_alive, workers)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(is_alive, workers))
    finish(start(source, target, toy_directory, 1))
    assert target.read_bytes() == expected


@pytest.mark.parametrize("room", ["for no part", "for parts, not for the output"])
def test_a_full_disk_is_one_sentence_and_the_job_goes_on_later(room, source, expected, toy_directory, tmp_path):
    import resource

    target = tmp_path / "out.jsonl"
    n_bytes = 200 if room == "for no part" else len(expected) - 1

    def bound_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))

    process = start(source, target, toy_directory, 1, preexec_fn=bound_file_size)
    said = process.communicate(timeout=300)[1].decode()
    assert process.returncode == 2
    assert "File too large" in said
    assert len(said.strip().splitlines()) == 1
    assert not target.exists()
    finish(start(source, target, toy_directory, 1))
    assert target.read_bytes() == expected


def test_ctrl_c_while_workers_begin_is_quiet_and_loses_nothing(source, expected, toy_directory, tmp_path):
    target = tmp_path / "out.jsonl"

    def listen() -> None:  # whoever began us may have ignored it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = start(source, target, toy_directory, 2, start_new_session=True, preexec_fn=listen)
    wait_until(lambda: workers_of(process), process)
    time.sleep(0.2)  # they import, which takes seconds
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=300)[1].decode()
    assert process.returncode == 130
    assert "Interrupted." in said
    assert "Traceback" not in said
    finish(start(source, target, toy_directory, 1))
    assert target.read_bytes() == expected
