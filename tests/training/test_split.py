"""Splitting: every document goes to one part, always the same one, and no two parts share text."""

import gzip
import json
import random

import pytest

from xl_editor.training.corpus import CorpusError
from xl_editor.training.split import part_of, split

PARTS = ("train", "valid", "test")


def documents(n: int, seed: int = 0) -> list[list[str]]:
    draw = random.Random(seed)
    return [[" ".join(f"w{draw.randrange(5000)}" for _ in range(12)) + "." for _ in range(4)] for _ in range(n)]


def write(path, docs):
    path.write_text("".join(json.dumps({"source": "x", "sents": doc}) + "\n" for doc in docs))
    return path


def read(directory):
    return {
        part: [json.loads(line)["sents"] for path in sorted((directory / part).iterdir()) for line in gzip.open(path)]
        for part in PARTS
    }


def test_every_document_goes_to_one_part(tmp_path):
    docs = documents(400)
    counts = split([write(tmp_path / "a.jsonl", docs[:250]), write(tmp_path / "b.jsonl", docs[250:])], tmp_path, 0.1)
    found = read(tmp_path)
    assert sorted(doc for part in PARTS for doc in found[part]) == sorted(docs)
    assert counts.documents == {part: len(found[part]) for part in PARTS}
    assert counts.left_out == 0
    assert all(part_of(doc, 0.1) == part for part in PARTS for doc in found[part])
    assert 20 < len(found["test"]) < 60


def test_what_nearly_stands_in_the_training_part_is_left_out(tmp_path):
    docs = documents(400)
    held_out = next(doc for doc in docs if part_of(doc, 0.1) == "test")
    copies = ([*held_out[:3], f"something else {n}."] for n in range(1000))
    copy = next(doc for doc in copies if part_of(doc, 0.1) == "train")
    counts = split([write(tmp_path / "a.jsonl", [*docs, copy])], tmp_path, 0.1)
    assert counts.left_out == 1
    assert held_out not in read(tmp_path)["test"]
    assert copy in read(tmp_path)["train"]
    assert counts.most_shared <= 0.1


def test_the_same_documents_give_the_same_files(tmp_path):
    path = write(tmp_path / "a.jsonl", documents(100))
    for name in ("one", "two"):
        split([path], tmp_path / name, 0.1)
    files = [sorted((tmp_path / name).rglob("*.gz")) for name in ("one", "two")]
    assert [path.read_bytes() for path in files[0]] == [path.read_bytes() for path in files[1]]


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    files = [write(tmp_path / "a.jsonl", documents(3)), write(tmp_path / "other" / "a.jsonl", documents(3, 1))]
    with pytest.raises(CorpusError, match=r"a\.jsonl"):
        split(files, tmp_path, 0.1)
