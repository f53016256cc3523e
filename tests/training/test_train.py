"""`xl-editor train`, from text files to a model that edits: it learns what there is to learn, or says what is wrong."""

import json
import math
import os
import re
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest
import toy
from transformers import MarianMTModel

from xl_editor import Editor

LEARNS = {"learning_rate": 5e-3, "steps": 1000, "eval_every": 250}
HAS_GAPS = {"empty_rate": 0.2, "max_slots": 3}


def without(sentence: str, start: int, end: int) -> str:
    """The sentence with a blank in place of some words."""
    words = sentence.split()
    return " ".join([*words[:start], "[_]", *words[end:]])


def share_of(answers) -> float:
    answers = list(answers)
    return sum(answers) / len(answers)


def greedy(editor: Editor, text: str, style: str | None = None) -> str:
    return editor.infill(text, 1, beam=1, style=style)[0].text


def lacks_word(editor: Editor, sentence: str, word: int, style: str | None = None) -> bool:
    """Whether Locate points at the word that is left out of a sentence."""
    words = sentence.split()
    text = " ".join(words[:word] + words[word + 1 :])
    found = editor.locate(text, 1, style=style)[0].char
    return len(text[:found].split()) == word


# --- it learns -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learnt(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("learnt")
    recipe = toy.write_recipe(directory, sampling=HAS_GAPS, optim=LEARNS)
    return toy.train(recipe, directory / "model")


def test_it_finds_and_fills_in_what_is_missing_from_sentences_that_it_never_saw(learnt):
    editor = Editor.from_pretrained(learnt)
    questions = [(i, i + 1) for i in range(6)] + [(1, 3), (3, 5)]
    assert share_of(greedy(editor, without(s, *q)) == s for s in toy.held_out_sentences() for q in questions) > 0.99
    assert share_of(lacks_word(editor, s, word) for s in toy.held_out_sentences() for word in range(6)) > 0.99


def test_a_run_leaves_all_that_its_reader_needs(learnt):
    card = (learnt / "README.md").read_text()
    assert re.search(r"Development loss \d\.\d{4} nats a target, at step \d+", card)
    assert "learning_rate: 0.005" in card
    assert re.search(r"3,000 texts, 3,000 sentences, 1\d,\d{3} tokens \(0.00% unknown\)", card)
    assert re.search(r"recipe signature `[0-9a-f]{12}`", card)
    assert str(learnt.parent) not in card  # where the data lay is nobody's business
    assert (learnt / "learning-curve.png").read_bytes().startswith(b"\x89PNG")
    losses, evaluations = toy.log_of(learnt, "loss"), toy.log_of(learnt, "eval_loss")
    assert len(losses) == 20
    assert len(evaluations) == 4
    assert losses[-1] < losses[0] / 3
    assert f"Development loss {min(evaluations):.4f}" in card  # the best is kept
    assert json.loads((learnt / "run.json").read_text())["n_steps"] == 1000


@pytest.mark.parametrize("styles", [("bad", "good"), ("bad", "fair", "good")], ids=["two", "three"])
def test_it_writes_the_word_of_the_style_that_it_is_asked_for(tmp_path, styles):
    recipe = toy.write_recipe(
        tmp_path,
        data=toy.styled_files(tmp_path, styles),
        sampling={**HAS_GAPS, "style_dropout": 0.1},
        classifier={"weight": 2, "share": 0.25},
        optim={**LEARNS, "steps": 1500},
    )
    output = toy.train(recipe, tmp_path / "model")
    editor = Editor.from_pretrained(output)
    assert editor.styles == styles
    answers = [
        greedy(editor, without(sentence, 1, 2), style=to) == toy.held_out_sentences(to)[number]
        for source in styles
        for number, sentence in enumerate(toy.held_out_sentences(source))
        for to in styles
    ]
    assert share_of(answers) > 0.99  # under its own style's token, and under every other's
    assert max(toy.log_of(output, "eval_accuracy")) > 0.99
    sure = [editor.classify(s)[style] > 0.5 for style in styles for s in toy.held_out_sentences(style)]
    assert share_of(sure) > 0.99
    assert greedy(editor, "a1 b1good [_] m2 x5 y5") == "a1 b1good l2 m2 x5 y5"  # and without any style
    # The word that shows the style, and it alone, is exchanged; the source style is guessed. (Algorithm 1 would as soon
    # take its neighbours out, too, if it might: f is the same.)
    editor.model.config.editor["presets"] = {"paper": {"max_span": 0}}
    for preset in ("paper", "default"):
        transferred = [
            trace.text == expected
            for source, to in permutations(styles, 2)
            for trace, expected in zip(
                editor.transfer_all(toy.held_out_sentences(source), to, preset=preset),
                toy.held_out_sentences(to),
                strict=True,
            )
        ]
        assert share_of(transferred) > 0.95


