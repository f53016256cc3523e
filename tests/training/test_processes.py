"""Many processes: with the same global batch they train as one does, and agree on when to save and to stop."""

import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import toy

from xl_editor import Editor
from xl_editor.training.recipe import RecipeError, load_recipe
from xl_editor.training.run import check_shares
from xl_editor.training.trainer import find_checkpoints

STEPS = 50


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    """Four batches a step, in some of which the classifier's weights are not used; no dropout."""
    directory = tmp_path_factory.mktemp("processes")
    return toy.write_recipe(
        directory,
        data=toy.styled_files(directory, ("n", "p")),
        sampling={"empty_rate": 0.1, "max_slots": 2, "style_dropout": 0.2},
        classifier={"share": 0.5},
        optim={"steps": STEPS, "tokens_per_batch": 100, "eval_every": 20, "save_every_minutes": 0.002},
    )


@pytest.fixture(scope="module")
def torchrun(recipe) -> Path:
    """The output of two processes, as people start them."""
    output = recipe.parent / "torchrun"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launcher, toy.__file__, "train", str(recipe), "--output", str(output)]
    environment = {**os.environ, "XL_EDITOR_CACHE": str(recipe.parent / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=toy.SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("vocabulary") == 1  # one of them speaks
    return output


def start_two(recipe: Path, output: Path, *arguments: str, hooks=(toy.log_every_step,) * 2) -> list[toy.Run]:
    """The same two processes, but each with a hook of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    return [
        toy.start(
            recipe,
            output,
            *arguments,
            before=hook,
            environment={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank, hook in enumerate(hooks)
    ]


def test_two_processes_train_as_one(recipe, torchrun):
    one = toy.train(recipe, recipe.parent / "one", before=toy.log_every_step)
    for key, tolerance in (("loss", 1e-4), ("eval_loss", 1e-4), ("grad_norm", 1e-3)):
        expected = toy.log_of(one, key)
        assert len(expected) == (3 if key == "eval_loss" else STEPS)
        assert toy.log_of(torchrun, key) == pytest.approx(expected, abs=tolerance), key
    assert toy.log_of(one, "loss")[-1] < toy.log_of(one, "loss")[0] - 0.5  # there was something to learn
    assert Editor.from_pretrained(torchrun).styles == ("n", "p")


def interrupted_in_step_12() -> None:
    toy.log_every_step()
    toy.signal_in_step(signal.SIGTERM, 12)


def test_when_one_process_is_told_to_stop_all_save_and_stop(recipe, torchrun):
    output = recipe.parent / "interrupted"
    runs = start_two(recipe, output, hooks=(toy.log_every_step, interrupted_in_step_12))
    assert [run.wait() for run in runs] == [130, 130], runs[0].said
    assert find_checkpoints(output)[-1].name == "checkpoint-12"
    runs = start_two(recipe, output, "--resume")
    assert [run.wait() for run in runs] == [0, 0], runs[0].said
    for name in ("model.safetensors", "log.jsonl"):
        assert (output / name).read_bytes() == (torchrun / name).read_bytes()


def late(seconds: float) -> None:
    import time

    time.sleep(seconds)
    toy.log_every_step()


def test_a_process_that_starts_late_takes_no_offence_at_what_the_first_has_written(recipe):
    output = recipe.parent / "late"
    runs = start_two(recipe, output, "--minutes", "0.01", hooks=(toy.log_every_step, partial(late, 1.5)))
    assert [run.wait() for run in runs] == [0, 0], runs[0].said


def test_a_step_that_cannot_be_shared_is_refused(recipe):
    with pytest.raises(RecipeError, match="4 batches a step cannot be shared by 3 processes"):
        check_shares(load_recipe(recipe), 3)
    check_shares(load_recipe(recipe), 2)
