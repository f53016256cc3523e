"""What editing costs, and against what people would use instead; six questions, one table.

    scoring    all candidates of Algorithm 1, against `transformers` (a pass a candidate; a batch a sentence and style),
               and against the time that the matrix products alone would take at the speed measured in the same round;
               also with backend="int8"
    int8       what else that backend gains, and how often its top choice is another
    decoding   20 tokens into a context of 200: cached, recomputed, and XLNetLMHeadModel generating as many
    transfer   sentences a second at one and two threads, and the naive way on a sample
    latency    of one sentence, cold and warm; start-up and memory of the command line and the server
    growth     with the length of a text, candidates, batch and context; drawn into --plot

Rounds are interleaved: every way takes its turn in each. Medians are given, with the fastest and the slowest round.

    python benchmarks/engine.py [scoring decoding …] [--sentences FILE] [--n 200] [--rounds 7] [--threads 1]
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from arithmetic import count_multiply_adds, least_to_score
from naive import Naive
from xl_editor import Editor
from xl_editor.cores import n_usable_cores
from xl_editor.engine import Context, Decoding, Engine, Ids, Insertion
from xl_editor.geometry import insertion_places, relate, stack
from xl_editor.models import find_model
from xl_editor.operations.questions import Estimator, carry_out
from xl_editor.operations.transfer import PaperRules, algorithm_1, candidates

EXAMPLES = (
    "the food was good and very over priced for what you get .",
    "the waitress was rude and slow .",
    "we waited an hour for a cold pizza .",
    "i will never come back to this place .",
    "the rooms were dirty and the staff did not care at all .",
    "this is the worst sandwich i have ever had in my life .",
)
SOURCE, TARGET = "negative", "positive"
Ways = dict[str, Callable[[], Any]]


# --- measuring ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def quantile(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]

    def __str__(self) -> str:
        return f"{_ms(self.median)} ({_ms(min(self.seconds))}–{_ms(max(self.seconds))})"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.{0 if seconds >= 0.1 else 1 if seconds >= 0.01 else 2}f} ms"


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def interleaved(ways: Ways, rounds: int) -> dict[str, Timing]:
    for work in ways.values():  # the first time is not counted
        work()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            seconds[name].append(timed(work))
    return {name: Timing(taken) for name, taken in seconds.items()}


def ratio(slow: Timing, fast: Timing, scale: float = 1.0) -> str:
    """How many times as fast, round by round."""
    each = sorted(scale * a / b for a, b in zip(slow.seconds, fast.seconds, strict=True))
    return f"{statistics.median(each):.1f}× ({each[0]:.1f}–{each[-1]:.1f})"


def row(question: str, way: str, figure: object, remark: str = "") -> None:
    print(f"| {question} | {way} | {figure} | {remark} |", flush=True)


class Products:
    """The model's own matrix products, by themselves: what the machine gives to shapes alike."""

    def __init__(self, editor: Editor, n_rows: int = 1024, n_vocabulary_rows: int = 128) -> None:
        c = editor.model.config
        sizes = [(n_rows, c.d_model, c.d_model)] * 4
        sizes += [(n_rows, c.d_model, c.d_inner), (n_rows, c.d_inner, c.d_model)]
        sizes += [(n_vocabulary_rows, c.d_model, c.vocab_size)]
        self.factors = 10 * [(torch.randn(m, k), torch.randn(k, n)) for m, k, n in sizes]
        self.multiply_adds = 10 * sum(m * k * n for m, k, n in sizes)

    def __call__(self) -> None:
        for a, b in self.factors:
            a @ b


def step_products(editor: Editor, n_steps: int) -> Callable[[], None]:
    """The matrix products of so many decoding steps, by themselves: every one reads all weights, for two rows."""
    matrices: list[torch.Tensor] = []
    for layer in editor.model.transformer.layers():
        attention, ff = layer.rel_attn, layer.ff
        matrices += [weight.detach().flatten(1) for weight in (attention.q, attention.k, attention.v, attention.o)]
        matrices += [ff.layer_1.weight.detach().t(), ff.layer_2.weight.detach().t()]
    matrices.append(editor.model.lm_loss.weight.detach().t())
    pairs = [(torch.randn(2, len(matrix)), matrix) for matrix in matrices]

    def multiply() -> None:
        for _ in range(n_steps):
            for rows, matrix in pairs:
                rows @ matrix

    return multiply


