"""Whole files: every format, whatever is wrong with a line, and jobs that go on where they were interrupted."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest

from xl_editor.edits import Deletion
from xl_editor.postedit import JobError, Task, postedit, storage
from xl_editor.postedit.formats import JSON_LINES, LINES, PARQUET, FileKind
from xl_editor.postedit.job import Job, plan
from xl_editor.postedit.progress import Progress

WORDS = ("food", "service", "staff", "pizza", "place")
TEXTS = [f"the {word} was {how} ." for word in WORDS for how in ("great", "slow", "cold", "n't good")] + ["i love it !"]

EAGER = {"preset": "paper", "threshold": -100.0, "max_steps": 1}
PLAIN = {"preset": "default", "threshold": None, "max_steps": None}  # not eager: for what is no transfer


@pytest.fixture
def task(toy_directory):
    """What changes every text, even with random weights."""
    return Task("transfer", str(toy_directory), to="positive", **EAGER)


def run(source, target, task, **settings):
    return postedit(str(source), str(target), task, **{"processes": 1, "chunk_size": 4, **settings})


def write_lines(path, texts=TEXTS):
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_parquet(path, texts=TEXTS, **columns):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra `formats`")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": texts, **columns}), path, row_group_size=3)
    return path


def test_answers_are_the_editors_own_in_the_order_of_the_input(editor, task, tmp_path):
    summary = run(write_lines(tmp_path / "in.txt"), tmp_path / "out.jsonl", task)
    found = read_jsonl(tmp_path / "out.jsonl")
    traces = editor.transfer_all(TEXTS, "positive", **EAGER)
    assert [record["text"] for record in found] == TEXTS
    assert [record["edited"] for record in found] == [trace.text for trace in traces]
    assert [len(record["scores"]) for record in found] == [len(trace.edits) for trace in traces]
    assert [r["p_after"] for r in found] == pytest.approx([t.style_after["positive"] for t in traces], abs=1e-4)
    assert summary.lines == len(TEXTS)
    assert summary.changed == sum(trace.text != trace.source for trace in traces) > 0
    assert sum(summary.operations.values()) == sum(len(trace.edits) for trace in traces)
    assert not (tmp_path / "out.jsonl.job").exists()


@pytest.mark.parametrize("operation", ["infill", "locate", "delete"])
def test_other_operations_answer_what_the_editor_does(operation, editor, toy_directory, tmp_path):
    text = "the food was [_] ." if operation == "infill" else "The food was great. The staff was slow."
    others = ["no blank here", "the [_] was slow ."] if operation == "infill" else ["i love it ! we do ."]
    run(
        write_lines(tmp_path / "in.txt", [text, *others]),
        tmp_path / "out.jsonl",
        Task(operation, str(toy_directory), trace=True),
    )
    found, *rest = read_jsonl(tmp_path / "out.jsonl")
    assert ["error" in record for record in rest] == ["no blank" in other for other in others]
    expected = {
        "infill": lambda: editor.infill(text, 1)[0].to_dict(),
        "locate": lambda: [slot.to_dict() for slot in editor.locate(text)],
        "delete": lambda: editor.delete(text)[0].to_dict(),
    }[operation]()
    assert rounded(found["trace"]) == rounded(expected)
    if operation == "infill":
        assert found["edited"] == expected["text"]
    elif operation == "locate":
        assert found["edited"] == text
        assert found["scores"][0] == pytest.approx(expected[0]["logprob_end"], abs=1e-4)
    else:
        deleted = expected["information"] < 0
        assert found["edited"] == (expected["text"] if deleted else text)
        assert found["operations"] == ["delete"] * deleted


def rounded(answer):
    """To what does not depend on the texts that are answered at the same time."""
    return json.loads(json.dumps(answer), parse_float=lambda digits: round(float(digits), 3))


@pytest.mark.parametrize(
    ("information", "left", "threshold", "deleted"),
    [
        (-0.5, "The staff was slow.", None, True),
        (0.5, "The staff was slow.", None, False),
        (-0.5, "The staff was slow.", 1.0, False),
        (-1.5, "The staff was slow.", 1.0, True),
        (-0.5, "", None, False),  # a text is never emptied
    ],
)
def test_what_fits_too_little_is_deleted(information, left, threshold, deleted, editor, toy_directory, monkeypatch):
    text = f"I love it. {left}".strip()
    found = Deletion(0, 10, "I love it.", left, -3.0, 1.0, 1.0, information)
    monkeypatch.setattr(editor, "answer_all", lambda calls: [[found] for _ in calls])
    (answer,) = Task("delete", str(toy_directory), threshold=threshold).answer(editor, [text])
    assert answer.edited == (left if deleted else text)
    assert answer.operations == ("delete",) * deleted
    assert answer.scores == (-information,)


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".txt.zst"])
def test_lines_stay_lines_also_compressed(ending, task, tmp_path):
    if ending.endswith(".zst"):
        pytest.importorskip("pyarrow", reason="zstd needs the extra `formats`")
    source, target = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    kind = FileKind.of(source.name)
    with source.open("wb") as stream, kind.writing(stream) as packed:
        packed.write("".join(f"{text}\n" for text in TEXTS).encode())
    run(source, target, task)
    run(write_lines(tmp_path / "plain.txt"), tmp_path / "plain.jsonl", task)
    with target.open("rb") as stream, kind.reading(stream) as unpacked:
        assert unpacked.read().decode().splitlines() == [r["edited"] for r in read_jsonl(tmp_path / "plain.jsonl")]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_compressed_file_without_its_end_is_refused(ending, task, tmp_path):
    if ending == ".zst":
        pytest.importorskip("pyarrow", reason="zstd needs the extra `formats`")
    source = tmp_path / f"in.txt{ending}"
    with source.open("wb") as stream, FileKind.of(source.name).writing(stream) as packed:
        packed.write("\n".join(map(str, range(10_000))).encode())
    source.write_bytes(source.read_bytes()[:-100])
    with pytest.raises(JobError, match="cannot be read"):
        run(source, tmp_path / "out.txt", task)


def test_json_lines_carry_their_fields_through(task, tmp_path):
    records = [{"id": 2**70 + i, "review": text, "é": [i, None, {"x": 0.1}]} for i, text in enumerate(TEXTS)]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    run(source, tmp_path / "out.jsonl", task, field="review")
    found = read_jsonl(tmp_path / "out.jsonl")
    assert [{name: record[name] for name in ("id", "review", "é")} for record in found] == records
    assert all("edited" in record for record in found)


def test_parquet_keeps_its_columns_and_types_and_has_the_answers_of_lines(task, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra `formats`")
    import pyarrow.parquet as pq

    moments = pa.array([1_700_000_000_000_000_001 + i for i in range(len(TEXTS))], pa.timestamp("ns"))
    source = write_parquet(tmp_path / "in.parquet", when=moments)
    run(source, tmp_path / "out.parquet", task)
    run(write_lines(tmp_path / "in.txt"), tmp_path / "lines.jsonl", task)
    found, before = pq.read_table(tmp_path / "out.parquet"), pq.read_table(source)
    assert found.select(["text", "when"]).equals(before)
    expected = read_jsonl(tmp_path / "lines.jsonl")
    for name in ("edited", "operations", "scores", "p_before", "p_after"):
        assert found[name].to_pylist() == [record[name] for record in expected]
    assert found["error"].null_count == len(TEXTS)
    run(source, tmp_path / "out.jsonl", task)
    assert [record["edited"] for record in read_jsonl(tmp_path / "out.jsonl")] == found["edited"].to_pylist()


def test_a_directory_becomes_a_directory(task, tmp_path):
    (tmp_path / "in" / "b").mkdir(parents=True)
    write_lines(tmp_path / "in" / "1.txt", TEXTS[:6])
    write_lines(tmp_path / "in" / "b" / "2.txt", TEXTS[6:])
    (tmp_path / "in" / "empty.txt").touch()
    run(tmp_path / "in", tmp_path / "out", task)
    run(write_lines(tmp_path / "all.txt"), tmp_path / "all-out.txt", task)
    parts = [tmp_path / "out" / name for name in ("1.txt", "b/2.txt", "empty.txt")]
    assert "".join(part.read_text() for part in parts) == (tmp_path / "all-out.txt").read_text()
    with pytest.raises(
        ValueError, match="The output of a directory is a directory, and .*out.jsonl is called as a file"
    ):
        run(tmp_path / "in", tmp_path / "out.jsonl", task)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_line_that_fails_says_so_and_the_others_are_answered(task, tmp_path):
    bad = [b"{", b"[1]", b'{"other": 1}', b'{"text": null}', b'{"text": 5}', b"\xff", b'{"text": "\\ud800", "n": 1}']
    fine = [json.dumps({"text": text}).encode() for text in TEXTS]
    too_long = json.dumps({"text": "the food " * 600}).encode()
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"\n".join([fine[0], *bad, too_long, *fine[1:]]) + b"\n")
    summary = run(source, tmp_path / "out.jsonl", task)
    found = read_jsonl(tmp_path / "out.jsonl")
    assert ["error" in record for record in found] == [False] + [True] * 8 + [False] * (len(TEXTS) - 1)
    assert summary.failed == 8
    assert [failure.line for failure in summary.failures] == list(range(2, 10))
    assert found[1]["unreadable"] == "{"
    assert found[6]["unreadable"] == "\\xff"
    assert found[7]["text"] == "\ud800"
    assert "at most 512" in found[8]["error"]


def test_a_bug_is_no_refusal_of_a_text(editor, task, monkeypatch):
    def breaks(*_):
        raise ValueError("zip() argument 2 is shorter than argument 1")

    monkeypatch.setattr("xl_editor.editor.smallest_edits", breaks)
    monkeypatch.setattr("xl_editor.editor.algorithm_1", breaks)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        task.answer(editor, TEXTS[:4])


class Killed(BaseException):
    pass


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_wherever_it_is_interrupted_it_goes_on_to_the_same_bytes(ending, task, tmp_path, monkeypatch):
    source = write_parquet(tmp_path / "in.parquet") if ending == "parquet" else write_lines(tmp_path / "in.txt")
    run(source, tmp_path / f"whole.{ending}", task)
    target = tmp_path / f"out.{ending}"
    writes = []
    write = storage.write
    for last in range(2, 9):  # the manifest, six parts, the summary

        def write_some(url, data, last=last):
            if len(writes) == last:
                raise Killed
            writes.append(url)
            write(url, data)

        monkeypatch.setattr(storage, "write", write_some)
        if last < 8:
            with pytest.raises(Killed):
                run(source, target, task)
    summary = run(source, target, task)
    assert len(set(writes)) == len(writes) == 8  # nothing was computed twice
    assert target.read_bytes() == (tmp_path / f"whole.{ending}").read_bytes()
    kept, expected = (json.loads((tmp_path / f"{n}.{ending}.summary.json").read_text()) for n in ("out", "whole"))
    assert kept == expected
    assert summary.lines == len(TEXTS)
    assert run(source, target, task) == summary  # it is done, and says so again


def interrupt(source, target, task, monkeypatch):
    """Leave a job after its first part."""
    with monkeypatch.context() as patch:
        answer = Task.answer
        calls = []

        def answer_once(*args):
            calls.append(args)
            if len(calls) == 2:
                raise Killed
            return answer(*args)

        patch.setattr(Task, "answer", answer_once)
        with pytest.raises(Killed):
            run(source, target, task)


def test_blank_lines_stay_and_are_no_failures(task, tmp_path):
    source, target = write_lines(tmp_path / "in.txt", ["", TEXTS[0], "  "]), tmp_path / "out.txt"
    summary = run(source, target, task)
    assert (summary.lines, summary.failed) == (3, 0)
    lines = target.read_text().split("\n")
    assert lines[0] == ""
    assert lines[1] != TEXTS[0]
    assert lines[2:] == ["  ", ""]


def test_blank_lines_of_json_stay_too(task, tmp_path):
    source, target = tmp_path / "in.JSONL", tmp_path / "out.jsonl"
    source.write_text(f'{{"text": "{TEXTS[0]}"}}\n\n')
    assert run(source, target, task).failed == 0
    first, *rest = target.read_text().split("\n")
    assert json.loads(first)["text"] == TEXTS[0]
    assert rest == ["", ""]


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_an_output_that_is_edited_again_loses_no_text_that_fails(ending, task, tmp_path):
    source, target, too_long = tmp_path / f"in{ending}", tmp_path / "out.jsonl", "word " * 600
    if ending == ".parquet":
        write_parquet(source, TEXTS[:3], edited=[TEXTS[2], too_long, None])
    else:
        edited = [TEXTS[2], too_long, None]
        rows = [{"text": text, "edited": again} for text, again in zip(TEXTS[:3], edited, strict=True)]
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for out in {target, tmp_path / f"out{ending}"}:
        run(source, out, task, field="edited")
    edited, failed, nothing = read_jsonl(target)
    assert nothing["edited"] is None
    assert "must be a string" in nothing["error"]
    assert edited["edited"] != TEXTS[2]
    assert failed["edited"] == too_long
    assert "600 tokens" in failed["error"]
    if ending == ".parquet":
        from pyarrow.parquet import read_table

        assert read_table(tmp_path / "out.parquet").column("edited").to_pylist()[1:] == [too_long, None]


def test_what_json_has_no_word_for_is_null(task, tmp_path):
    source, target = write_parquet(tmp_path / "in.parquet", TEXTS[:2], f=[math.nan, 0.5]), tmp_path / "out.jsonl"
    run(source, target, task)
    assert [row["f"] for row in read_jsonl(target)] == [None, 0.5]
    assert "NaN" not in target.read_text()


def test_times_become_text_even_those_that_python_does_not_have(task, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra `formats`")
    days = pa.array([10**7, 1], pa.date32())
    moments = pa.array([[5], []], pa.list_(pa.timestamp("ns")))
    within = pa.array([{"at": 5}, None], pa.struct([("at", pa.timestamp("ns"))]))
    source = write_parquet(tmp_path / "in.parquet", TEXTS[:2], days=days, moments=moments, within=within)
    run(source, tmp_path / "out.jsonl", task)
    nanoseconds = "1970-01-01 00:00:00.000000005"
    rows = [{name: row[name] for name in ("days", "moments", "within")} for row in read_jsonl(tmp_path / "out.jsonl")]
    assert rows == [
        {"days": "29349-01-26", "moments": [nanoseconds], "within": {"at": nanoseconds}},
        {"days": "1970-01-02", "moments": [], "within": None},
    ]


def test_all_columns_named_as_an_answer_are_replaced(task, tmp_path):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra `formats`")
    from pyarrow import parquet

    columns = [pa.array(TEXTS[:2]), pa.array([1, 2]), pa.array([3, 4])]
    parquet.write_table(pa.table(columns, names=["text", "edited", "edited"]), tmp_path / "in.parquet")
    run(tmp_path / "in.parquet", tmp_path / "out.parquet", task)
    edited = parquet.read_table(tmp_path / "out.parquet")
    assert edited.column_names.count("edited") == 1
    assert all(isinstance(text, str) for text in edited.column("edited").to_pylist())


def test_a_row_may_be_nested_deeply(task, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    nested = "[" * 900 + "NaN" + "]" * 900
    source.write_text(f'{{"text": "{TEXTS[0]}", "nested": {nested}}}\n')
    run(source, target, task)
    assert nested.replace("NaN", "null") in target.read_text()


def test_input_or_request_that_changed_is_refused(task, toy_directory, tmp_path, monkeypatch):
    source, target = write_lines(tmp_path / "in.txt"), tmp_path / "out.jsonl"
    interrupt(source, target, task, monkeypatch)
    with pytest.raises(JobError, match="to is 'negative', but .* was begun with 'positive'; .*remove .*out.jsonl.job"):
        run(source, target, Task("transfer", str(toy_directory), to="negative", **EAGER))
    with pytest.raises(JobError, match="chunk_size is 5"):
        run(source, target, task, chunk_size=5)
    write_lines(source, [*TEXTS[:-1], "i like it !"])
    with pytest.raises(JobError, match="in.txt has changed since"):
        run(source, target, task)
    write_lines(source)
    assert run(source, target, task).lines == len(TEXTS)
    write_lines(source, TEXTS[:-1])
    with pytest.raises(JobError, match="in.txt has changed since"):
        run(source, target, task)


def test_a_truncated_output_is_replaced_or_refused(task, tmp_path, monkeypatch):
    source, target = write_lines(tmp_path / "in.txt"), tmp_path / "out.jsonl"
    run(source, tmp_path / "whole.jsonl", task)
    whole = (tmp_path / "whole.jsonl").read_bytes()
    interrupt(source, target, task, monkeypatch)
    target.write_bytes(whole[:100])  # of a join that some earlier crash cut off
    run(source, target, task)
    assert target.read_bytes() == whole
    target.write_bytes(whole[:100])
    with pytest.raises(JobError, match="not as the job left it"):
        run(source, target, task)


def test_parts_that_are_missing_are_noticed_wherever_they_are(task, tmp_path):
    source, target = write_lines(tmp_path / "in.txt"), tmp_path / "out.jsonl"
    job = plan(str(source), str(target), task, field=None, chunk_size=4, threads=1, survey=map)
    job.begin()
    editor = job.load_editor()
    for chunk in job.chunks():
        storage.write(job.part_url(chunk.file, chunk.index), job.answer(editor, chunk))
    last = max(job.done(0))
    for missing in (0, last):
        part = storage.read(job.part_url(0, missing))
        storage.remove_tree(job.part_url(0, missing))
        with pytest.raises(JobError, match="Parts are missing"):
            job.join(0)
        assert not target.exists()
        storage.write(job.part_url(0, missing), part)
    assert job.join(0).lines == len(TEXTS)


@pytest.mark.parametrize("target", ["data", "data/", "data/out", "data/../data/out"])
def test_an_output_within_the_input_is_refused(target, task, tmp_path):
    (tmp_path / "data").mkdir()
    write_lines(tmp_path / "data" / "in.txt")
    write_lines(tmp_path / "data.txt")
    with pytest.raises(JobError, match="must be elsewhere than the input"):
        run(tmp_path / "data", f"{tmp_path}/{target}", task)
    with pytest.raises(JobError, match="must be elsewhere than the input"):
        run(tmp_path / "data.txt", tmp_path / "data.txt", task)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["data", "data.txt", "in.txt"]


def test_what_breaks_while_it_is_written_elsewhere_does_not_appear():
    def write_half():
        with storage.writing("memory://broken/out.txt") as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert storage.names_below("memory://broken") == []
    with storage.writing("memory://broken/out.txt") as stream:
        stream.write(b"whole")
    assert storage.read("memory://broken/out.txt") == b"whole"


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_a_byte_order_mark_is_no_text(ending, task, tmp_path):
    rows = TEXTS[:2] if ending == "txt" else [json.dumps({"text": text}) for text in TEXTS[:2]]
    write_lines(tmp_path / f"plain.{ending}", rows)
    (tmp_path / f"marked.{ending}").write_bytes(b"\xef\xbb\xbf" + (tmp_path / f"plain.{ending}").read_bytes())
    for name in ("plain", "marked"):
        run(tmp_path / f"{name}.{ending}", tmp_path / f"{name}-out.jsonl", task)
    assert (tmp_path / "marked-out.jsonl").read_bytes() == (tmp_path / "plain-out.jsonl").read_bytes()


def test_an_output_that_is_there_is_not_overwritten(task, tmp_path):
    target = write_lines(tmp_path / "out.txt", ["precious"])
    with pytest.raises(JobError, match="is there already"):
        run(write_lines(tmp_path / "in.txt"), target, task)
    assert target.read_text() == "precious\n"
    assert not (tmp_path / "out.txt.job").exists()


def test_a_directory_that_is_no_job_is_left_alone(task, tmp_path):
    source, target = write_lines(tmp_path / "in.txt"), tmp_path / "out.txt"
    precious = tmp_path / "out.txt.job" / ".notes" / "keep.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("precious")
    with pytest.raises(JobError, match=r"out.txt.job, where the job would work, has .notes, which is not of a job"):
        run(source, target, task)
    precious.rename(tmp_path / "keep.txt")
    precious.parent.rmdir()
    run(source, target, task)
    precious.parent.mkdir(parents=True)
    (tmp_path / "keep.txt").rename(precious)
    assert run(source, target, task).lines == len(TEXTS)  # is done already
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("content", ['{"a": 1}', "[]", "x", ""])
@pytest.mark.parametrize("name", ["out.txt.summary.json", "out.txt.job/manifest.json"])
def test_what_was_not_written_by_a_job_is_refused(name, content, task, tmp_path):
    foreign = tmp_path / name
    foreign.parent.mkdir(exist_ok=True)
    foreign.write_text(content)
    with pytest.raises(JobError, match=f"{foreign.name} was not written by postedit"):
        run(write_lines(tmp_path / "in.txt"), tmp_path / "out.txt", task)
    assert foreign.read_text() == content


def test_two_runs_of_one_job_do_not_meet(task, tmp_path):
    source, target = write_lines(tmp_path / "in.txt"), tmp_path / "out.txt"
    with storage.alone_in(f"{target}.job"), pytest.raises(ValueError, match="Another process is at work"):
        run(source, target, task)


def test_files_elsewhere_are_read_and_written_by_their_url(task, tmp_path):
    storage.write("memory://here/in.txt", write_lines(tmp_path / "in.txt").read_bytes())
    run(tmp_path / "in.txt", tmp_path / "out.jsonl", task)
    run("memory://here/in.txt", "memory://there/out.jsonl", task)
    assert storage.read("memory://there/out.jsonl") == (tmp_path / "out.jsonl").read_bytes()
    assert not storage.exists("memory://there/out.jsonl.job")


@pytest.mark.parametrize("n_rows", [0, 1, 3, 4, 5, 8])
@pytest.mark.parametrize("format", [LINES, JSON_LINES, PARQUET], ids=lambda format: format.name)
def test_chunks_have_all_rows_once_and_the_same_size(format, n_rows, tmp_path):
    source = tmp_path / "rows"
    texts = [f"row {i}" for i in range(n_rows)]
    write_parquet(source, texts) if format is PARQUET else write_lines(source, texts)
    with source.open("rb") as stream:
        chunks = list(format.read(stream, 4))
    assert [len(chunk) for chunk in chunks] == [4] * (n_rows // 4) + ([n_rows % 4] if n_rows % 4 or not n_rows else [])
    rows = [row for chunk in chunks for row in (chunk["text"].to_pylist() if format is PARQUET else chunk)]
    assert [row if isinstance(row, str) else row.decode() for row in rows] == texts


def test_progress_tells_rate_and_time_left():
    progress = Progress(10_000, 1_000)
    progress.done = 2_000
    assert progress.line(100.0) == "2,000 of 10,000 lines  10.0/s  13 min left"


def command(*args, stdin=None, before="pass"):
    code = f"import sys; {before}; from xl_editor.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "postedit", *args], input=stdin, capture_output=True, timeout=300, check=False
    )


def test_the_command_reads_a_pipe_and_writes_one(toy_directory, editor):
    lines = b"the food was great .\n\xff\nthe staff was slow .\n"
    options = ["--to", "positive", "--model", str(toy_directory), "--processes", "1"]
    options += ["--preset", "paper", "--threshold", "-100", "--max-steps", "1"]
    done = command("-", "-", *options, stdin=lines)
    edited = [t.text for t in editor.transfer_all([TEXTS[0], "the staff was slow ."], "positive", **EAGER)]
    assert done.stdout == f"{edited[0]}\n".encode() + b"\xff\n" + f"{edited[1]}\n".encode()
    assert done.returncode == 1
    assert b"standard input, line 2: Byte 1 of the line, 0xff, is not UTF-8." in done.stderr


@pytest.mark.parametrize(
    ("source", "target", "asked", "settings", "message"),
    [
        ("in.txt", "out.txt", {"to": None}, {}, "needs a style to revise into: --to"),
        ("in.txt", "out.txt", {"to": "ironic"}, {}, "to must be one of negative, positive"),
        ("in.txt", "out.txt", {"operation": "sing"}, {}, "operation must be one of transfer, correct, infill"),
        (
            "in.txt",
            "out.txt",
            {"operation": "delete", **PLAIN, "unit": "letter"},
            {},
            "unit must be one of token, word, span, sentence",
        ),
        ("in.txt", "out.txt", {"operation": "delete", **PLAIN, "keep": ("food",)}, {}, "keep must be left out: delete"),
        (
            "in.txt",
            "out.jsonl",
            {"operation": "locate", **PLAIN, "threshold": 1.0},
            {},
            "threshold must be left out: locate",
        ),
        ("in.txt", "out.txt", {"operation": "locate", **PLAIN}, {}, "no place for what locate tells; name an output"),
        ("in.txt", "out.txt", {"trace": True}, {}, "no place for what trace tells; name an output .jsonl"),
        ("in.txt", "out.jsonl", {}, {"field": "review"}, "field must be left out: in.txt holds plain lines"),
        ("in.txt", "out.jsonl", {"threshold": math.nan}, {}, "threshold must be a number, got nan"),
        ("in.CSV", "out.jsonl", {}, {}, "in.CSV cannot be used; use plain lines"),
        ("in.txt.xz", "out.jsonl", {}, {}, "in.txt.xz cannot be used; use plain lines"),
        ("in.txt", "out.txt", {}, {"engine": "steam"}, "engine must be local or ray"),
        ("in.txt", "out.txt", {}, {"processes": 0}, "processes must be at least 1"),
        ("nowhere.txt", "out.txt", {}, {}, "There is no .*nowhere.txt"),
        ("in.txt", "out.parquet", {}, {}, "would hold Parquet, but the input holds lines"),
        ("in.txt", "out.csv", {}, {}, "out.csv cannot be used; use plain lines"),
        ("in.txt", "-", {}, {"engine": "ray"}, "ray reads and writes files"),
        ("in.parquet.gz", "out.jsonl", {}, {}, "Parquet is compressed by itself"),
    ],
)
def test_bad_requests_are_refused_and_leave_nothing(source, target, asked, settings, message, task, tmp_path):
    names = {"in.txt", "in.parquet.gz", "in.CSV", "in.txt.xz"}
    for name in names:
        write_lines(tmp_path / name)
    where = target if target == "-" else tmp_path / target
    with pytest.raises(ValueError, match=message):
        run(tmp_path / source, where, replace(task, **asked), **settings)
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.parametrize(
    ("source", "engine", "package", "extra"),
    [("in.parquet", "local", "pyarrow", "formats"), ("in.txt", "ray", "ray", "cluster")],
)
def test_a_missing_package_is_one_sentence_and_exit_code_2(source, engine, package, extra, toy_directory, tmp_path):
    paths = [str(write_lines(tmp_path / source)), str(tmp_path / "out.jsonl")]
    options = ["--engine", engine, "--to", "positive", "--model", str(toy_directory)]
    done = command(*paths, *options, before=f"sys.modules[{package!r}] = None")
    assert done.returncode == 2
    assert f"needs {package}; install it with: pip install 'xl-editor[{extra}]'" in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) == 1


def test_an_input_that_changes_under_a_job_is_noticed(task, tmp_path, monkeypatch):
    source = write_lines(tmp_path / "in.txt")
    written = source.read_bytes()
    join = Job.join

    def join_after_a_change(job, number):
        source.write_bytes(written.replace(b"a", b"e"))  # as many lines, other words
        return join(job, number)

    monkeypatch.setattr(Job, "join", join_after_a_change)
    with pytest.raises(ValueError, match="in.txt changed while it was read"):
        run(source, tmp_path / "out.txt", task)
    assert not (tmp_path / "out.txt.summary.json").exists()


@pytest.mark.parametrize(
    ("paths", "message"),
    [("- out.txt <&-", "Standard input is closed."), ("in.txt - >&-", "Standard output is closed.")],
)
def test_a_closed_stream_is_told(paths, message, toy_directory, tmp_path):
    write_lines(tmp_path / "in.txt")
    source, target, redirection = paths.split()
    call = f"{sys.executable} -m xl_editor.cli postedit {source} {target} --to positive --model {toy_directory}"
    done = subprocess.run(f"{call} {redirection}", shell=True, capture_output=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr.decode()) == (2, f"xl-editor: {message}\n")


def test_gzip_output_does_not_depend_on_the_clock(tmp_path):
    with (tmp_path / "y.gz").open("wb") as stream, FileKind.of("y.gz").writing(stream) as packed:
        packed.write(b"text")
    assert (tmp_path / "y.gz").read_bytes()[4:8] == bytes(4)  # the field for the time
