"""The command line: parse, call, render. Heavy imports wait until a command needs them, so that --help is quick."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from xl_editor import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from xl_editor.editor import Editor
    from xl_editor.errors import TextError

EXIT_SOME_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 1, 2, 130
SHOW_PROGRESS_FROM = 20  # texts
# What the arguments of `Editor` and `postedit` are called here.
OPTION_OF = {"n": "--top", "source": "--from"} | {
    argument: f"--{argument.replace('_', '-')}"
    for argument in (
        *("top", "to", "style", "preset", "max_steps", "threshold", "keep", "unit", "by", "field", "trace"),
        *("beam", "max_length", "sample", "top_k", "top_p", "seed", "operation", "engine", "chunk_size", "processes"),
        *("threads", "corrector"),
    )
}

app = typer.Typer(
    name="xl-editor",
    help="Locate, insert, replace, delete and restyle text by the probability of inserting any sequence anywhere.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"xl-editor {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


reproduce_app = typer.Typer(no_args_is_help=True, help="Rebuild the paper's tables of results.")
app.add_typer(reproduce_app, name="reproduce")
evaluate_app = typer.Typer(no_args_is_help=True, help="Measure outputs and models.")
app.add_typer(evaluate_app, name="evaluate")

Texts = Annotated[list[str] | None, typer.Argument(help="Texts; '-', or nothing, reads standard input, a line a text.")]
Data = Annotated[
    Path,
    typer.Option(
        help="A data set's directory: train.STYLE.gz, dev.STYLE, test.STYLE (STYLE: neg, pos), "
        "references/reference.li.DIRECTION, outputs/SYSTEM.DIRECTION (neg2pos, pos2neg); see docs/results.md. Its "
        "name, yelp or amazon, tells the published figures and the judge's widths."
    ),
]
NewsData = Annotated[
    Path, typer.Option(help="A directory of articles as JSONL: train.jsonl.xz (or .gz, or plain), valid and test.")
]
NewsTaskCount = Annotated[int, typer.Option(help="Instances of each task.", min=1)]
Work = Annotated[Path, typer.Option(help="Where trained judges and edited texts are kept, to be used again.")]
WORK, RESULTS = Path("work"), Path("results")
Seeds = Annotated[int, typer.Option(help="How many reporting classifiers, each with its own seed.", min=1)]
File = Annotated[Path | None, typer.Option("--file", help="Read the texts from this file instead, a line a text.")]


def _named(model: str | None) -> str | None:
    if model is not None and not model.strip():
        _refuse("--model must name a model, and is empty.")
    return model


Model = Annotated[
    str | None,
    typer.Option(
        help="A bundled model (see `models`), a directory or a hub id; by default yelp if styles come in, else news.",
        callback=_named,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
Top = Annotated[int, typer.Option(help="How many answers.")]
Style = Annotated[str | None, typer.Option(help="Answer as for texts of this style; `models` lists the styles.")]
Beam = Annotated[
    int | None,
    typer.Option(help="Width of the search, at least --top; by default 5 or --top, and more at its start."),
]
MaxLength = Annotated[int, typer.Option(help="Most tokens of an insertion.")]
Whole = Annotated[
    bool, typer.Option("--whole", help="Read --file, or standard input, as one text of many lines: an article.")
]
Sample = Annotated[bool, typer.Option("--sample", help="Draw at random instead of searching for the best.")]
TopK = Annotated[int, typer.Option(help="With --sample: from the K most probable tokens only; 0 for all.")]
TopP = Annotated[float, typer.Option(help="With --sample: from the fewest tokens with this much probability.")]
Seed = Annotated[int, typer.Option(help="With --sample: the same seed gives the same draws.")]


@app.command()
def locate(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    top: Top = 5,
    style: Style = None,
    whole: Whole = False,
    as_json: Json = False,
) -> None:
    """Where is something missing? Prints the places most in need of text.

    A text may be long: each place is looked at among the sentences around it.

    xl-editor locate "The state and EPA have found poor air quality San Joaquin Valley."

    xl-editor locate --whole --file article.txt --top 10
    """
    editor = _load(model, of_styles=style is not None)
    progress = _is_watched(texts, whole)
    asked = _read(texts, file, whole=whole)
    _answer(asked, as_json, "slots", lambda text: editor.locate(text, top, style, progress=progress))


@app.command()
def infill(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    top: Top = 5,
    style: Style = None,
    beam: Beam = None,
    max_length: MaxLength = 24,
    sample: Sample = False,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    r"""Fill the blanks, written [_], of a text. A literal one is written \[_].

    xl-editor infill "the food was [_] and the service [_] ." --top 3
    """
    editor = _load(model, of_styles=style is not None)
    how: dict[str, Any] = {"beam": beam, "max_length": max_length, "sample": sample}
    how |= {"top_k": top_k, "top_p": top_p, "seed": seed}
    _answer(_read(texts, file), as_json, "fillings", lambda text: editor.infill(text, top, style=style, **how))


@app.command()
def score(
    texts: Texts = None, file: File = None, model: Model = None, style: Style = None, as_json: Json = False
) -> None:
    """How probable is it to insert what stands in [brackets]? Empty brackets ask about inserting nothing.

    xl-editor score "the food was [very good] ."
    """
    editor = _load(model, of_styles=style is not None)

    def ask(text: str) -> list[Any]:
        whole, span = _marked(text)
        return [editor.score_at(whole, span, style)]

    _answer(_read(texts, file), as_json, None, ask)


@app.command()
def replace(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    top: Top = 5,
    style: Style = None,
    beam: Beam = None,
    max_length: MaxLength = 24,
    sample: Sample = False,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """What could stand in place of what is in [brackets], with the odds against it?

    xl-editor replace "the food was [over] priced ."
    """
    editor = _load(model, of_styles=style is not None)
    how: dict[str, Any] = {"beam": beam, "max_length": max_length, "sample": sample}
    how |= {"top_k": top_k, "top_p": top_p, "seed": seed}

    def ask(text: str) -> list[Any]:
        whole, span = _marked(text)
        return editor.replace(whole, span, top, style=style, **how)

    _answer(_read(texts, file), as_json, "edits", ask, read=lambda text: _marked(text)[0])


@app.command()
def delete(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    top: Top = 3,
    unit: Annotated[
        str, typer.Option(help="token (of the model), word, span (of up to four words) or sentence.")
    ] = "sentence",
    by: Annotated[
        str | None,
        typer.Option(
            help="information (of sentences), ratio (of words and spans), or rank: see above.", show_default=False
        ),
    ] = None,
    style: Style = None,
    whole: Whole = False,
    as_json: Json = False,
) -> None:
    """What does not belong? Prints the parts that fit least, each with the number that says so.

    Sentences by what they and the rest tell about each other, in nats a token (information). Words and spans by their
    perplexity against that of nothing there (ratio, printed with log-odds). rank goes by the perplexity of the rest; in
    a long text by how much that lowers the perplexity of the sentences around.

    A text may be long; a sentence longer than 128 tokens then comes in parts.

    xl-editor delete "We met at noon. Bananas are yellow. Lunch was short." --unit sentence

    xl-editor delete --whole --file article.txt
    """
    editor = _load(model, of_styles=style is not None)
    how: dict[str, Any] = {"unit": unit, "style": style, "by": by, "progress": _is_watched(texts, whole)}
    _answer(_read(texts, file, whole=whole), as_json, "deletions", lambda text: editor.delete(text, top=top, **how))


@app.command()
def classify(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    top: Annotated[int | None, typer.Option(help="The most probable ones only, these first.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """How probable is each style of the model?

    xl-editor classify "the food was great ."
    """
    editor = _load(model, of_styles=True)

    def ask(text: str) -> list[Any]:
        styles = editor.classify(text)
        if top is not None:
            styles = dict(sorted(styles.items(), key=lambda found: -found[1])[:top])
        return [_Styles(styles)]

    _answer(_read(texts, file), as_json, None, ask)


@app.command()
def transfer(
    to: Annotated[str, typer.Option(help="The style to revise into.")],
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    source: Annotated[str | None, typer.Option("--from", help="The source style; guessed by default.")] = None,
    preset: Annotated[
        str, typer.Option(help="default (the smallest edit that convinces) or paper (Algorithm 1).")
    ] = "default",
    threshold: Annotated[
        float | None, typer.Option(help="What log f must reach for words to be replaced; the preset's by default.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Most edits of a sentence; the preset's by default.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A phrase that is never edited; may be repeated.")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show every edit, not only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Revise a text into another style, edit by edit.

    xl-editor transfer "the food was bland and over priced ." --to positive --trace
    """
    editor = _load(model, of_styles=True)

    def ask(text: str) -> list[Any]:
        found = editor.transfer(text, to, source, preset, max_steps, threshold, keep or ())
        return [found if trace or as_json else _Plain(found.text)]

    _answer(_read(texts, file), as_json, None, ask, alone=True)


