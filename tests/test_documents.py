"""Commands in the documents print what the documents say. `python tests/test_documents.py` writes it anew."""

import contextlib
import doctest
import io
import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from commands import run_here
from xl_editor import Editor
from xl_editor.cli import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = (README, ROOT / "docs" / "editing.md")
HELD_IN = (".", "docs", "recipes", "rows", "judges", "examples/*", "src/xl_editor/models/*")
WRITTEN = sorted(path for held in HELD_IN for end in ("md", "yaml") for path in ROOT.glob(f"{held}/*.{end}"))
CONSOLE = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.DOTALL)
NUMBER = re.compile(r"[+-]?\d+\.?\d*")
CALL = re.compile(r"(?:\bxl-editor|xl_editor\.cli) (?P<arguments>[a-z][^`#|\n]*)")
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#]*)(?:#(?P<heading>[^)]*))?\)")
PYTHON = re.compile(r"```pycon\n(?P<session>.*?)```", re.DOTALL)


def run(command: str) -> str:
    program, *args = shlex.split(command)
    assert program == "xl-editor"
    done = run_here(*args, COLUMNS="200", TERM="dumb", NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize(
    "example",
    [example for document in DOCUMENTS for example in CONSOLE.finditer(document.read_text(encoding="utf-8"))],
    ids=lambda m: m["command"][:30],
)
def test_commands_print_what_the_documents_say(example):
    found, expected = run(example["command"]), example["output"]
    assert NUMBER.sub("#", found) == NUMBER.sub("#", expected)
    # The last digit may differ from one processor to the next.
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (found, expected)]
    assert numbers[0] == pytest.approx(numbers[1], rel=5e-3, abs=2e-3)


def test_the_python_session_answers_what_the_readme_says():
    (session,) = (match["session"] for match in PYTHON.finditer(README.read_text(encoding="utf-8")))
    test = doctest.DocTestParser().get_doctest(session, {}, "README", str(README), 0)
    report = io.StringIO()
    results = doctest.DocTestRunner().run(test, out=report.write)
    assert results.failed == 0, report.getvalue()
    assert results.attempted > 5


def test_the_server_answers_what_its_document_says():
    document = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")
    (example,) = re.finditer(r"\$ curl localhost:8000/v1/(\w+) .* -d '(.*)'\n +(.*)", document)
    operation, body, answer = example.groups()
    editor = Editor.from_pretrained("news")
    (found,) = (slot.to_dict() for slot in getattr(editor, operation)(**json.loads(body)))
    (told,) = json.loads(answer.replace("…", ""))["slots"]
    assert told == {**found, "logprob_end": pytest.approx(found["logprob_end"], abs=1e-3)}


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.name)
def test_commands_and_options_that_are_named_exist(document):
    text = document.read_text(encoding="utf-8").replace("\\\n", " ")
    for call in CALL.finditer(text):
        command, words = typer.main.get_command(app), call["arguments"].split()
        while isinstance(command, TyperGroup) and words:
            name = words.pop(0)
            assert name in command.commands, call[0]
            command = command.commands[name]
        known = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
        named = {option for word in words for option in re.findall(r"(?<!\S)\[?(--[a-z0-9-]+)", word)}
        assert named <= {*known, "--help"}, call[0]


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for link in LINK.finditer(document.read_text(encoding="utf-8")):
        target = document.parent / link["path"] if link["path"] else document
        assert target.exists(), link[0]
        if link["heading"]:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert link["heading"] in [re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings], link[0]


def rewrite() -> None:
    def console(match: re.Match[str]) -> str:
        return f"```console\n$ {match['command']}\n{run(match['command'])}```"

    def python(match: re.Match[str]) -> str:
        lines, names = [], {}
        for line in match["session"].splitlines():
            if not line.startswith(">>> "):
                continue
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(line[4:], "README", "single"), names)
            lines.append(f"{line}\n{output.getvalue()}")
        return f"```pycon\n{''.join(lines)}```"

    for document in DOCUMENTS:
        text = CONSOLE.sub(console, document.read_text(encoding="utf-8"))
        document.write_text(PYTHON.sub(python, text), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