# --- the six questions ----------------------------------------------------------------------------------------------


def scoring(editor: Editor, other: Editor, texts: list[Ids], directory: Path, rounds: int) -> None:
    engine = editor.engine
    of_text = [questions(text) for text in texts]
    asked = [question for of_one in of_text for question in of_one]
    sample = of_text[0]
    one_by_one, batched = Naive(directory, engine), Naive(directory, engine, at_once=512)
    difference = one_by_one.check(sample)
    assert difference < 1e-4, f"answers differ by {difference}"
    products = Products(editor)
    taken = interleaved(
        {
            "ours": lambda: engine.score(asked),
            "int8": lambda: other.engine.score(asked),
            "batch": lambda: [batched.score(of_one) for of_one in of_text],
            "one": lambda: one_by_one.score(sample),  # a sentence: the rest would take as long for each
            "products": products,
        },
        rounds,
    )
    counted = count_multiply_adds(lambda: engine.score(asked))
    least = least_to_score(editor.model.config, engine.format, asked)
    speed = [products.multiply_adds / seconds for seconds in taken["products"].seconds]
    bound = Timing([counted / each for each in speed])
    what = f"scoring {len(asked):,} candidates of {len(texts)} sentences"
    row(what, "ours", taken["ours"], f"answers checked: {difference:.0e}")
    row(what, "ours, backend int8", taken["int8"], ratio(taken["ours"], taken["int8"]))
    times = f"{ratio(taken['batch'], taken['ours'])}; int8 {ratio(taken['batch'], taken['int8'])}"
    row(what, "`transformers`, a batch a sentence and style", taken["batch"], times)
    many = len(asked) / len(sample)
    row(
        what,
        "`transformers`, a pass a candidate",
        f"{_ms(taken['one'].median * many)}, from {len(sample)} candidates",
        f"{ratio(taken['one'], taken['ours'], many)}; int8 {ratio(taken['one'], taken['int8'], many)}",
    )
    share = statistics.median(b / o for b, o in zip(bound.seconds, taken["ours"].seconds, strict=True))
    rate = f"{2e-9 * statistics.median(speed):.0f} GFLOP/s"
    row(what, f"its matrix products alone, at {rate}", bound, f"ours runs at {share:.0%} of that")
    row(
        what,
        "multiply-adds",
        f"{counted / 1e9:.2f} G",
        f"{counted / least - 1:.1%} above the least ({least / 1e9:.2f} G)",
    )


