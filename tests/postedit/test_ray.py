"""The engine ray on a local cluster of two workers: the output of the local engine, also if a worker is killed."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from xl_editor.postedit import Task, postedit

ray = pytest.importorskip("ray", reason="needs the extra `cluster`")
psutil = pytest.importorskip("psutil", reason="needs psutil to find Ray's workers")

TEXTS = [f"the {a} was {b} ." for a in ("food", "service", "pizza", "staff") for b in ("great", "slow", "cold", "good")]
CHUNK_SIZE = 2


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def job(toy_directory, tmp_path):
    """Run the job with an engine; gives the bytes of its output."""
    task = Task("transfer", str(toy_directory), "positive", preset="paper", threshold=-100.0, max_steps=1)
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{text}\n" for text in TEXTS))

    def run(engine: str, name: str, processes: int) -> bytes:
        target = tmp_path / name
        postedit(str(source), str(target), task, engine=engine, processes=processes, chunk_size=CHUNK_SIZE)
        return target.read_bytes()

    return run


def kill_a_worker_once_it_works(target: Path, killed: list[int]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and not list(target.glob("parts/*/[0-9]*")):
        time.sleep(0.005)
    workers = [p for p in psutil.Process().children(recursive=True) if "MapWorker" in " ".join(p.cmdline())]
    if workers:
        os.kill(workers[0].pid, signal.SIGKILL)
        killed.append(workers[0].pid)


def test_ray_gives_the_output_of_the_local_engine_even_if_a_worker_is_killed(cluster, job, tmp_path):
    expected = job("local", "local.jsonl", 1)
    assert job("ray", "ray.jsonl", 2) == expected
    killed: list[int] = []
    killer = threading.Thread(target=kill_a_worker_once_it_works, args=(tmp_path / "killed.jsonl.job", killed))
    killer.start()
    assert job("ray", "killed.jsonl", 2) == expected
    killer.join()
    assert killed