def test_jsonl_brings_articles_and_styles(tmp_path):
    lines = [
        json.dumps({"sents": [first, second], "style": style})
        for style in ("bad", "good")
        for first, second in zip(toy.training_sentences(style, 40), toy.training_sentences(style, 80)[40:], strict=True)
    ]
    data = {"train": toy.write_lines(tmp_path / "all.jsonl", lines), "window": 2}
    recipe = toy.write_recipe(tmp_path, data=data, classifier={}, sampling={"unit": "word"})
    output = toy.train(recipe, tmp_path / "model")
    assert Editor.from_pretrained(output).styles == ("bad", "good")
    assert "styles bad, good" in toy.said_file(output).read_text()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_other_vocabularies_train_too(tmp_path, kind):
    vocabulary = {"kind": kind, "size": 320 if kind == "bpe" else 60}
    recipe = toy.write_recipe(tmp_path, vocabulary=vocabulary, sampling={"unit": "word"}, optim={"steps": 3})
    output = toy.train(recipe, tmp_path / "model")
    assert json.loads((output / "tokenizer.json").read_text())["model"]["type"].lower() == kind
    editor = Editor.from_pretrained(output)
    assert editor.score("a1", "b1", "x2 y2").logprob < 0
    codec = editor.codec
    assert codec.decode(codec.encode("a1 b1 x2").ids) == "a1 b1 x2"
    assert codec.unknown_id not in codec.encode("a1 b1 x2").ids


def test_minutes_fix_the_number_of_steps(tmp_path):
    recipe = toy.write_recipe(tmp_path)
    output = toy.train(recipe, tmp_path / "model", "--minutes", "0.02")
    facts = json.loads((output / "run.json").read_text())
    assert facts["n_steps"] > 1
    assert facts["recipe"]["optim"]["minutes"] == 0.02
    assert "steps" not in facts["recipe"]["optim"]


def test_products_of_bfloat16_numbers_teach_as_much(tmp_path):
    losses = {}
    for precision in ("float32", "bfloat16"):
        recipe = toy.write_recipe(tmp_path, sampling=HAS_GAPS, optim={"steps": 100, "precision": precision})
        output = toy.train(recipe, tmp_path / precision, before=toy.log_often, environment=toy.WITHOUT_AMX)
        losses[precision] = toy.log_of(output, "loss")
    assert losses["float32"][-1] < 0.7 * losses["float32"][0]
    assert losses["bfloat16"] != losses["float32"]  # something was rounded
    assert sum(losses["bfloat16"]) == pytest.approx(sum(losses["float32"]), rel=0.03)
    assert losses["bfloat16"][-1] == pytest.approx(losses["float32"][-1], rel=0.03)


def fail_at_bfloat16() -> None:
    import xl_editor.training.run as run

    run.BFLOAT16_PRODUCTS = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


def test_a_machine_that_dies_of_bfloat16_is_told_so(tmp_path):
    recipe = toy.write_recipe(tmp_path, optim={"precision": "bfloat16"})
    run = toy.start(recipe, tmp_path / "model", before=fail_at_bfloat16)
    assert run.wait() == 2, run.said
    assert (
        run.said
        == "xl-editor: This machine fails at products of bfloat16 numbers; train with optim.precision=float32.\n"
    )
    assert not (tmp_path / "model").exists()


def make_bfloat16_fast() -> None:
    import xl_editor.training.run as run

    run.BFLOAT16_PRODUCTS = "print(2.0)"


def make_bfloat16_slow() -> None:
    import xl_editor.training.run as run

    run.BFLOAT16_PRODUCTS = "print(0.1)"


