"""`xl-editor train`: a recipe → a model directory that `Editor.from_pretrained` loads.

OUTPUT/    config.json  model.safetensors  tokenizer.json    the best model so far, usable at any moment
README.md  learning-curve.png  recipe.yaml        what it is and how it was made
summary.json                                      how much it has seen; there when the run is over
log.jsonl  run.json  checkpoints/                 what resuming needs
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import send_to_device
from rich.console import Console
from tokenizers import Tokenizer
from transformers import MarianConfig, MarianMTModel, TrainingArguments, set_seed

from xl_editor.context import ContextFormat
from xl_editor.cores import n_usable_cores
from xl_editor.errors import RequestError
from xl_editor.files import write_whole
from xl_editor.model import CONFIG_FILE, WEIGHTS_FILE, XLEditorConfig, XLEditorModel, load_config
from xl_editor.models import find_model
from xl_editor.text import TOKENIZER_FILE, Codec, TextFormat
from xl_editor.training.card import CARD_FILE, CURVE_FILE, SUMMARY_FILE, write_card, write_summary
from xl_editor.training.corpus import Corpus, empty_corpus, find_styles, load_corpus, load_tokenizer
from xl_editor.training.corrections import CorrectionMaker, CorrectionSettings, Reader, VariationSettings
from xl_editor.training.growth import grown, with_vocabulary
from xl_editor.training.muon import Muon, parameter_groups
from xl_editor.training.objectives import InsertionObjective, Seq2SeqObjective
from xl_editor.training.pairs import NO_PAIRS, Pairs, load_pairs
from xl_editor.training.recipe import LONGEST_POSITION, Files, GrowthRecipe, Recipe, RecipeError
from xl_editor.training.stream import EVALUATION, MicroBatches, Rewriting, StreamSettings
from xl_editor.training.trainer import (
    CHECKPOINTS,
    LOG_FILE,
    InsertionTrainer,
    LogToFile,
    SaveByTheClock,
    ShowProgress,
    find_checkpoints,
    product_dtype,
    rounded_products,
)
from xl_editor.training.vocabulary import SpecialIds, is_special, pretrained_tokenizer, special_ids

RUN_FILE = "run.json"
RECIPE_FILE = "recipe.yaml"
MODEL_FILES = (CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, CARD_FILE, CURVE_FILE)
WRITTEN = (RUN_FILE, CHECKPOINTS, RECIPE_FILE, LOG_FILE, *MODEL_FILES, SUMMARY_FILE)
DEVELOPMENT_SEQUENCES = 4000  # looked at during training; enough for two digits of loss
LOG_EVERY_STEPS = 50
TIMED_STEPS = 12  # of the calibration for `minutes`
# Prints how many times as fast a product of bfloat16 numbers is as one of float32 numbers.
BFLOAT16_PRODUCTS = """
import time, torch
def seconds(factors):
    times = []
    for _ in range(20):
        started = time.perf_counter()
        factors @ factors[:256]
        times.append(time.perf_counter() - started)
    return sorted(times)[10]