def integers(editor: Editor, other: Editor, texts: list[Ids], rounds: int) -> None:
    of_text = [questions(text) for text in texts]
    asked = [question for of_one in of_text for question in of_one]
    gaps = [Context.around(text, len(text) // 2, len(text) // 2 + 1, TARGET) for text in texts]
    work: dict[str, Callable[[Engine], Any]] = {
        f"decoding {len(gaps)} fillings": lambda engine: engine.decode(gaps),
        f"classifying {len(texts)} sentences": lambda engine: engine.classify(texts),
    }
    for name, call in work.items():
        taken = interleaved({"torch": partial(call, editor.engine), "int8": partial(call, other.engine)}, rounds)
        row(name, "backend int8, against torch", taken["int8"], ratio(taken["torch"], taken["int8"]))

    def choices(engine: Engine) -> list[tuple[int, Ids]]:
        """Of each text, the candidate with the highest f, and the best filling of its gap."""
        logprobs = [[scored.logprob for scored in engine.score(of_one)] for of_one in of_text]
        log_f = [[a - b for a, b in zip(of_one[::2], of_one[1::2], strict=True)] for of_one in logprobs]
        fillings = engine.decode(gaps)
        return [(odds.index(max(odds)), best.ids) for odds, (best,) in zip(log_f, fillings, strict=True)]

    pairs = list(zip(choices(editor.engine), choices(other.engine), strict=True))
    spans, fillings = (sum(a[i] == b[i] for a, b in pairs) for i in (0, 1))
    exact, rounded = ([scored.logprob for scored in e.engine.score(asked)] for e in (editor, other))
    off = statistics.median(abs(a - b) for a, b in zip(exact, rounded, strict=True))
    figure = f"{spans} spans and {fillings} fillings of {len(texts)}"
    row("top choices", "the same in int8 as in torch", figure, f"log q is off by {off:.3f} (median)")


def questions(text: Ids, max_span: int = 2) -> list[Insertion]:
    return [
        Insertion(Context.around(text, start, end, style), text[start:end])
        for start, end in candidates(len(text), max_span)
        for style in (SOURCE, TARGET)
    ]


def decoding(editor: Editor, texts: list[Ids], directory: Path, rounds: int, n_new: int = 20) -> None:
    tokens = long_text(texts, 200)
    context = Context((tokens[:100], tokens[100:]), TARGET)
    exactly = Decoding(min_length=n_new, max_length=n_new)
    cached = editor.engine.decode([context], exactly)[0][0].ids
    assert recomputed(editor.engine, context, n_new) == cached, "answers differ"
    several = [Context((tokens[:at], tokens[at:]), TARGET) for at in range(20, 180, 20)]
    together = [best.ids for (best,) in editor.engine.decode(several, exactly)]
    assert together == [recomputed(editor.engine, each, n_new) for each in several], "answers differ"
    theirs = Naive(directory, editor.engine).model
    prompt = torch.tensor([tokens])
    length = {"max_new_tokens": n_new, "min_new_tokens": n_new}
    taken = interleaved(
        {
            "cached": lambda: editor.engine.decode([context], exactly),
            "recomputed": lambda: recomputed(editor.engine, context, n_new),
            "theirs": lambda: theirs.generate(prompt, do_sample=False, use_mems=False, **length),
            "several": lambda: editor.engine.decode(several, exactly),
            "several recomputed": lambda: [recomputed(editor.engine, each, n_new) for each in several],
            "encoding": lambda: editor.engine.decode([context], Decoding(max_length=1)),
            "products": step_products(editor, n_new),
        },
        rounds,
    )
    what = f"decoding {n_new} tokens, context of {len(tokens)}"
    row(what, "ours, cached", taken["cached"], "answers checked: the same tokens")
    row(what, "ours, recomputed for every token", taken["recomputed"], ratio(taken["recomputed"], taken["cached"]))
    row(what, "`XLNetLMHeadModel.generate`, at the end", taken["theirs"], ratio(taken["theirs"], taken["cached"]))
    both = taken["several recomputed"], taken["several"]
    row(what, f"{len(several)} such blanks at once, cached", taken["several"], f"{ratio(*both)} recomputed")
    row(what, "the context and one token", taken["encoding"])
    row(what, f"the matrix products of {n_new} steps alone", taken["products"], "each reads all weights")


@torch.inference_mode()
def recomputed(engine: Engine, context: Context, n_new: int) -> Ids:
    """Greedy decoding that runs the whole text through for every token, END not allowed before n_new tokens."""
    left, right = context.parts
    y: Ids = ()
    for k in range(n_new + 1):
        ids = [*left, *y, *right, *engine.format.right_end(context.style)]
        content, queries = insertion_places(len(ids), [(len(left), len(left) + k)])
        relation = relate(stack([content]), stack([queries[-1:]]))
        states, _ = engine.model.advance(torch.tensor([ids]), relation, n_read=1)
        scores = engine.model.logits(states)[0, 0].log_softmax(-1)
        scores[[*engine.not_text, engine.end]] = -torch.inf
        if k < n_new:
            y = (*y, int(scores.argmax()))
    return y


def transferring(editor: Editor, sentences: list[str], directory: Path, rounds: int) -> None:
    before = torch.get_num_threads()
    for threads in sorted({1, n_usable_cores()}):
        torch.set_num_threads(threads)
        for preset in ("default", "paper"):
            call = partial(editor.transfer_all, sentences, to=TARGET, preset=preset)
            editor.transfer_all(sentences[:10], to=TARGET, preset=preset)
            taken = Timing([timed(call) for _ in range(max(1, rounds // 3))])
            speed = f"{len(sentences) / taken.median:.1f} sentences/s"
            row(f"transfer of {len(sentences)} sentences", f"preset {preset}, {threads} thread(s)", speed, str(taken))
    torch.set_num_threads(before)
    texts = [editor.codec.encode(sentence).ids for sentence in sentences[:2]]
    rules = PaperRules(**editor.model.config.editor.get("presets", {}).get("paper", {}))

    def transfer(estimator: Estimator) -> None:
        carry_out(estimator, [algorithm_1(ids, SOURCE, TARGET, rules, editor.special_tokens) for ids in texts])

    naive = Naive(directory, editor.engine)
    sides: dict[str, Callable[[], Any]] = {"ours": partial(transfer, editor.engine), "naive": partial(transfer, naive)}
    taken_by = interleaved(sides, max(1, rounds // 3))
    speed = f"{len(texts) / taken_by['naive'].median:.2f} sentences/s"
    remark = f"ours {ratio(taken_by['naive'], taken_by['ours'])} on these {len(texts)}"
    row(f"transfer of {len(texts)} sentences", "preset paper, `transformers`, a pass a candidate", speed, remark)


def latency(editor: Editor, sentences: list[str], model: str, rounds: int) -> None:
    calls: dict[str, Callable[[str], Any]] = {
        "locate": editor.locate,
        "infill": lambda sentence: editor.infill(_with_blank(sentence)),
        "transfer": lambda sentence: editor.transfer(sentence, to=TARGET),
    }
    for name, call in calls.items():
        call(sentences[0])
        warm = Timing([timed(partial(call, sentence)) for _ in range(rounds) for sentence in sentences])
        row(f"{name}, one sentence, warm", "p50, p95", f"{_ms(warm.quantile(0.5))}, {_ms(warm.quantile(0.95))}")
    for name, argument in (
        ("locate", sentences[0]),
        ("infill", _with_blank(sentences[0])),
        ("transfer", sentences[0]),
    ):
        command = [sys.executable, "-m", "xl_editor.cli", name, argument, "--model", model]
        command += ["--to", TARGET] if name == "transfer" else []
        runs = [_run(command) for _ in range(rounds)]
        cold = Timing([seconds for seconds, _ in runs])
        memory = statistics.median(megabytes for _, megabytes in runs)
        figure = f"{_ms(cold.quantile(0.5))}, {_ms(cold.quantile(0.95))}"
        row(f"{name}, one sentence, cold", "p50, p95 of a whole `xl-editor` call", figure, f"{memory:.0f} MB resident")
    starts = [_start_server(model) for _ in range(max(1, rounds // 3))]
    ready = Timing([seconds for seconds, _ in starts])
    row("the server", "start until ready", ready, f"{statistics.median(mb for _, mb in starts):.0f} MB resident")


def _with_blank(sentence: str) -> str:
    words = sentence.split()
    middle = len(words) // 2
    return " ".join([*words[:middle], "[_]", *words[middle + 1 :]])


# Linux counts what a process held before it became another program, too: so a small one starts it, not this large one.
RUN = """
import os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(time.perf_counter() - started, usage.ru_maxrss / 1024)
sys.exit(status != 0)
"""


def _run(command: list[str]) -> tuple[float, float]:
    """Seconds, and the most megabytes that it held."""
    done = subprocess.run([sys.executable, "-c", RUN, *command], stdout=subprocess.PIPE, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def _start_server(model: str) -> tuple[float, float]:
    """Seconds until it is ready, and the megabytes that it then holds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "xl_editor.cli", "serve", "--model", model, "--port", str(port)]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _is_ready(port):
            assert process.poll() is None, "the server did not start"
            time.sleep(0.02)
        seconds = time.perf_counter() - started
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        return seconds, next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))
    finally:
        process.terminate()
        process.wait()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def growth(editor: Editor, texts: list[Ids], rounds: int, plot: Path | None) -> None:
    engine = editor.engine
    tokens = long_text(texts, 512)
    exactly = Decoding(min_length=8, max_length=8)

    def middle(n: int) -> Context:
        return Context((tokens[: n // 2], tokens[n // 2 : n]), TARGET)

    def locate(n: int) -> list[Insertion]:
        return [Insertion(Context.around(tokens[:n], n * i // 8, n * i // 8, TARGET), ()) for i in range(8)]

    candidate = questions(tokens[:24], max_span=10)
    sizes = {
        "tokens of the text (8 gaps of it scored)": [8, 16, 32, 64, 128, 256, 511],
        "candidates (a text of 24 tokens)": [1, 4, 16, 64, 256],
        "texts in a batch (all candidates)": [1, 2, 4, 8, 16],
        "tokens of the context (8 decoded)": [8, 32, 128, 511],
    }
    work: dict[str, Callable[[int], Callable[[], Any]]] = dict(
        zip(
            sizes,
            (
                lambda n: lambda: engine.score(locate(n)),
                lambda n: lambda: engine.score(candidate[:n]),
                lambda n: lambda: engine.score([q for i in range(n) for q in questions(tokens[i : i + 11])]),
                lambda n: lambda: engine.decode([middle(n)], exactly),
            ),
            strict=True,
        )
    )
    points: dict[str, list[tuple[int, float, int]]] = {}
    for name, of_size in work.items():
        ways = {str(n): of_size(n) for n in sizes[name]}
        taken = interleaved(ways, rounds)
        points[name] = [(n, taken[str(n)].median, count_multiply_adds(ways[str(n)])) for n in sizes[name]]
        (n_few, few, few_work), (n_many, many, many_work) = points[name][0], points[name][-1]
        figure = f"{_ms(few)} → {_ms(many)}, {many / few:.1f}×"
        row(f"{name}, {n_few} → {n_many}", "time", figure, f"multiply-adds {many_work / few_work:.1f}×")
    if plot is not None:
        draw(points, plot)


def draw(points: dict[str, list[tuple[int, float, int]]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(points), figsize=(4 * len(points), 3.4), layout="constrained")
    for ax, (name, measured) in zip(axes, points.items(), strict=True):
        n, seconds, multiply_adds = zip(*measured, strict=True)
        per_multiply_add = seconds[-1] / multiply_adds[-1]
        ax.loglog(n, [1e3 * s for s in seconds], "o-", label="measured")
        ax.loglog(n, [1e3 * per_multiply_add * m for m in multiply_adds], "--", label="in proportion to the arithmetic")
        ax.set(xlabel=name, ylabel="ms")
        ax.grid(alpha=0.3)
    axes[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def long_text(texts: list[Ids], n_tokens: int) -> Ids:
    """Sentences, one after the other, again and again if there are few."""
    tokens = tuple(token for text in texts for token in text)
    return (tokens * (n_tokens // len(tokens) + 1))[:n_tokens]


# --- all of it ------------------------------------------------------------------------------------------------------


def machine() -> str:
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    name = names[0] if names else platform.processor()
    instructions = torch.backends.cpu.get_cpu_capability()
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}"
    return f"{datetime.date.today()}, {os.cpu_count()} × {name} ({instructions}), {versions}"


def _lines(path: str) -> Sequence[str]:
    return Path(path).read_text(encoding="utf-8").splitlines() if Path(path).is_file() else ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("scoring", "int8", "decoding", "transfer", "latency", "growth")
    parser.add_argument("only", nargs="*", metavar="WHAT", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--model", default="yelp", help="one with the styles negative and positive")
    parser.add_argument("--sentences", type=Path, help="a file, a sentence a line; a few examples by default")
    parser.add_argument("--n", type=int, default=200, help="sentences of which the candidates are scored")
    parser.add_argument("--n-transfer", type=int, default=1000, help="sentences that are transferred")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="a PNG file for how cost grows")
    arguments = parser.parse_args()
    if unknown := set(arguments.only) - set(names):
        parser.error(f"WHAT must be one of {', '.join(names)}, got {', '.join(sorted(unknown))}.")
    wanted = arguments.only or names
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    lines = arguments.sentences.read_text(encoding="utf-8").splitlines() if arguments.sentences else EXAMPLES
    sentences = [line.strip() for line in lines if line.strip()]
    editor = Editor.from_pretrained(arguments.model)
    directory = find_model(arguments.model)
    texts = [editor.codec.encode(sentence).ids for sentence in sentences[: arguments.n]]

    print(f"{machine()}, {arguments.threads} thread(s) unless said otherwise, {arguments.rounds} rounds\n")
    row("what", "way", "median (fastest–slowest)", "ours is, or remark")
    row("---", "---", "---", "---")
    if "scoring" in wanted or "int8" in wanted:
        other = Editor.from_pretrained(arguments.model, backend="int8")
    if "scoring" in wanted:
        scoring(editor, other, texts, directory, arguments.rounds)
    if "int8" in wanted:
        integers(editor, other, texts, arguments.rounds)
    if "decoding" in wanted:
        decoding(editor, texts, directory, arguments.rounds)
    if "transfer" in wanted:
        transferring(editor, sentences[: arguments.n_transfer], directory, arguments.rounds)
    if "latency" in wanted:
        latency(editor, sentences[:20], arguments.model, arguments.rounds)
    if "growth" in wanted:
        growth(editor, texts, arguments.rounds, arguments.plot)


if __name__ == "__main__":
    main()