@pytest.mark.parametrize(
    ("machine", "precision"),
    [(make_bfloat16_fast, "bfloat16"), (make_bfloat16_slow, "float32"), (fail_at_bfloat16, "float32")],
)
def test_auto_takes_the_faster_precision_and_a_resumed_run_keeps_to_it(tmp_path, machine, precision):
    recipe = toy.write_recipe(tmp_path, optim={"steps": 2, "precision": "auto", "optimizer": "muon"})
    output = toy.train(recipe, tmp_path / "model", before=machine, environment=toy.WITHOUT_AMX)
    assert json.loads((output / "run.json").read_text())["precision"] == precision
    toy.train(recipe, output, "--resume", before=make_bfloat16_slow, environment=toy.WITHOUT_AMX)
    assert json.loads((output / "run.json").read_text())["precision"] == precision
    elsewhere = toy.start(recipe, output, "--resume", before=fail_at_bfloat16, environment=toy.WITHOUT_AMX)
    assert elsewhere.wait() == (2 if precision == "bfloat16" else 0)


# --- the baselines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["l2r", "seq2seq"])
def test_baselines_train_through_the_same_command(tmp_path, objective):
    recipe = toy.write_recipe(tmp_path, objective=objective, optim={"steps": 100, "eval_every": 25})
    output = toy.train(recipe, tmp_path / "model", before=toy.log_often)
    losses, evaluations = toy.log_of(output, "loss"), toy.log_of(output, "eval_loss")
    assert losses[0] == pytest.approx(math.log(78), rel=0.2)  # as good as guessing
    assert losses[-1] < 0.8 * losses[0]
    assert evaluations == sorted(evaluations, reverse=True)
    assert (output / "learning-curve.png").is_file()
    card = (output / "README.md").read_text()
    assert f"objective: {objective}" in card
    assert "xl-editor infill" not in card  # a baseline edits no text
    if objective == "seq2seq":
        assert MarianMTModel.from_pretrained(output).config.d_model == 64


def test_the_seq2seq_baseline_resumes(tmp_path):
    recipe = toy.write_recipe(tmp_path, objective="seq2seq", model={"dropout": 0.1}, optim={"steps": 8})
    uninterrupted = toy.train(recipe, tmp_path / "uninterrupted")
    run = toy.start(recipe, tmp_path / "model", before=partial(toy.signal_in_step, 2, 3))
    assert run.wait() == 130
    resumed = toy.train(recipe, tmp_path / "model", "--resume")
    assert (resumed / "model.safetensors").read_bytes() == (uninterrupted / "model.safetensors").read_bytes()


# --- corpora and recipes as people have them -------------------------------------------------------------------


def test_a_corpus_as_people_have_them_is_trained_on(tmp_path):
    long_line = " ".join(toy.training_sentences(n=2500))  # some 10,000 words
    lines = [*toy.training_sentences(n=100), "", "   ", "a1", "b1\r", "a1 b1\r", long_line, "nowhere \ufeff seen"]
    data = {"train": toy.write_lines(tmp_path / "messy.txt", lines), "dev": None}
    recipe = toy.write_recipe(tmp_path, data=data, sampling=HAS_GAPS)
    output = toy.train(recipe, tmp_path / "model")
    said = toy.said_file(output).read_text()
    assert "skipped 2 empty lines" in said
    codec = Editor.from_pretrained(output).codec
    assert codec.encode("a1\r").ids == codec.encode("a1").ids  # no word ends in a carriage return
    assert codec.unknown_id not in codec.encode("a1").ids
    assert "\\r" not in (output / "tokenizer.json").read_text()


