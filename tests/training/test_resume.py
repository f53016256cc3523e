"""A run may end at any moment: what is resumed ends with the same bits, and nothing half-written is ever loaded."""

import json
import os
import random
import re
import resource
import signal
from functools import partial

import pytest
import torch
import toy

from xl_editor import Editor
from xl_editor.model import XLEditorModel
from xl_editor.training.run import RunError, check_output
from xl_editor.training.trainer import find_checkpoints

STEPS = 40


def both(*hooks) -> None:
    for hook in hooks:
        hook()


def write_styled_recipe(directory, steps: int = STEPS, precision: str = "float32"):
    """All that has a state: both kinds of update, dropout, micro-batches, a classifier at times, a schedule."""
    return toy.write_recipe(
        directory,
        data=toy.styled_files(directory, ("n", "p")),
        model={"d_model": 32, "d_inner": 32, "dropout": 0.2},
        sampling={"empty_rate": 0.1, "max_slots": 2, "style_dropout": 0.2},
        classifier={"share": 0.5},
        optim={
            "optimizer": "muon",
            "precision": precision,
            "steps": steps,
            "tokens_per_batch": 200,
            "eval_every": 7,
            "save_every_minutes": 0.001,
        },
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("resume")
    write_styled_recipe(directory)
    return directory


@pytest.fixture(scope="module")
def uninterrupted(directory):
    return toy.train(directory / "recipe.yaml", directory / "uninterrupted", before=toy.log_often)


def start(recipe, output, *hooks) -> toy.Run:
    """Start or resume, as the state of the output directory asks for."""
    resume = ["--resume"] if (output / "run.json").exists() else []
    before = partial(both, toy.log_often, *hooks)
    return toy.start(recipe, output, *resume, before=before, environment=toy.WITHOUT_AMX)


def assert_nothing_is_broken(output) -> None:
    """Whatever a run leaves behind when it is killed can be used."""
    for checkpoint in find_checkpoints(output)[-1:]:
        XLEditorModel.from_pretrained(checkpoint)
        torch.load(checkpoint / "optimizer.pt", weights_only=True)
    if (output / "config.json").exists() and (output / "model.safetensors").exists():
        assert len(Editor.from_pretrained(output).infill("a1 [_] l3 m3", 1)) == 1


def assert_same_run(output, reference) -> None:
    assert (output / "log.jsonl").read_text() == (reference / "log.jsonl").read_text()
    assert (output / "model.safetensors").read_bytes() == (reference / "model.safetensors").read_bytes()
    last, expected = (find_checkpoints(run)[-1] for run in (output, reference))
    assert last.name == expected.name
    assert (last / "model.safetensors").read_bytes() == (expected / "model.safetensors").read_bytes()
    states, expected_states = (
        torch.load(checkpoint / "optimizer.pt", weights_only=True)["state"] for checkpoint in (last, expected)
    )
    assert states.keys() == expected_states.keys()
    for number, state in states.items():
        assert all(torch.equal(value, expected_states[number][name]) for name, value in state.items())
    assert (output / "README.md").is_file()


def kill_again_and_again(recipe, output, kills) -> None:
    for number, kill in enumerate(kills):
        run = start(recipe, output, kill)
        assert run.wait() == -signal.SIGKILL, f"kill {number}: {run.said}"
        assert_nothing_is_broken(output)
    run = start(recipe, output)
    assert run.wait() == 0, run.said


def test_a_run_that_is_killed_three_times_ends_with_the_same_bits(directory, uninterrupted):
    output = directory / "killed"
    kills = [
        partial(toy.signal_in_step, signal.SIGKILL, 8, 0.01),
        partial(toy.kill_in_save, "weights", 4),
        partial(toy.signal_in_step, signal.SIGKILL, 9, 0.05),
    ]
    kill_again_and_again(directory / "recipe.yaml", output, kills)
    assert_same_run(output, uninterrupted)


def test_a_run_in_bfloat16_ends_with_the_same_bits(tmp_path):
    recipe = write_styled_recipe(tmp_path, precision="bfloat16")
    assert start(recipe, tmp_path / "uninterrupted").wait() == 0
    kill_again_and_again(recipe, tmp_path / "killed", [partial(toy.signal_in_step, signal.SIGKILL, 12, 0.01)])
    assert_same_run(tmp_path / "killed", tmp_path / "uninterrupted")


@pytest.mark.slow
def test_a_run_that_is_killed_twenty_times_ends_with_the_same_bits(tmp_path):
    recipe = write_styled_recipe(tmp_path, steps=180)
    reference = toy.train(recipe, tmp_path / "uninterrupted", before=toy.log_often)
    draw = random.Random(0)
    in_saves = [
        partial(toy.kill_in_save, where, draw.randint(2, 4)) for where in ("weights", "optimizer", "rename", "rotation")
    ]
    at_random = [
        partial(toy.signal_in_step, signal.SIGKILL, draw.randint(2, 8), draw.uniform(0.001, 0.2)) for _ in range(16)
    ]
    kills = in_saves + at_random
    draw.shuffle(kills)
    kill_again_and_again(recipe, tmp_path / "killed", kills)
    assert_same_run(tmp_path / "killed", reference)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_saves_and_goes_on_later(directory, uninterrupted, number):
    output = directory / number.name
    run = start(directory / "recipe.yaml", output, partial(toy.signal_in_step, number, 12))
    assert run.wait() == 130, run.said
    assert find_checkpoints(output)[-1].name == "checkpoint-12"
    assert "Stopped at step 12.\nThe same command with --resume goes on." in run.said
    again = start(directory / "recipe.yaml", output)
    assert again.wait() == 0, again.said
    assert_same_run(output, uninterrupted)


def test_a_finished_run_is_resumed_by_doing_nothing(directory, uninterrupted):
    before = (uninterrupted / "model.safetensors").stat().st_mtime_ns
    log = (uninterrupted / "log.jsonl").read_text()
    (uninterrupted / "README.md").unlink()  # as if it had been killed before it wrote its card
    assert start(directory / "recipe.yaml", uninterrupted).wait() == 0
    assert (uninterrupted / "model.safetensors").stat().st_mtime_ns == before
    assert (uninterrupted / "log.jsonl").read_text() == log
    assert (uninterrupted / "README.md").is_file()


def test_only_the_last_two_checkpoints_are_kept(uninterrupted):
    assert [path.name for path in find_checkpoints(uninterrupted)][-1] == f"checkpoint-{STEPS}"
    assert len(find_checkpoints(uninterrupted)) == 2
    assert json.loads((uninterrupted / "run.json").read_text())["n_steps"] == STEPS


@pytest.mark.parametrize(
    ("output", "arguments", "message"),
    [
        ("nowhere", ["--resume"], "nowhere holds no run to resume; leave out --resume to start one."),
        ("uninterrupted", [], "already holds a run or a model; continue it with --resume, or choose another output."),
        ("uninterrupted", ["--resume", "--set", "optim.seed=1"], "holds a run of another recipe; resume it with"),
    ],
)
def test_what_cannot_be_resumed_is_refused_in_one_sentence(directory, uninterrupted, output, arguments, message):
    toy.said_file(directory / output).unlink(missing_ok=True)
    run = toy.start(directory / "recipe.yaml", directory / output, *arguments)
    assert run.wait() == 2
    assert re.search(rf"^xl-editor: \S*{re.escape(output)} .*\.$", run.said, re.MULTILINE)
    assert message in run.said
    assert "Traceback" not in run.said
    assert not os.path.exists(directory / "nowhere")


def test_a_run_overwrites_nothing_of_its_users(directory, uninterrupted, tmp_path):
    written = {path.name for path in uninterrupted.iterdir()}
    assert {"README.md", "summary.json", "log.jsonl"} <= written
    for name in written - {"run.json", "checkpoints", "config.json"}:
        (tmp_path / name).write_text("mine")
        with pytest.raises(RunError, match=f"already holds {name}, which a run would overwrite; choose another output"):
            check_output(tmp_path, resume=False)
        (tmp_path / name).unlink()
    (tmp_path / "README.md").write_text("mine")
    run = toy.start(directory / "recipe.yaml", tmp_path)
    assert run.wait() == 2
    assert "already holds README.md, which a run would overwrite; choose another output." in run.said
    assert [path.name for path in tmp_path.iterdir() if path != toy.said_file(tmp_path)] == ["README.md"]


@pytest.mark.parametrize("content", ["[]", "{", '{"n_steps": 3, "wheels": 4}'])
def test_a_run_that_is_not_told_about_is_not_resumed(directory, tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    run = toy.start(directory / "recipe.yaml", tmp_path, "--resume")
    assert run.wait() == 2
    assert "run.json does not tell about a run" in run.said


def test_a_run_does_not_go_on_with_another_text(tmp_path):
    recipe = toy.write_recipe(tmp_path)
    interrupted = toy.start(recipe, tmp_path / "model", before=partial(toy.signal_in_step, signal.SIGINT, 3))
    assert interrupted.wait() == 130, interrupted.said
    tokenizer = (tmp_path / "model" / "tokenizer.json").read_bytes()
    text = (tmp_path / "train.txt").read_text()
    (tmp_path / "train.txt").write_text(text + "a new word\n")
    run = toy.start(recipe, tmp_path / "model", "--resume")
    assert run.wait() == 2, run.said
    assert "The text has changed since the run in" in run.said
    assert (tmp_path / "model" / "tokenizer.json").read_bytes() == tokenizer
    (tmp_path / "train.txt").write_text(text)
    toy.train(recipe, tmp_path / "model", "--resume")


def fill_the_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half(tmp_path):
    recipe = toy.write_recipe(tmp_path, optim={"eval_every": 2})
    toy.train(recipe, tmp_path / "first")  # so that the text is in the cache
    run = toy.start(recipe, tmp_path / "model", before=fill_the_disk)
    assert run.wait() == 2, run.said
    assert re.search(r"^xl-editor: \S+ cannot be written to \(.*\); what was saved before is kept\.$", run.said, re.M)
    assert "Traceback" not in run.said
    assert not list((tmp_path / "model").rglob(".partial"))


def test_others_may_read_a_model_that_was_trained(uninterrupted):
    mask = os.umask(0)
    os.umask(mask)
    assert (uninterrupted / "model.safetensors").stat().st_mode & 0o777 == 0o666 & ~mask