@app.command()
def correct(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts, or files; '-' or nothing: standard input.")] = None,
    model: Model = None,
    threshold: Annotated[
        float | None, typer.Option(help="What the log-odds of a correction must reach: lower is bolder.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A phrase that is never changed; may be repeated.")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show what is changed, not only the result.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing: show what would be, and exit with 1 if anything would.")
    ] = False,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write the files anew; the old ones are kept as FILE~.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Correct texts, or whole files, and touch nothing that is right.

    xl-editor correct "He go to school." --diff

    xl-editor correct --check docs/*.md
    """
    files = [Path(text) for text in texts or () if text != "-" and Path(text).is_file()]
    if files and len(files) < len(texts or ()):
        _refuse("Give texts or files, not both.")
    if in_place and (not files or check):
        _refuse("--in-place is for files, and not with --check.")
    contents = {path: _whole_text(path) for path in files}
    correct_text = partial(_load(model).correct, threshold=threshold, keep=keep or ())
    n_changed = 0

    def ask(text: str) -> list[Any]:
        nonlocal n_changed
        found = correct_text(text)
        n_changed += bool(found.edits)
        if check and not found.edits and not as_json:
            return []
        return [found if diff or check or as_json else _Plain(found.text)]

    if in_place:
        for path, text in contents.items():
            found = correct_text(text)
            if found.edits:
                _write_in_place(path, found.text)
            print(f"{path}: {len(found.edits)} corrections", file=sys.stderr)
        return
    # An answer is printed as a line, and a file ends with one already.
    asked = [text.removesuffix("\n") for text in contents.values()], len(files) > 1
    _answer(asked if files else _read(texts, None), as_json, None, ask, alone=True)
    if check and n_changed:
        raise typer.Exit(EXIT_SOME_FAILED)


def _whole_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        _refuse(f"{path} is no UTF-8 text file.")


def _write_in_place(path: Path, text: str) -> None:
    """The new text in place of the old one, which is kept beside it."""
    from xl_editor.files import write_whole

    target = path.resolve()  # a link stays one
    write_whole(target.with_name(f"{target.name}~"), target.read_bytes())
    mode = target.stat().st_mode
    write_whole(target, text.encode("utf-8"))
    target.chmod(mode)


@app.command()
def postedit(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file, a directory, or - for standard input.")],
    output: Annotated[str, typer.Argument(metavar="OUT", help="The same for the output.")],
    to: Annotated[str | None, typer.Option(help="The style to revise into; for other operations, to go by.")] = None,
    model: Model = None,
    operation: Annotated[str, typer.Option(help="transfer, correct, infill, locate or delete.")] = "transfer",
    field: Annotated[
        str | None, typer.Option(help="The field, or column, with the text: 'text' by default.", show_default=False)
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Write every edit with all its scores.")] = False,
    source_style: Annotated[str | None, typer.Option("--from", help="The source style; guessed by default.")] = None,
    preset: Annotated[str, typer.Option(help="Of a transfer: default or paper.")] = "default",
    threshold: Annotated[
        float | None,
        typer.Option(help="What log f must reach for words to be replaced, or the score of a deletion be above."),
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Most edits of a sentence; the preset's by default.")] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A phrase that is never edited; may be repeated.")] = None,
    unit: Annotated[str, typer.Option(help="Of a deletion: token, word, span or sentence.")] = "sentence",
    engine: Annotated[str, typer.Option(help="local (this machine) or ray (a cluster).")] = "local",
    processes: Annotated[
        int | None, typer.Option(help="That work at a time; as many as there are cores by default.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Of each process.")] = 1,
    chunk_size: Annotated[
        int | None,
        typer.Option(help="Lines that are answered, and kept, together; as many as the editor takes at once."),
    ] = None,
) -> None:
    """Post-edit whole files. Killed at any moment, the same command goes on; the output is the same.

    Files are plain lines, JSON lines (.jsonl) or Parquet (.parquet), lines also with .gz or .zst. The output has the
    input's format, or JSON lines with scores. Lines that fail carry an error, are counted, and make the exit code 1.
    Standard input and output cannot be resumed.

    xl-editor postedit reviews.jsonl edited.jsonl --field review --to positive
    """
    _prepare_torch()
    with _extra("This", "cluster" if engine == "ray" else "formats"):
        from xl_editor.postedit import Task
        from xl_editor.postedit import postedit as run

        task = Task(
            operation=operation,
            model=model or _default_model(of_styles=operation == "transfer" or to is not None),
            to=to,
            source=source_style,
            preset=preset,
            threshold=threshold,
            max_steps=max_steps,
            keep=tuple(keep or ()),
            unit=unit,  # type: ignore[arg-type]  # checked with the rest of the task
            trace=trace,
        )
        try:
            summary = run(
                source,
                output,
                task,
                field=field,
                engine=engine,
                processes=processes,
                chunk_size=chunk_size,
                threads=threads,
            )
        except KeyboardInterrupt:
            if "-" not in (source, output):
                print("xl-editor: Interrupted. What is done is kept, and the same command goes on.", file=sys.stderr)
            raise
    print(summary.render(task.score_name), file=sys.stderr)
    if summary.failed:
        raise typer.Exit(EXIT_SOME_FAILED)


@app.command()
def tune(
    model: Annotated[Path, typer.Argument(help="The directory of a model with styles; its config.json is changed.")],
    dev: Annotated[list[str], typer.Option(help="STYLE=FILE: sentences that were not trained on; once a style.")],
    sentences: Annotated[int, typer.Option(help="Of each file, the first so many are edited.", min=1)] = 100,
) -> None:
    """Choose the settings of `transfer` for a model on development sentences, and keep them with the model.

    xl-editor tune my-model --dev negative=dev.neg --dev positive=dev.pos
    """
    _prepare_torch()
    with _extra("Evaluation", "evaluate"):
        from xl_editor.evaluation.style_data import read_lines
        from xl_editor.evaluation.tune import tune as run
    if not model.is_dir():
        _refuse(f"{model} is not a directory with a model in it.")
    editor = _load(str(model.resolve()))  # never a bundled model of the same name: this directory is changed
    files = dict(given.partition("=")[::2] for given in dev)
    if len(files) < len(dev):
        _refuse("--dev must be given once a style.")
    if len(editor.styles) < 2 or set(files) != set(editor.styles):
        _refuse(f"--dev must name a file for each style of the model: {', '.join(editor.styles) or 'it has none'}.")
    lines = {style: [line for line in read_lines(Path(files[style])) if line] for style in editor.styles}
    for style, of_style in lines.items():
        if not of_style:
            _refuse(f"{files[style]} has no sentences.")
    for told in run(model, editor, lines, sentences):
        print(told, flush=True)


@evaluate_app.command("style")
def evaluate_style(
    outputs: Annotated[list[Path], typer.Argument(help="SYSTEM, for the files SYSTEM.neg2pos and SYSTEM.pos2neg.")],
    data: Data,
    work: Work = WORK,
    edited_from: Annotated[str | None, typer.Option(help="The system of the data that these were edited from.")] = None,
    seeds: Seeds = 3,
    as_json: Json = False,
) -> None:
    """Score outputs for the test split: Acc, BLEU, G and fluency, with intervals.

    xl-editor evaluate style my-outputs/ours --data yelp
    """
    _prepare_torch()
    with _extra("Evaluation", "evaluate"):
        from xl_editor.evaluation.style import check_lines, evaluate_systems, open_judges
        from xl_editor.evaluation.style_data import StyleData, SystemOutputs, read_lines
        from xl_editor.evaluation.style_table import json_table, markdown_table
    opened = StyleData.open(data)
    base = opened.system(edited_from) if edited_from else None
    systems = [
        SystemOutputs(path.name, read_lines(Path(f"{path}.neg2pos")), read_lines(Path(f"{path}.pos2neg")), base)
        for path in outputs
    ]
    for system in systems:  # before the judges are trained
        check_lines(system, opened)
    judges = open_judges(opened, work, range(seeds))
    rows = evaluate_systems(systems, opened, judges)
    print(json.dumps(json_table(rows, opened, judges)) if as_json else markdown_table(rows, opened, judges))


@evaluate_app.command("news")
def evaluate_news(
    data: Annotated[
        Path | None,
        typer.Option(help="The articles, as for `reproduce news`, of which the task sets are made."),
    ] = None,
    work: Annotated[
        Path, typer.Option(help="Where task sets and answers are kept, as JSONL, to be used again.")
    ] = WORK,
    model: Model = None,
    tasks: NewsTaskCount = 5000,
    seed: Annotated[int, typer.Option(help="Of the task sets.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure a model, XL-Editor or a baseline, on the paper's three tasks: Locate, Infill, Delete.

    What has been answered is kept, so that the same command goes on where it was interrupted. Once the task sets are
    made, or where others have put them, --data is not needed.

    xl-editor evaluate news --model my-model --data news
    """
    _prepare_torch()
    with _extra("Evaluation", "train,evaluate"):  # a baseline is a model of transformers
        from xl_editor.evaluation.news import ANSWERS
        from xl_editor.evaluation.news import evaluate_news as run
        from xl_editor.evaluation.news_rules import open_rules
        from xl_editor.evaluation.news_tasks import open_tasks

        rules = open_rules(model or _default_model(of_styles=False))
    scores = run(rules, open_tasks(data, work, tasks, seed), work / ANSWERS)
    print(json.dumps(scores.to_dict()) if as_json else scores.render())


@evaluate_app.command("blimp")
def evaluate_blimp(
    data: Annotated[Path, typer.Option(help="The minimal pairs, as JSONL, also with .xz or .gz.")],
    work: Annotated[Path, typer.Option(help="Where answers are kept, to be used again.")] = WORK,
    model: Model = None,
    most: Annotated[int | None, typer.Option(help="Of each paradigm, only the first so many pairs.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Measure a model's grammar on BLiMP: how often is the right sentence of a pair the likelier one?

    What has been answered is kept, so that the same command goes on where it was interrupted.

    xl-editor evaluate blimp --data blimp.jsonl.xz --most 100
    """
    _prepare_torch()
    with _extra("Evaluation", "evaluate"):
        from xl_editor.evaluation.blimp import ANSWERS, read_pairs
        from xl_editor.evaluation.blimp import evaluate_blimp as run
    pairs = read_pairs(data, most)  # before the model is loaded
    scores = run(_load(model), pairs, work / ANSWERS)
    print(json.dumps(scores.to_dict()) if as_json else scores.render())


@evaluate_app.command("correct")
def evaluate_correct(
    corrector: Annotated[
        list[str] | None, typer.Option(help="nothing, harper or symspell; may be repeated. All three by default.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model that has learnt to correct, to measure.")] = None,
    threshold: Annotated[
        list[float] | None, typer.Option(help="Of --model, instead of its own; may be repeated.")
    ] = None,
    references: Annotated[
        Path | None, typer.Option(help="A directory such as JFLEG's, with SPLIT.src and SPLIT.ref0, SPLIT.ref1 …")
    ] = None,
    split: Annotated[str, typer.Option(help="Of --references: dev, to choose by, or test, to report.")] = "dev",
    m2: Annotated[Path | None, typer.Option(help="Annotated edits, as an M2 file.")] = None,
    clean: Annotated[
        list[Path] | None,
        typer.Option(help="Clean text, as JSONL with `sents`, also with .xz or .gz; may be repeated, one a domain."),
    ] = None,
    sentences: Annotated[int, typer.Option(help="So many are drawn from each --clean.", min=1)] = 1000,
    as_json: Json = False,
) -> None:
    """Measure correction: GLEU, edits, false alarms, missing words, and time.

    xl-editor evaluate correct --references jfleg --clean news.jsonl.xz --corrector harper
    """
    with _extra("This", "evaluate,compare"):
        from xl_editor.evaluation.correct import References, clean_sentences, evaluate_corrector, markdown_table
        from xl_editor.evaluation.correctors import CORRECTORS, OurEditor, open_corrector
        from xl_editor.evaluation.m2 import read_m2

        if not (references or m2 or clean):
            _refuse("Give something to measure by: --references, --m2 or --clean.")
        domains = {path.name.partition(".")[0]: path for path in clean or ()}
        if len(domains) < len(clean or ()):
            _refuse("--clean must give files of different names, which name their domains.")
        correctors = [open_corrector(name) for name in corrector or (() if model else CORRECTORS)]
        if model:
            editor = _load(model)
            thresholds: list[float | None] = [*threshold] if threshold else [None]
            correctors += [OurEditor(editor, one) for one in thresholds]
        opened = References.open(references, split) if references else None
        annotated = read_m2(m2) if m2 else ()
        drawn = {domain: clean_sentences(path, sentences) for domain, path in domains.items()}
        rows = [evaluate_corrector(one, opened, annotated, drawn) for one in correctors]
    print(json.dumps([row.to_dict() for row in rows]) if as_json else markdown_table(rows))


@evaluate_app.command("errors")
def evaluate_errors(
    clean: Annotated[list[Path], typer.Option(help="Clean text, as JSONL with `sents`, also packed; may be repeated.")],
    model: Model = None,
    sentences: Annotated[int, typer.Option(help="So many are drawn from each --clean.", min=1)] = 1000,
    per_kind: Annotated[int, typer.Option(help="Sentences for each kind of error, at most.", min=1)] = 200,
    as_json: Json = False,
) -> None:
    """Measure what a model finds, and puts right, of errors made in clean text, kind by kind.

    xl-editor evaluate errors --clean books.jsonl.gz --model my-english
    """
    _prepare_torch()
    with _extra("This", "train,evaluate"):
        from rich.console import Console

        from xl_editor.evaluation.correct import clean_sentences
        from xl_editor.evaluation.made_errors import evaluate_made_errors, markdown_table

        drawn = [sentence for path in clean for sentence in clean_sentences(path, sentences)]
        with Console(stderr=True).status("clean text") as status:
            rows = evaluate_made_errors(_load(model), drawn, per_kind, progress=status.update)
    print(json.dumps([row.to_dict() for row in rows]) if as_json else markdown_table(rows))


@reproduce_app.command("style")
def reproduce_style(
    data: Data,
    output: Annotated[Path, typer.Option(help="Where the table, the plot and the traces go.")] = RESULTS,
    work: Work = WORK,
    model: Model = None,
    seeds: Seeds = 3,
) -> None:
    """Rebuild the paper's table of style transfer: Acc, BLEU, G and fluency of every system, and post-edited.

    What has been trained and edited is kept, so that the same command goes on where it was interrupted.

    xl-editor reproduce style --data yelp
    """
    _prepare_torch()
    with _extra("Evaluation", "evaluate"):
        from xl_editor.evaluation.reproduce_style import reproduce_style as run
        from xl_editor.evaluation.style import open_judges
        from xl_editor.evaluation.style_data import StyleData
    from xl_editor.models import bundled_models

    opened = StyleData.open(data)
    if model is None and opened.name not in bundled_models():
        _refuse(f"--data {data} is not called as a bundled model is that was trained on it; name one with --model.")
    editor = _load(model or opened.name)
    if missing := {"negative", "positive"} - set(editor.styles):
        _refuse(f"--model must know the styles negative and positive; this one lacks {' and '.join(sorted(missing))}.")
    run(opened, editor, open_judges(opened, work, range(seeds)), work, output)
    print((output / f"style-{opened.name}.md").read_text(encoding="utf-8"))


@reproduce_app.command("news")
def reproduce_news(
    data: NewsData,
    output: Annotated[Path, typer.Option(help="Where the tables, the curves and the sampled infills go.")] = RESULTS,
    work: Annotated[Path, typer.Option(help="Where task sets, runs and scores are kept, to be used again.")] = WORK,
    steps: Annotated[
        int, typer.Option(help="Of training for each row of the table; 2,500 take about an hour of two cores.", min=1)
    ] = 2500,
    init: Annotated[
        str | None, typer.Option(help="A pretrained XLNet, a directory or a hub id, to fine-tune for two more rows.")
    ] = None,
    tasks: NewsTaskCount = 5000,
) -> None:
    """Rebuild the paper's table of Locate, Infill and Delete: train every model for as long, and evaluate it.

    What has been trained and evaluated is kept, so that the same command goes on where it was interrupted.

    xl-editor reproduce news --data news
    """
    _prepare_torch(to_train=True)
    with _extra("This", "train,evaluate"):
        from xl_editor.evaluation.reproduce_news import reproduce as run
    if not run(data, work, output, steps, init, tasks):
        raise typer.Exit(EXIT_INTERRUPTED)
    print((output / "news.md").read_text(encoding="utf-8"))


@app.command()
def models(as_json: Json = False) -> None:
    """List the bundled models."""
    from xl_editor.model import load_config
    from xl_editor.models import bundled_models

    answers = {_default_model(of_styles=False): "what names no style"}
    answers[_default_model(of_styles=True)] = "transfer, classify, and --style"
    for name, directory in bundled_models().items():
        config = load_config(directory)
        styles = list(config.editor.get("context", {}).get("styles", {}))
        entry = {"name": name, "vocabulary": config.vocab_size, "layers": config.n_layer, "styles": styles}
        default = answers.get(name, "nothing")
        plain = f"{name}  {config.n_layer} layers  styles: {', '.join(styles) or '–'}  answers by default: {default}"
        print(json.dumps(entry) if as_json else plain)


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="A YAML file like those in recipes/; docs/training.md has all keys.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The directory for the model and its checkpoints; my-RECIPE by default."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key of the recipe: key.sub=value.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Train for about this long: short for --set optim.minutes=N.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
) -> None:
    """Train a model from text files. Ctrl-C saves a checkpoint; --resume goes on as if nothing had happened.

    xl-editor train recipes/yelp.yaml --set data.dir=DIR --output my-model
    """
    _prepare_torch(to_train=True)
    with _extra("Training", "train"):
        from xl_editor.training.recipe import load_recipe
        from xl_editor.training.run import train as run
    overrides = [*(settings or []), *([f"optim.minutes={minutes}"] if minutes is not None else [])]
    output = output or Path(f"my-{recipe.stem}")  # not the name of a bundled model, which would be found first
    if not run(load_recipe(recipe, overrides), output, resume=resume):
        if os.environ.get("RANK", "0") == "0":  # of many processes one tells
            print("The same command with --resume goes on.", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED)


@app.command()
def split(
    files: Annotated[list[Path], typer.Argument(help="JSONL files, a document a line with `sents` or `text`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory for train/, valid/ and test/.")],
    held_out: Annotated[
        float, typer.Option(min=0.0001, max=0.4, help="The share of documents for testing; as many for development.")
    ] = 0.01,
) -> None:
    """Split documents into training, development and test parts that share no text.

    A hash of its text decides where a document goes, so the split is the same wherever it is made. Held-out documents
    that nearly stand in another part are left out.

    xl-editor split english/*.jsonl.xz --output data/english
    """
    from rich.console import Console

    from xl_editor.training.split import split as divide

    console = Console(stderr=True)
    with console.status("reading") as status:
        counts = divide(files, output, held_out, status.update)
    parts = ", ".join(f"{part} {count:,}" for part, count in counts.documents.items())
    print(f"{parts} documents in {output}")
    print(f"{counts.left_out:,} held-out documents were left out: more than a tenth of each stands in another part")


@app.command()
def serve(
    model: Annotated[
        list[str] | None, typer.Option(help="A model to serve; may be repeated. All bundled ones by default.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen at.", min=1, max=65535)] = 8000,
    queue: Annotated[int, typer.Option(help="How many texts may wait; more are told to come again.", min=1)] = 128,
    api_key_file: Annotated[Path | None, typer.Option(help="A file with a key that requests must carry.")] = None,
    origin: Annotated[list[str] | None, typer.Option(help="A web site whose pages may ask; may be repeated.")] = None,
) -> None:
    """Serve an HTTP API, and a page to write on. The key may also come from the environment: XL_EDITOR_API_KEY.

    xl-editor serve --port 8000
    """
    _prepare_torch()
    with _extra("Serving", "serve"):
        from xl_editor.server.run import LOOPBACK, run
    from xl_editor.models import bundled_models

    key = os.environ.get("XL_EDITOR_API_KEY", "").strip()
    if api_key_file:
        key = api_key_file.read_text(encoding="utf-8-sig", errors="replace").strip()
        if not key:
            _refuse("--api-key-file must hold a key, and is empty.")
    if not (key.isascii() and key.isprintable()):
        _refuse("The key must be one line of ASCII characters, which a header can carry.")
    if host not in LOOPBACK and not key:
        _refuse(f"--host {host} opens the server to others: give it a key with --api-key-file.")
    for site in origin or ():
        if not re.fullmatch(r"https?://[^/\s]+", site):
            _refuse(f"--origin must be a scheme and a host, such as https://example.org, got {site!r}.")
    sources = [source for source in model or bundled_models() if _named(source)]
    names = [os.path.basename(os.path.abspath(source)) for source in sources]  # of "." it is the directory's
    if not names:
        _refuse("No model is bundled; name one with --model.")
    if len(set(names)) < len(names):
        _refuse(f"--model must give models of different names, got {', '.join(names)}.")
    editors = {name: _load(source) for name, source in zip(names, sources, strict=True)}
    run(editors, host, port, max_waiting=queue, api_key=key or None, origins=origin or ())


class _Plain:
    def __init__(self, text: str) -> None:
        self.text = text

    def render(self, *, marked: bool = False) -> str:
        return self.text


class _Styles:
    def __init__(self, probabilities: dict[str, float]) -> None:
        self.probabilities = probabilities

    def to_dict(self) -> dict[str, Any]:
        return {"styles": self.probabilities}

    def render(self, *, marked: bool = False) -> str:
        return "  ".join(f"{style} {p:.4f}" for style, p in self.probabilities.items())


@contextmanager
def _extra(what: str, extra: str) -> Iterator[None]:
    """For imports of packages that are only there with an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        _refuse(
            f"{what} needs {error.name}; install it with: pip install 'xl-editor[{extra}]' (in its tree: '.[{extra}]')"
        )


def _load(model: str | None, *, of_styles: bool = False) -> Editor:
    _prepare_torch()
    from xl_editor.editor import Editor

    return Editor.from_pretrained(model or _default_model(of_styles=of_styles))


def _prepare_torch(*, to_train: bool = False) -> None:
    """Must come before torch is loaded."""
    if not to_train:  # Threads that spin are faster on a machine of one's own, and collapse beside a busy process.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Of every shape of a product oneDNN keeps the code that it made for it. Texts have hundreds of shapes: with its own
    # bound of 1,024, memory grows for hours, and with these, which hold the shapes of a pass, it is no slower.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64" if to_train else "16")


def _default_model(*, of_styles: bool) -> str:
    from xl_editor.models import DEFAULTS, bundled_models

    bundled = bundled_models()
    wanted = DEFAULTS[of_styles]
    if not bundled:
        _refuse("No model is bundled; name one with --model.")
    return wanted if wanted in bundled else next(iter(bundled))


def _answer(
    texts: tuple[list[str] | Iterator[str], bool],
    as_json: bool,
    plural: str | None,
    ask: Callable[[str], list[Any]],
    *,
    alone: bool = False,
    read: Callable[[str], str] = str,
) -> None:
    """Answer for each text that was `_read`.

    Several go on after one that cannot be answered; an option that cannot ends all. They are printed above their
    answers, unless an answer can stand `alone`. Offsets are into the text as it is `read`.
    """
    from rich.console import Console

    from xl_editor.errors import TextError

    if sys.stdout is None:
        _refuse("Standard output is closed.")
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]  # bytes come out as they went in
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    asked, many = texts
    failed = False
    for number, text in enumerate(_with_progress(asked), start=1):
        if as_json:  # JSON is UTF-8: what is none cannot come out as it went in
            text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        try:
            answers = ask(text)
        except TextError as error:
            if not many:
                raise
            failed = True
            _print_failure(number, text, error, as_json, alone)
            continue
        _print(console, read(text) if as_json else text, answers, as_json, plural, many and not alone)
    if failed:
        raise typer.Exit(EXIT_SOME_FAILED)


def _print(console: Console, text: str, answers: list[Any], as_json: bool, plural: str | None, many: bool) -> None:
    if as_json:
        found = [answer.to_dict() for answer in answers]
        body = {plural: found} if plural else found[0]
        print(json.dumps({**({} if "text" in body else {"text": text}), **body}, ensure_ascii=False), flush=True)
        return
    from rich.text import Text

    heading = [Text(text, style="bold")] if many else []
    for rendered in [*heading, *(answer.render(marked=not console.is_terminal) for answer in answers)]:
        if console.is_terminal:
            console.print(rendered)
        else:  # as it is: rich would spread tabs
            print(rendered, flush=True)


def _print_failure(number: int, text: str, error: TextError, as_json: bool, alone: bool) -> None:
    if as_json:
        print(json.dumps({"text": text, "error": str(error)}, ensure_ascii=False), flush=True)
        return
    if alone:  # whoever reads the answers line by line finds the text as it was
        print(text, flush=True)
    print(f"xl-editor: text {number}: {error}", file=sys.stderr)


def _read(texts: list[str] | None, file: Path | None, *, whole: bool = False) -> tuple[list[str] | Iterator[str], bool]:
    """The texts given, or the lines of a file or of standard input; and whether there may be several."""
    if texts and file:
        _refuse("Give texts or --file, not both.")
    if file:
        with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as lines:
            if whole:
                return [lines.read()], False
            return [line.rstrip("\r\n") for line in lines], True
    if texts and texts != ["-"]:
        if whole:
            _refuse("--whole is for --file or standard input.")
        if "-" in texts:
            _refuse("Give texts, or '-' for standard input, not both.")
        return texts, len(texts) > 1
    if sys.stdin is None or (not texts and sys.stdin.isatty()):
        _refuse("Give a text, or pipe some in; see --help.")
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape", newline="\n")  # type: ignore[union-attr]
    if whole:
        return [sys.stdin.read()], False
    return (line.rstrip("\r\n") for line in sys.stdin), True


def _is_watched(texts: list[str] | None, whole: bool) -> bool:
    """Whether a person waits for the answer about a single text: that about a long one is worth a progress bar."""
    return (whole or (texts is not None and len(texts) == 1)) and sys.stderr.isatty()


def _with_progress(texts: list[str] | Iterator[str]) -> Iterable[str]:
    if isinstance(texts, list) and len(texts) >= SHOW_PROGRESS_FROM and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        return track(texts, console=Console(stderr=True), description="", transient=True)
    return texts


def _marked(text: str) -> tuple[str, tuple[int, int]]:
    """The text without its brackets, and what stood in them; brackets of the text itself are written \\[ and \\]."""
    from xl_editor.errors import TextError

    parts = re.split(r"(?<!\\)\[(.*?)(?<!\\)\]", text, flags=re.DOTALL)
    if len(parts) == 1:
        raise TextError("text must mark a part in [brackets].", "text")
    if len(parts) > 3 or any(re.search(r"(?<!\\)[\[\]]", part) for part in parts):
        raise TextError(r"text must mark one part in [brackets], and has several; write \[ and \] for other brackets.")
    left, inside, right = (re.sub(r"\\([\[\]])", r"\1", part) for part in parts)
    return left + inside + right, (len(left), len(left) + len(inside))


def _refuse(message: str) -> NoReturn:
    print(f"xl-editor: {message}", file=sys.stderr)
    raise SystemExit(EXIT_BAD_INPUT)


def main() -> None:
    """Run the command line; whatever goes wrong with the input is one sentence."""
    if sys.stderr is None:  # closed by whoever began us: `print` would then take standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # for as long as we run
    try:
        app(prog_name="xl-editor")
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
    except Exception as error:
        from xl_editor.errors import RequestError

        if not isinstance(error, RequestError | OSError):  # a bug
            raise
        message, argument = " ".join(str(error).split()), getattr(error, "argument", None)
        if argument in OPTION_OF:
            message = f"{OPTION_OF[argument]}{message.removeprefix(argument)}"
        _refuse(message)


if __name__ == "__main__":
    main()