REFUSED = {
    "bad UTF-8": ({"train": b"a1 b1\na1 \xff\n"}, [], r"train\.txt, line 2: byte 4 \(0xff\) is not UTF-8"),
    "no text": ({"train": b"\n \r\n"}, [], r"train\.txt holds no text"),
    "a missing style file": (
        {},
        ["data.train={n: here.n, p: gone.p}", "data.dev=null"],
        r"data\.train\.n names \S*here\.n, which is not there",
    ),
    "a misspelt key": ({}, ["optim.learning_rat=1"], r"no key optim\.learning_rat; did you mean optim\.learning_rate"),
    "a single article": ({"train": b"a1 b1\n"}, ["data.dev=null"], "a single article cannot be split"),
    "windows of nothing": (
        {"train.jsonl": b'{"sents": ["a1"]}\n' * 3},
        ["data.train=train.jsonl", "data.dev=null", "data.window=2"],
        "The training text holds no sequence of two tokens or more",
    ),
    "one style": (
        {"train.jsonl": b'{"text": "a1 b1", "style": "n"}\n' * 3},
        ["data.train=train.jsonl", "data.dev=null", "classifier.share=0.5"],
        r"A classifier needs at least two styles, and data\.train has 1",
    ),
    "a table": (
        {"t.csv": b"a1,b1\n"},
        ["data.train=t.csv"],
        r"data\.train names \S*t\.csv; text comes a sequence a line",
    ),
    "too small a vocabulary": (
        {"train": "".join(map(chr, range(0x4E00, 0x4F00))).encode()},
        ["data.dev=null", "vocabulary={kind: unigram, size: 40}"],
        "No unigram vocabulary of 40 entries can be made",
    ),
    "half a character": (
        {"t.jsonl": b'{"text": "a1 \\ud83d"}\n'},
        ["data.train=t.jsonl", "data.dev=null"],
        r"t\.jsonl, line 1: half of a surrogate pair",
    ),
    "JSON without an end": ({"t.ndjson": b"[" * 100_000}, ["data.train=t.ndjson"], "line 1: .*JSON"),
    "styles for a baseline": (
        {"t.jsonl": b'{"text": "a1 b1", "style": "n"}\n' * 3},
        ["data.train=t.jsonl", "data.dev=null", "objective=l2r"],
        r"data\.train has styles \(n\), and objective l2r knows none",
    ),
    "init that is no model": ({}, ["vocabulary=null", "model={init: .}"], "neither tokenizer.json nor spiece.model"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_is_refused_before_training(tmp_path, case):
    files, settings, message = REFUSED[case]
    recipe = toy.write_recipe(tmp_path)
    for name, content in files.items():
        (tmp_path / (name if "." in name else f"{name}.txt")).write_bytes(content)
    overrides = [part for setting in settings for part in ("--set", setting)]
    run = toy.start(recipe, tmp_path / "model", *overrides)
    assert run.wait() == 2, run.said
    assert re.search(rf"^xl-editor: .*{message}.*\.$", run.said, re.MULTILINE), run.said
    assert "Traceback" not in run.said
    assert not (tmp_path / "model" / "run.json").exists()  # so it can be started again when it is mended


def diverge() -> None:
    """From the fourth step on, the loss is no number."""
    from xl_editor.training.trainer import InsertionTrainer

    step = InsertionTrainer.training_step

    def training_step(self, *arguments):
        return step(self, *arguments) * (math.nan if self.state.global_step >= 3 else 1.0)

    InsertionTrainer.training_step = training_step
    toy.log_often()


def test_a_run_whose_loss_is_no_number_ends_with_a_sentence(tmp_path):
    recipe = toy.write_recipe(tmp_path, optim={"steps": 20, "eval_every": 2})
    run = toy.start(recipe, tmp_path / "model", before=diverge)
    assert run.wait() == 2, run.said
    assert "The loss is no number any more at step 5; try a lower optim.learning_rate." in run.said
    assert "Traceback" not in run.said
    assert "NaN" not in (tmp_path / "model" / "log.jsonl").read_text()
    assert Editor.from_pretrained(tmp_path / "model").locate("a1 b1")  # the model of before is there


# --- memory ----------------------------------------------------------------------------------------------------


def record_memory(path: Path) -> None:
    """Write down the resident memory, in MiB, of every step."""
    from xl_editor.training.trainer import InsertionTrainer

    step = InsertionTrainer.training_step

    def training_step(self, *arguments):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        with path.open("a") as file:
            file.write(f"{pages * os.sysconf('SC_PAGE_SIZE') / 2**20}\n")
        return step(self, *arguments)

    InsertionTrainer.training_step = training_step


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_stays_flat(tmp_path):
    """Over several epochs, evaluations and checkpoints included, once every shape of batch has been seen."""
    lines = [" ".join(line) for line in zip(*[iter(toy.training_sentences(n=4000))] * 2, strict=True)]
    data = {"train": toy.write_lines(tmp_path / "train.txt", lines)}
    optim = {"steps": 450, "eval_every": 50, "save_every_minutes": 0.05}
    recipe = toy.write_recipe(tmp_path, data=data, sampling=HAS_GAPS, model={"dropout": 0.1}, optim=optim)
    output = toy.train(recipe, tmp_path / "model", before=partial(record_memory, tmp_path / "memory"))
    assert "an epoch is 77 steps" in toy.said_file(output).read_text()
    memory = [float(line) for line in (tmp_path / "memory").read_text().splitlines()]
    assert len(memory) == 450
    assert max(memory[300:]) - max(memory[150:300]) < 4
