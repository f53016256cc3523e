"""The commands of docs/your-own-style.md work, one after the other (on a model too small to be any good)."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = re.compile(r"```console\n\$ xl-editor (?P<arguments>[^\n]+)\n")
SMALL = {
    "train": "--set model.n_layer=1 --set model.d_model=32 --set model.d_inner=32 --set optim.epochs=1",
    "tune": "--sentences 2",
}


def test_the_tutorial_runs_from_two_text_files_to_edited_text(tmp_path):
    for name in ("recipes", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    commands = COMMAND.findall((ROOT / "docs" / "your-own-style.md").read_text(encoding="utf-8"))
    assert [command.split()[0] for command in commands] == ["train", "tune", "transfer", "postedit"]
    for command in commands:
        arguments = [*shlex.split(command), *SMALL.get(command.split()[0], "").split()]
        done = subprocess.run(
            [sys.executable, "-m", "xl_editor.cli", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={"PATH": "", "OMP_WAIT_POLICY": "PASSIVE", "XL_EDITOR_CACHE": str(tmp_path / "cache")},
        )
        assert done.returncode == 0, done.stderr
    before, after = (
        (tmp_path / name).read_text().splitlines() for name in ("examples/captions/test.factual", "humorous.txt")
    )
    assert len(after) == len(before)