factors = torch.ones(2048, 256)
print(seconds(factors) / seconds(factors.bfloat16()))
"""
WORTH_ROUNDING = 1.3  # times as fast must the products be: casts take some of it back


class RunError(RequestError):
    """A run that cannot start or go on, in one sentence."""


@dataclass(frozen=True)
class RunFacts:
    """What a run must not change when it is resumed."""

    recipe: dict[str, Any]
    n_steps: int
    text: str = ""  # a fingerprint of the training and development text, and of the vocabulary
    precision: str = "float32"  # of the factors of products, once `auto` is settled


def train(recipe: Recipe, output: Path, *, resume: bool = False, console: Console | None = None) -> bool:
    """Train, from the start or from the last checkpoint. False if it was interrupted before its end."""
    processes = PartialState(cpu=not torch.cuda.is_available())
    console = console or Console(stderr=True, soft_wrap=True, quiet=not processes.is_main_process)
    if processes.is_main_process:
        check_output(output, resume=resume)
        check_shares(recipe, processes.num_processes)
    is_first = processes.is_main_process and not resume
    precision = settle_precision(recipe.optim.precision) if is_first else ""  # the others find it in the facts

    prepare_process(recipe.optim.threads)
    # Of many processes one makes the caches and settles the facts; the others wait, and find them.
    with processes.main_process_first():
        set_seed(recipe.optim.seed)
        output.mkdir(parents=True, exist_ok=True)
        tokenizer, corpus, development = load_data(recipe, console)
        objective = make_objective(recipe, tokenizer, corpus.style_names)
        settings = stream_settings(recipe)
        rewriting, rewriting_development = make_rewritings(recipe, tokenizer, objective, console)
        stream = MicroBatches(corpus, objective, settings, rewriting)
        evaluated = MicroBatches(development, objective, settings, rewriting_development)
        for name, plan in (("training", stream.plan(0)), ("development", evaluated.plan(EVALUATION))):
            if not len(plan.batches):
                raise RunError(f"The {name} text holds no sequence of two tokens or more.")
        text = f"{corpus.fingerprint} {development.fingerprint}"
        if rewriting and len(rewriting.pairs):
            text += f" {rewriting.pairs.fingerprint}"
        facts = load_facts(recipe, text, precision, output, objective, stream, console)
    stream.n_steps = facts.n_steps
    n_development = len(evaluated.plan(EVALUATION).corrected)
    if n_cut := stream.plan(0).sequences.n_cut:
        console.print(f"{n_cut:,} sequences are longer than {recipe.data.max_tokens} tokens, and cut.", highlight=False)
    console.print(
        f"{facts.n_steps:,} steps of {recipe.optim.tokens_per_step:,} rows; an epoch is "
        f"{stream.plan(0).batches.n_steps:,} steps, {stream.plan(0).batches.padding_share:.1%} padding; "
        f"development loss of {min(n_development, DEVELOPMENT_SEQUENCES):,} of {n_development:,} sequences",
        highlight=False,
    )
    if processes.is_main_process:
        write_whole(output / TOKENIZER_FILE, tokenizer.to_str(pretty=True))
        write_whole(output / RECIPE_FILE, recipe.to_yaml())

    trainer = InsertionTrainer(
        model=objective,
        args=training_arguments(recipe, output, facts.n_steps),
        stream=stream,
        development=evaluated,
        most_development_sequences=DEVELOPMENT_SEQUENCES,
        output=output,
        with_muon=recipe.optim.optimizer == "muon",
        precision=facts.precision,
    )
    clock = SaveByTheClock(recipe.optim.save_every_minutes)
    trainer.add_callback(clock)
    trainer.add_callback(LogToFile(trainer))
    if trainer.is_world_process_zero():
        trainer.add_callback(ShowProgress(trainer, console))
    checkpoints = find_checkpoints(output)
    trainer.train(resume_from_checkpoint=str(checkpoints[-1]) if checkpoints else None)
    if clock.interrupted:
        console.print(f"Stopped at step {trainer.state.global_step:,}.")
        return False
    if trainer.is_world_process_zero():
        write_card(recipe, output, corpus.counts, trainer.state.global_step)
        write_summary(output, corpus.counts, trainer.state.global_step, stream.plan(0).batches.n_steps)
    return True


def check_output(output: Path, *, resume: bool) -> None:
    """Refuse to resume nothing, and to write over something."""
    held = [name for name in WRITTEN if (output / name).exists()]
    if resume and RUN_FILE not in held:
        raise RunError(f"{output} holds no run to resume; leave out --resume to start one.")
    if resume or not held:
        return
    if {RUN_FILE, CHECKPOINTS, CONFIG_FILE}.isdisjoint(held):
        raise RunError(f"{output} already holds {held[0]}, which a run would overwrite; choose another output.")
    raise RunError(f"{output} already holds a run or a model; continue it with --resume, or choose another output.")


def check_shares(recipe: Recipe, n_processes: int) -> None:
    if recipe.batches_per_step % n_processes:
        raise RecipeError(
            f"optim.tokens_per_step / optim.tokens_per_batch = {recipe.batches_per_step} batches a step cannot be "
            f"shared by {n_processes} processes; choose a multiple."
        )


def settle_precision(wanted: str) -> str:
    """Float32 or bfloat16, for `auto` the faster one.

    A child tries: some virtual machines have AMX, hide how to set it up, and die of their first product.
    """
    if wanted == "float32":
        return wanted
    if torch.cuda.is_available():
        is_real = torch.cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if wanted == "bfloat16" or is_real else "float32"
    # From where nobody keeps modules of their own, which the child would take for torch's.
    elsewhere = Path(sys.executable).parent
    tried = subprocess.run([sys.executable, "-c", BFLOAT16_PRODUCTS], capture_output=True, text=True, cwd=elsewhere)
    if wanted == "auto":
        return "bfloat16" if tried.returncode == 0 and float(tried.stdout) >= WORTH_ROUNDING else "float32"
    if tried.returncode:
        raise RunError("This machine fails at products of bfloat16 numbers; train with optim.precision=float32.")
    return wanted


def prepare_process(threads: int | None) -> None:
    n_processes_here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    torch.set_num_threads(threads or max(1, n_usable_cores() // n_processes_here))
    # glibc gives large blocks back at once and then faults in every page anew (see docs/benchmarks.md).
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(ctypes.c_int(-3), ctypes.c_int(1 << 30))  # M_MMAP_THRESHOLD
        libc.mallopt(ctypes.c_int(-1), ctypes.c_int((1 << 31) - 1))  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        pass  # another C library


def load_data(recipe: Recipe, console: Console) -> tuple[Tokenizer, Corpus, Corpus]:
    """The tokenizer and the tokenised corpora, made now or taken from the cache."""
    files, skip, correcting = recipe.train_files, recipe.skip_bad_lines, recipe.correction is not None
    styles = find_styles(files, skip_bad_lines=skip)
    if styles and recipe.objective != "xl-editor":
        raise RunError(f"data.train has styles ({', '.join(styles)}), and objective {recipe.objective} knows none.")
    if recipe.classifier and len(styles) < 2:  # of JSONL files this is not known before they are read
        raise RunError(f"A classifier needs at least two styles, and data.train has {len(styles)}; leave it out.")
    with console.status("reading the training text") as status:

        def progress(done: int, of: int) -> None:
            status.update(f"reading the training text: {done / max(of, 1):.0%}")

        if recipe.vocabulary is None:
            assert recipe.model.init is not None  # a recipe has one of the two
            tokenizer = pretrained_tokenizer(find_model(recipe.model.init), styles, correcting=correcting)
        else:
            v = recipe.vocabulary
            tokenizer = load_tokenizer(
                (*files, *recipe.pair_files),
                v.kind,
                size=v.size,
                min_count=v.min_count,
                styles=styles,
                correcting=correcting,
                skip_bad_lines=skip,
                progress=progress,
            )
        # The classifier's labels are the model's styles, and a model to start from may know more than this corpus.
        style_names = tuple(special_ids(tokenizer).styles) if styles else ()
        if not files:
            return tokenizer, empty_corpus(tokenizer), empty_corpus(tokenizer)
        corpus = load_corpus(files, tokenizer, style_names=style_names, skip_bad_lines=skip, progress=progress)
        if recipe.dev_files is None:
            corpus, development = corpus.hold_out()
        else:
            development = load_corpus(recipe.dev_files, tokenizer, style_names=style_names, skip_bad_lines=skip)
    if recipe.data.shares:
        shares = np.array([recipe.data.shares.get(file.name, 1.0) for file in files])
        corpus = dataclasses.replace(corpus, shares=shares)
    counts = corpus.counts
    console.print(
        f"{counts.n_sentences:,} sentences, {counts.n_tokens:,} tokens ({counts.n_unknown / counts.n_tokens:.2%} "
        f"unknown), vocabulary {tokenizer.get_vocab_size():,}"
        + (f", styles {', '.join(styles)}" if styles else "")
        + (f"; skipped {counts.n_empty_lines:,} empty lines" if counts.n_empty_lines else "")
        + (f"; skipped {counts.n_bad_lines:,} lines that are not UTF-8" if counts.n_bad_lines else ""),
        highlight=False,
    )
    return tokenizer, corpus, development


def make_objective(
    recipe: Recipe, tokenizer: Tokenizer, style_names: tuple[str, ...]
) -> InsertionObjective | Seq2SeqObjective:
    """A new model, or the one that the recipe starts from, and what it is trained for."""
    ids = special_ids(tokenizer)
    before = {} if recipe.model.init is None else load_config(find_model(recipe.model.init)).editor  # if it is ours
    context = ContextFormat(
        sep=ids.sep,
        cls=ids.cls,
        unk=ids.unk,
        mask=ids.mask,
        styles=ids.styles,
        style_optional=recipe.sampling.style_dropout > 0 or not style_names,
        # A model that began as an XLNet, or is one, keeps the format of its pretraining.
        xlnet=ContextFormat.from_config(before).xlnet if "context" in before else recipe.model.init is not None,
        correct=ids.correct,
    )
    said_of_text = {key: value for key, value in recipe.text.to_dict().items() if value != getattr(TextFormat, key)}
    editor = {
        "context": context.to_dict(),
        "text": TextFormat.from_dict({**before.get("text", {}), **said_of_text}).to_dict(),
        "objective": recipe.objective,
    }
    presets = before.get("presets", {})
    if recipe.transfer.forced_insertion is not None:
        forced = {"forced_insertion": recipe.transfer.forced_insertion}
        presets = {**presets, "paper": {**presets.get("paper", {}), **forced}}
    if presets:
        editor["presets"] = presets
    if recipe.objective == "seq2seq":
        return Seq2SeqObjective(new_transformer(recipe, tokenizer, ids, editor), context, ids.end)
    model = new_model(recipe, tokenizer, ids, editor)
    weight, hidden_rate = (recipe.classifier.weight, recipe.classifier.hidden_rate) if recipe.classifier else (0.0, 0.0)
    return InsertionObjective(
        model,
        context,
        plain=recipe.objective == "l2r",
        classifier_weight=weight,
        hidden_rate=hidden_rate,
        change_weight=recipe.correction.change_weight if recipe.correction else 1.0,
    )


def make_rewritings(
    recipe: Recipe, tokenizer: Tokenizer, objective: InsertionObjective | Seq2SeqObjective, console: Console
) -> tuple[Rewriting | None, Rewriting | None]:
    """What makes other texts, and corrections, of the training and the development text; None if nothing does."""
    variation = VariationSettings(**dataclasses.asdict(recipe.variation))
    if recipe.correction is None and not variation.any_rate:
        return None, None
    text = TextFormat.from_dict(objective.model.config.editor["text"])
    own = Tokenizer.from_str(tokenizer.to_str())  # a copy: the codec changes its settings
    reader = Reader(Codec(own, text, np.flatnonzero(is_special(tokenizer)).tolist()))
    if recipe.correction is None:
        return Rewriting(reader, variation), Rewriting(reader, variation)
    settings = dataclasses.asdict(recipe.correction)
    settings.pop("change_weight")
    maker = CorrectionMaker(reader, CorrectionSettings(**settings))
    training, development = (
        Rewriting(reader, variation, maker, pairs) for pairs in _load_pairs(recipe, reader, console)
    )
    return training, development


def _load_pairs(recipe: Recipe, reader: Reader, console: Console) -> tuple[Pairs, Pairs]:
    """The pairs for training and for development."""
    if not recipe.pair_files:
        return NO_PAIRS, NO_PAIRS
    with console.status("reading pairs") as status:

        def load(files: Files) -> Pairs:
            return load_pairs(files, reader, recipe.data.max_tokens, lambda n: status.update(f"reading pairs: {n:,}"))

        pairs = load(recipe.pair_files)
        divided = (pairs, load(recipe.dev_pair_files)) if recipe.dev_pair_files else pairs.hold_out()
    console.print(
        f"{len(pairs):,} pairs; skipped {pairs.n_skipped:,} whose sides are different texts, or longer than "
        f"{recipe.data.max_tokens} tokens",
        highlight=False,
    )
    return divided


def new_model(recipe: Recipe, tokenizer: Tokenizer, ids: SpecialIds, editor: dict[str, Any]) -> XLEditorModel:
    n_labels = len(ids.styles) if recipe.classifier else 0
    if recipe.model.init is None:
        config = XLEditorConfig(
            vocab_size=tokenizer.get_vocab_size(),
            d_model=recipe.model.d_model,
            n_layer=recipe.model.n_layer,
            n_head=recipe.model.n_head,
            d_inner=recipe.model.d_inner,
            dropout=0.1 if recipe.model.dropout is None else recipe.model.dropout,
            pad_token_id=ids.pad,
            end_token_id=ids.end,
            n_labels=n_labels,
            editor=editor,
        )
        return XLEditorModel(config)
    directory = find_model(recipe.model.init)
    found = load_config(directory)
    dropout = found.dropout if recipe.model.dropout is None else recipe.model.dropout
    config = dataclasses.replace(
        found, dropout=dropout, pad_token_id=ids.pad, end_token_id=ids.end, n_labels=n_labels, editor=editor
    )
    model = XLEditorModel(config)
    # A new classifier starts random; one for the same labels is kept.
    lacking_head = n_labels != found.n_labels
    model.load_weights(directory / WEIGHTS_FILE, without_head=lacking_head)
    if recipe.vocabulary is not None:
        model = with_vocabulary(model, pretrained_tokenizer(directory), tokenizer)
    elif (missing := tokenizer.get_vocab_size() - config.vocab_size) > 0:
        model.add_tokens(missing)
    return grown_as_said(model, recipe.model.grow) if recipe.model.grow else model


def grown_as_said(model: XLEditorModel, said: GrowthRecipe) -> XLEditorModel:
    sizes = {}
    for name in ("n_layer", "d_inner"):
        now = getattr(model.config, name)
        sizes[name] = wanted = getattr(said, name) or now
        if wanted < now:
            raise RunError(f"model.grow.{name} is {wanted}, less than the {now} of model.init: models only grow.")
    return grown(model, **sizes)


def new_transformer(recipe: Recipe, tokenizer: Tokenizer, ids: SpecialIds, editor: dict[str, Any]) -> MarianMTModel:
    """Vaswani et al.'s architecture (sinusoidal, post-norm) at the recipe's size, as Marian has it."""
    m = recipe.model
    dropout = 0.1 if m.dropout is None else m.dropout
    config = MarianConfig(
        vocab_size=tokenizer.get_vocab_size(),
        d_model=m.d_model,
        encoder_layers=m.n_layer,
        decoder_layers=m.n_layer,
        encoder_attention_heads=m.n_head,
        decoder_attention_heads=m.n_head,
        encoder_ffn_dim=m.d_inner,
        decoder_ffn_dim=m.d_inner,
        activation_function="gelu",
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        max_position_embeddings=LONGEST_POSITION,
        scale_embedding=True,
        tie_word_embeddings=True,
        pad_token_id=ids.pad,
        bos_token_id=ids.sep,
        eos_token_id=ids.end,
        forced_eos_token_id=None,
        decoder_start_token_id=ids.sep,
    )
    config.editor = editor  # which config.json keeps, too
    return MarianMTModel(config)


def stream_settings(recipe: Recipe) -> StreamSettings:
    return StreamSettings(
        window=recipe.data.window,
        least_window=recipe.data.least_window,
        whole_windows=recipe.data.whole_windows,
        max_tokens=recipe.data.max_tokens,
        empty_rate=recipe.sampling.empty_rate,
        max_slots=recipe.sampling.max_slots,
        unit=recipe.sampling.unit,
        sentence_rate=recipe.sampling.sentence_rate,
        whole_rate=recipe.sampling.whole_rate,
        style_dropout=recipe.sampling.style_dropout,
        classifier_share=recipe.classifier.share if recipe.classifier else 0.0,
        tokens_per_batch=recipe.optim.tokens_per_batch,
        batches_per_step=recipe.batches_per_step,
        seed=recipe.optim.seed,
    )


def load_facts(
    recipe: Recipe,
    text: str,
    precision: str,
    output: Path,
    objective: InsertionObjective | Seq2SeqObjective,
    stream: MicroBatches,
    console: Console,
) -> RunFacts:
    """How many steps the run has: settled when it begins, and the same ever after."""
    path = output / RUN_FILE
    if path.is_file():
        try:
            facts = RunFacts(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise RunError(f"{path} does not tell about a run: {error}.") from None
        if facts.recipe != json.loads(json.dumps(recipe.to_dict())):
            raise RunError(f"{output} holds a run of another recipe; resume it with the recipe in {path}.")
        if facts.text not in ("", text):  # runs of older versions do not tell
            raise RunError(f"The text has changed since the run in {output} began; resume it with the same files.")
        if PartialState().is_main_process:
            settle_precision(facts.precision)  # on a machine that fails at it, here and not in the first step
        return facts
    if recipe.optim.steps is not None:
        n_steps = recipe.optim.steps
    elif recipe.optim.epochs is not None:
        n_steps = max(1, round(recipe.optim.epochs * stream.plan(0).batches.n_steps))
    else:
        assert recipe.optim.minutes is not None  # a recipe has one of the three
        with console.status("measuring the speed"):
            seconds = seconds_a_step(objective, stream, with_muon=recipe.optim.optimizer == "muon", precision=precision)
        n_steps = max(1, int(60 * recipe.optim.minutes / seconds))
    facts = RunFacts(json.loads(json.dumps(recipe.to_dict())), n_steps, text, precision)
    write_whole(path, json.dumps(dataclasses.asdict(facts), indent=2) + "\n")
    return facts


def seconds_a_step(
    objective: InsertionObjective | Seq2SeqObjective, stream: MicroBatches, *, with_muon: bool, precision: str
) -> float:
    """The mean time of a few steps on the first batches, without learning from them."""
    processes = PartialState()
    per_step = max(1, stream.settings.batches_per_step // processes.num_processes)
    objective.to(processes.device)
    groups = parameter_groups(objective) if with_muon else [{"params": list(objective.parameters())}]
    standing_still = Muon(groups, lr=0.0, betas=(0.9, 0.98), products=product_dtype(precision))
    durations = []
    with torch.random.fork_rng():
        for step in range(TIMED_STEPS):
            started = time.perf_counter()
            for item in range(step * per_step, (step + 1) * per_step):
                with rounded_products(precision, processes.device):
                    loss = objective(**send_to_device(stream[item], processes.device))["loss"]
                loss.backward()
            standing_still.step()
            objective.zero_grad()
            if processes.device.type == "cuda":
                torch.cuda.synchronize()
            durations.append(time.perf_counter() - started)
    settled = durations[2:]
    return 1.05 * sum(settled) / len(settled)  # the evaluations take their share


def training_arguments(recipe: Recipe, output: Path, n_steps: int) -> TrainingArguments:
    o = recipe.optim
    schedules = {"cosine": "cosine", "linear": "linear", "constant": "constant_with_warmup"}
    return TrainingArguments(
        output_dir=str(output),
        max_steps=n_steps,
        per_device_train_batch_size=1,  # an item of the stream is a batch
        gradient_accumulation_steps=recipe.batches_per_step // PartialState().num_processes,
        train_sampling_strategy="sequential",  # the stream is shuffled already
        learning_rate=o.learning_rate,
        warmup_steps=o.warmup if o.warmup >= 1 else int(o.warmup * n_steps),
        lr_scheduler_type=schedules[o.schedule],
        weight_decay=o.weight_decay,
        adam_beta1=o.betas[0],
        adam_beta2=o.betas[1],
        max_grad_norm=o.clip,
        optim="adamw_torch_fused",
        logging_steps=LOG_EVERY_STEPS,
        logging_nan_inf_filter=False,  # a loss that is no number is told, not replaced
        eval_strategy="steps",
        eval_steps=o.eval_every,
        save_strategy="no",  # by the clock instead
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        seed=o.seed,
        data_seed=o.seed,
        remove_unused_columns=False,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        ddp_find_unused_parameters=True,  # segments and, in some steps, the classifier are not used
    )
