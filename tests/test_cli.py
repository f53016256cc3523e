"""The command line: the same numbers as Python, and one sentence for whatever is wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from commands import run_here


def run(*args: str, stdin: str | bytes | None = None, **kwargs) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "xl_editor.cli", *args]
    data = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(command, input=data, capture_output=True, timeout=120, check=False, **kwargs)


def test_the_same_request_through_python_cli_and_a_batch_of_others(editor, toy_directory):
    others = [f"the staff is {word} and [_] ." for word in ("great", "slow", "cold") for _ in range(33)]
    text = "The food was [_] and the service was slow."
    done = run("infill", "-", "--json", "--top", "3", "--model", str(toy_directory), stdin="\n".join([*others, text]))
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(answers) == 100
    expected = [filling.to_dict() for filling in editor.infill(text, 3)]
    assert answers[-1]["text"] == text
    for found, wanted in zip(answers[-1]["fillings"], expected, strict=True):
        assert found["text"] == wanted["text"]
        assert found["logprob"] == pytest.approx(wanted["logprob"], abs=1e-5)


def _nearly(value):
    return pytest.approx(value, abs=1e-4) if isinstance(value, float) else value


def test_every_command_answers_in_json_and_in_words(editor, toy_directory):
    model = ["--model", str(toy_directory)]
    asked = {
        "locate": ("the food was great", "slots", lambda t: [s.to_dict() for s in editor.locate(t, 2)]),
        "delete": ("The food. The staff.", "deletions", lambda t: [d.to_dict() for d in editor.delete(t, top=2)]),
    }
    for command, (text, key, ask) in asked.items():
        done = run_here(command, text, "--json", "--top", "2", *model)
        # In another process, numbers may lie otherwise in memory, and sums be rounded otherwise.
        for found, expected in zip(json.loads(done.stdout)[key], ask(text), strict=True):
            assert found == {name: _nearly(value) for name, value in expected.items()}
        assert run_here(command, text, *model).returncode == 0
    done = run_here("score", "the food was [great] .", "--json", *model)
    assert json.loads(done.stdout)["logprob"] == pytest.approx(editor.score("the food was", "great", ".").logprob)
    done = run_here("replace", "the food was [great] .", "--json", *model)
    answer = json.loads(done.stdout)
    assert [answer["text"][edit["start"] : edit["end"]] for edit in answer["edits"]] == ["great"] * 5
    done = run_here("classify", "the food was great .", "--json", *model)
    assert json.loads(done.stdout)["styles"] == pytest.approx(editor.classify("the food was great ."))


def test_an_article_in_a_file_can_be_one_text(toy_directory, tmp_path):
    model = ["--model", str(toy_directory)]
    article = tmp_path / "article.txt"
    article.write_text("The food was great.\nThe staff was slow.\n\nThe pizza was cold.\n")
    for command, key in {"locate": "slots", "delete": "deletions"}.items():
        asked = [command, "--json", "--file", str(article), *model]
        assert len(run_here(*asked).stdout.splitlines()) == 4
        expected = json.loads(run_here(command, article.read_text(), "--json", *model).stdout)
        assert len(expected[key]) > 1
        for how in ({"asked": ["--file", str(article)]}, {"asked": ["-"], "stdin": article.read_text()}):
            done = run_here(command, "--json", "--whole", *how.pop("asked"), *model, **how)
            assert json.loads(done.stdout) == expected
    refused = run_here("locate", "--whole", "some text", *model)
    assert (refused.returncode, refused.stderr) == (2, b"xl-editor: --whole is for --file or standard input.\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["locate", ""], "text must not be empty"),
        (["locate", "  "], "text must not be empty"),
        (["classify", "a " * 30_000], "tokens are accepted"),
        (["infill", "no blank here"], "must contain a blank, written [_]"),
        (["locate", "the food", "--style", "ironic"], "style must be one of negative, positive"),
        (["locate", "the food", "--model", "./nowhere"], "not a directory with a model"),
        (["locate", "the food", "--model", "."], "holds no config.json"),
        (["locate", "-", "the food"], "Give texts, or '-' for standard input, not both."),
        (["score", "no brackets"], "must mark a part in [brackets]"),
        (["replace", "see [1] and [the] report"], "one part in [brackets], and has several"),
        (["delete", "a b", "--unit", "letter"], "unit must be one of token, word, span, sentence"),
        (["tune", "yelp", "--dev", "negative=a"], "yelp is not a directory with a model in it"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(args, message, toy_directory, tmp_path):
    if "--model" not in args and args[0] != "tune":
        args = [*args, "--model", str(toy_directory)]
    done = run_here(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) == 1
    assert done.stdout == b""


def test_what_goes_in_comes_out_and_only_line_ends_end_lines(toy_directory, tmp_path):
    lines = ["the food :pizza: [b]was[/b]\tgreat .", "the food\u2028the staff", "the\x0bfood", "the\rstaff"]
    (tmp_path / "texts").write_bytes("\r\n".join(lines).encode())
    how = ["--to", "positive", "--max-steps", "0", "--model", str(toy_directory)]
    for given in ({"stdin": "\n".join(lines).encode()}, {}):
        done = run_here("transfer", *([] if given else ["--file", str(tmp_path / "texts")]), *how, **given)
        assert done.stdout.decode().split("\n")[:-1] == lines


def test_a_failed_line_of_a_filter_stays_in_its_place(toy_directory):
    how = ["--to", "positive", "--max-steps", "0", "--model", str(toy_directory)]
    done = run_here("transfer", *how, stdin="the food .\n\nthe staff .\n")
    assert done.stdout.decode() == "the food .\n\nthe staff .\n"
    assert done.stderr.decode() == "xl-editor: text 2: text must not be empty.\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["transfer", "--to", "bogus"], "--to must be one of negative, positive, got 'bogus'."),
        (["infill", "--top", "0"], "--top must be at least 1, got 0."),
        (["infill", "--top-k", "5"], "--top-k is for drawing at random, which was not asked for."),
        (["locate", "--top", "0"], "--top must be at least 1, got 0."),
        (["delete", "--by", "luck"], "--by must be information or ratio or rank, got 'luck'."),
    ],
)
def test_an_option_that_is_wrong_for_every_text_is_told_once(toy_directory, args, message):
    done = run_here(*args, "--model", str(toy_directory), stdin="the food .\nthe staff .\n")
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"xl-editor: {message}\n")


@pytest.mark.parametrize(
    ("redirection", "message"),
    [("<&-", "Give a text, or pipe some in; see --help."), ("'the food' >&-", "Standard output is closed.")],
)
def test_a_closed_stream_is_told(toy_directory, redirection, message):
    command = f"{sys.executable} -m xl_editor.cli locate --model {toy_directory} {redirection}"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.decode()) == (2, f"xl-editor: {message}\n")


def test_without_standard_error_answers_are_the_same(toy_directory):
    command = f"{sys.executable} -m xl_editor.cli locate --model {toy_directory}"
    answered = subprocess.run(f"{command} 'the food' 2>&-", shell=True, capture_output=True, timeout=120, check=False)
    assert (answered.returncode, answered.stdout) == (
        0,
        run_here("locate", "the food", "--model", str(toy_directory)).stdout,
    )
    refused = subprocess.run(f"{command} '' 2>&-", shell=True, capture_output=True, timeout=120, check=False)
    assert (refused.returncode, refused.stdout) == (2, b"")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--operation", "delete", "--to", "nosuch"], b"--to must be one of"),
        (["--to", "positive", "--threads", "0"], b"--threads must be at least 1"),
    ],
)
def test_postedit_complains_about_options_as_they_are_typed(toy_directory, tmp_path, options, complaint):
    (tmp_path / "in.txt").write_text("the food\n")
    done = run_here(
        "postedit", str(tmp_path / "in.txt"), str(tmp_path / "out"), "--model", str(toy_directory), *options
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"xl-editor: " + complaint)
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_json_is_utf_8_whatever_went_in(toy_directory):
    done = run_here("locate", "--json", "--model", str(toy_directory), stdin=b"the caf\xe9 was .\n")
    assert json.loads(done.stdout.decode("utf-8"))["text"] == "the caf\ufffd was ."


def test_brackets_of_the_text_are_written_with_a_backslash(editor, toy_directory):
    done = run_here("score", r"the \[food\] was [great] .", "--json", "--model", str(toy_directory))
    assert json.loads(done.stdout)["logprob"] == pytest.approx(editor.score("the [food] was ", "great", " .").logprob)


@pytest.mark.parametrize("text", ["the [food [was] great] .", "the [food] was [great] .", "the [food] was great] ."])
def test_only_one_part_can_be_marked(toy_directory, text):
    done = run_here("score", text, "--model", str(toy_directory))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"must mark one part in [brackets], and has several" in done.stderr


def test_a_model_without_a_name_is_not_the_default_one():
    done = run_here("locate", "the food", "--model", "")
    assert (done.returncode, done.stderr) == (2, b"xl-editor: --model must name a model, and is empty.\n")


def test_the_most_probable_styles_come_first(editor, toy_directory):
    done = run_here("classify", "the food", "--top", "1", "--json", "--model", str(toy_directory))
    styles = editor.classify("the food")
    best = max(styles, key=styles.get)
    assert json.loads(done.stdout)["styles"] == {best: pytest.approx(styles[best])}


def test_the_version_is_told():
    assert run_here("--version").stdout.decode().startswith("xl-editor 0")


def test_a_bad_line_among_many_is_told_and_the_others_are_answered(toy_directory):
    lines = b"the food [_] .\nno blank\n\xff\xfe [_]\n"
    done = run_here("infill", "--json", "--model", str(toy_directory), stdin=lines)
    answers = [json.loads(line) for line in done.stdout.decode("utf-8", "replace").splitlines()]
    assert done.returncode == 1
    assert ["error" in answer for answer in answers] == [False, True, False]


def test_help_is_quick_and_needs_no_torch():
    code = "import sys, xl_editor.cli; sys.exit('torch' in sys.modules or 'rich.progress' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    done = run_here("infill", "--help")
    assert done.returncode == 0
    assert "xl-editor infill" in done.stdout.decode()


def test_editing_does_not_import_transformers(toy_directory):
    code = (
        "import sys; from xl_editor import Editor; "
        f"Editor.from_pretrained({str(toy_directory)!r}).locate('the food'); "
        "sys.exit('transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_closed_pipe_ends_it_quietly(toy_directory):
    command = f"{sys.executable} -m xl_editor.cli locate --model {toy_directory} | head -n 1"
    lines = "the food was great .\n" * 2000
    done = subprocess.run(command, shell=True, input=lines.encode(), capture_output=True, timeout=120, check=False)
    assert done.stderr == b""
    assert done.stdout


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_ends_it_quietly(toy_directory):
    command = [sys.executable, "-m", "xl_editor.cli", "locate", "--model", str(toy_directory)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background inherit "ignore"
    )
    process.stdin.write(b"the food was great .\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(2)
    time.sleep(0.1)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr == b""


@pytest.mark.parametrize(
    "error", [ValueError("text: zip() argument 2 is shorter"), KeyError("text"), RuntimeError("oops")]
)
def test_a_bug_is_a_traceback_and_no_refusal(toy_directory, monkeypatch, error):
    def breaks(*_, **__):
        raise error

    monkeypatch.setattr("xl_editor.operations.locate", breaks)
    with pytest.raises(type(error)):  # which Python shows as a traceback, with exit code 1
        run_here("locate", "the food", "--model", str(toy_directory))


def test_a_refusal_names_the_option(toy_directory):
    done = run_here("infill", "the [_]", "--top", "0", "--model", str(toy_directory))
    assert done.returncode == 2
    assert done.stderr.decode() == "xl-editor: --top must be at least 1, got 0.\n"
