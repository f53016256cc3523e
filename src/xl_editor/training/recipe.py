# ruff: noqa: RUF009 -- `_key` is dataclasses.field with a help text
"""Recipes: what to train, on what, and how, as a YAML file that is checked before anything else happens.

    recipe = load_recipe(Path("recipes/yelp.yaml"), ["data.dir=/data/yelp", "optim.seed=1"])

Every key is a field of one of the dataclasses below, with its help text; `describe` prints them all. A
mistake is a `RecipeError`: one sentence that names the file, the line and the key.
"""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from xl_editor.errors import RequestError
from xl_editor.files import expanded
from xl_editor.text import TextFormat
from xl_editor.training.corpus import Source
from xl_editor.training.vocabulary import Kind, may_be_style

SIDES = ("source", "target")  # of pairs
MOST = 10**9  # of whole numbers that have no limit of their own
LONGEST_POSITION = 2048  # of the Transformer's sinusoids: not learnt, so longer texts than the training's can be read
TABLES = (".csv", ".tsv", ".json", ".xlsx", ".parquet")  # whose lines are no sentences
Files = tuple[Source, ...]  # as written in the recipe: paths not yet resolved
Number = int | float


class RecipeError(RequestError):
    """A recipe that cannot be trained, in one sentence."""


def _key(
    help: str,
    default: Any = MISSING,
    *,
    above: Number = -math.inf,
    least: Number = -math.inf,
    most: Number = math.inf,
) -> Any:
    """A key of a recipe: its help text, and the range of its values."""
    metadata = {"help": help, "above": above, "least": least, "most": most}
    if default == {}:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class DataRecipe:
    train: Files | None = _key(
        "The training text: a file, a list of files, or a mapping from style to file(s). Plain text has a "
        "sequence a line; JSONL has an article a line, with `sents` (a list of sentences) or `text`, and "
        "maybe `style`. Packed files (.gz, .xz) are fine; tables are not. A directory: all JSONL files in it. "
        "Text is taken as it is: say under `text` how. May be left out where there are pairs.",
        None,
    )
    dev: Files | None = _key("The development text, likewise; without it every 50th line or article is held out.", None)
    pairs: Files | None = _key(
        "Texts with their corrections: JSONL with `source` and `target`, or two plain files under these names, a text "
        "a line. Pairs that are different texts, by the rule of alignment, are counted and skipped.",
        None,
    )
    dev_pairs: Files | None = _key("The same, for development; without it every 50th pair is held out.", None)
    dir: Path | None = _key("Where these files lie (--set data.dir=DIR); the current directory by default.", None)
    window: int = _key("Consecutive sentences of an article that make a sequence.", 1, least=1)
    least_window: int | None = _key(
        "With it, each article has sequences of another length, from this to `window`: for texts of any length.",
        None,
        least=1,
    )
    whole_windows: bool = _key("Leave out the shorter windows at both ends of an article, as the paper does.", False)
    shares: dict[str, float] = _key(
        "How much of a file a pass over the text takes, by the file's name without its endings: 0.3 takes other three "
        "tenths of its articles each time. All of it by default.",
        {},
        above=0,
        most=1,
    )
    max_tokens: int = _key("Longer sequences are cut off there, after a whole word, and counted.", 256, least=2)
    bad_lines: Literal["refuse", "skip"] = _key("What to do with a file that has lines which are not UTF-8.", "refuse")

    def resolved(self, files: Files) -> Files:
        """The files with their full paths."""
        base = expanded(self.dir or Path())
        found = []
        for file in files:
            path = base / expanded(file.path)
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
            sources = [replace(file, path=each) for each in inside]
            found += [source for source in sources if source.is_jsonl or not path.is_dir()]
        return tuple(found)


@dataclass(frozen=True)
class VocabularyRecipe:
    kind: Kind = _key(
        "word (what stands between spaces), bpe (byte-level, loses nothing) or unigram (SentencePiece's)."
    )
    size: int | None = _key("Entries, special tokens included; for word, all words by default.", None, least=16)
    min_count: int = _key("How often a word must have been seen to be known (word only).", 1, least=1)


@dataclass(frozen=True)
class GrowthRecipe:
    n_layer: int | None = _key("Layers, at least as many as there are.", None, least=1)
    d_inner: int | None = _key("Inner size of the feed-forward network, at least what it is.", None, least=1)


@dataclass(frozen=True)
class ModelRecipe:
    n_layer: int = _key("Layers.", 4, least=1)
    n_head: int = _key("Attention heads.", 4, least=1)
    d_model: int = _key("Size of the hidden states.", 256, least=2)
    d_inner: int = _key("Inner size of the feed-forward network.", 512, least=1)
    dropout: float | None = _key("0.1 by default, or that of `init`.", None, least=0, most=0.9)
    init: str | None = _key(
        "Start from this model: a hub id or a directory of an XLNet, one of our own directories, or a bundled model's "
        "name. Its sizes are used, and its vocabulary unless there is another.",
        None,
    )
    grow: GrowthRecipe | None = _key("Make `init` larger first, so that it answers nearly as before.", None)


@dataclass(frozen=True)
class SamplingRecipe:
    empty_rate: float = _key("How often an empty interval is taken; the paper never does.", 0.0, least=0, most=1)
    max_slots: int = _key("Intervals taken out of a sequence: 1..max_slots; the paper takes one.", 1, least=1, most=16)
    unit: Literal["token", "word"] = _key("Intervals of tokens, as in the paper, or of whole words.", "token")
    sentence_rate: float = _key(
        "How often, instead, whole sentences are taken, or nothing between two: what is asked about sentences.",
        0.0,
        least=0,
        most=1,
    )
    whole_rate: float = _key(
        "How often, instead, all of it is taken, as one insertion into nothing: what whole texts are judged by.",
        0.0,
        least=0,
        most=1,
    )
    style_dropout: float = _key(
        "How often the style is withheld, so that the model can also be used without one.",
        0.0,
        least=0,
        most=1,
    )


@dataclass(frozen=True)
class VariationRecipe:
    lowercase: float = _key("How often a text is all in lower case, as in chats.", 0.0, least=0, most=0.3)
    without_final_mark: float = _key("How often it lacks its last full stop.", 0.0, least=0, most=0.3)
    typographic: float = _key("How often it has curly quotes and apostrophes.", 0.0, least=0, most=0.3)


@dataclass(frozen=True)
class CorrectionRecipe:
    share: float = _key("Of the sequences that are made wrong, for the model to correct.", 0.5, least=0, most=1)
    change_weight: float = _key("Of a target in a slot that changes something; of the others it is 1.", 3.0, above=0)
    unchanged_share: float = _key("Of the slots that change nothing, how many are learnt from.", 0.25, least=0, most=1)
    clean_share: float = _key("Of these sequences, how many are left as they are.", 0.3, least=0, most=1)
    errors_per_word: float = _key("In the others, on average.", 0.08, above=0, most=0.5)
    rates: dict[str, float] = _key(
        "Of kinds of errors, instead of the ones they have; only how they compare counts.", {}, least=0
    )


@dataclass(frozen=True)
class ClassifierRecipe:
    weight: float = _key("Of the classifier's loss, beside the insertion loss.", 1.0, above=0)
    share: float = _key("Of the steps that train the classifier, too.", 0.25, above=0, most=1)
    hidden_rate: float = _key(
        "How often a word is hidden from it in training, so that it does not rely on any one.", 0.0, least=0, most=0.9
    )


@dataclass(frozen=True)
class TransferRecipe:
    forced_insertion: bool | None = _key(
        "Whether the preset `paper` inserts at the start if nothing else can be done: for incomplete sentences. True "
        "by default, or as with `init`.",
        None,
    )


@dataclass(frozen=True)
class OptimRecipe:
    learning_rate: float = _key("At its highest.", above=0, most=1)
    tokens_per_step: int = _key("Rows (content tokens and predictions) of one step, over all processes.", least=1)
    tokens_per_batch: int = _key("Rows computed at once; a divisor of tokens_per_step.", least=1)
    steps: int | None = _key("How long to train: steps, epochs or minutes, one of them.", None, least=1, most=10**9)
    epochs: float | None = _key("How long to train: passes over the training text.", None, above=0, most=10**6)
    minutes: float | None = _key(
        "How long to train: the speed is measured once, then the steps are fixed.", None, above=0, most=10**7
    )
    optimizer: Literal["adamw", "muon"] = _key(
        "muon moves the matrices of the layers along their orthogonalised momentum; it needs fewer steps.", "adamw"
    )
    warmup: float = _key("Steps in which the learning rate rises; below 1, a share of all steps.", 0.05, least=0)
    schedule: Literal["cosine", "linear", "constant"] = _key("How it falls after that.", "cosine")
    weight_decay: float = _key("On matrices only.", 0.01, least=0, most=1)
    betas: tuple[float, float] = _key("AdamW's.", (0.9, 0.98), least=0, most=0.9999)
    clip: float = _key("Longest gradient.", 1.0, above=0)
    eval_every: int = _key("Steps between two looks at the development text.", 1000, least=1)
    save_every_minutes: float = _key("Minutes between two checkpoints.", 10.0, above=0)
    seed: int = _key("Of the weights, of the order of the data and of all intervals.", 0, least=0, most=2**32 - 1)
    threads: int | None = _key("Of each process; as many as there are cores by default.", None, least=1)
    precision: Literal["float32", "bfloat16", "auto"] = _key(
        "Of the factors and results of matrix products; weights and what layers hand on stay float32. bfloat16 is up "
        "to twice as fast where the machine has it, and slower where it has not; auto takes it where it is faster, and "
        "keeps to that.",
        "float32",
    )


@dataclass(frozen=True)
class Recipe:
    objective: Literal["xl-editor", "l2r", "seq2seq"] = _key(
        "xl-editor; or a baseline of the paper: l2r (XLNet left to right, no END), seq2seq (Transformer)."
    )
    data: DataRecipe = _key("The text.")
    optim: OptimRecipe = _key("How it is trained, and for how long.")
    model: ModelRecipe = _key("Its size, or what to start from; the paper's size by default.", ModelRecipe())
    vocabulary: VocabularyRecipe | None = _key(
        "Made from the training text. Left out with model.init, whose vocabulary is used; if given all the same, it "
        "takes that one's place: pieces that both have keep their embeddings, others start from those that spelt them.",
        None,
    )
    sampling: SamplingRecipe = _key("What is taken out of a sequence to be predicted.", SamplingRecipe())
    variation: VariationRecipe = _key("Texts that are written in another way.", VariationRecipe())
    correction: CorrectionRecipe | None = _key("Learn to correct, too; left out, only insertion is learnt.", None)
    classifier: ClassifierRecipe | None = _key("The auxiliary style classifier; left out without styles.", None)
    text: TextFormat = _key(
        "How the training text is written; recorded with the model, which edits so. With model.init, as it was there.",
        TextFormat(),
    )
    transfer: TransferRecipe = _key("How the model transfers; recorded with it.", TransferRecipe())

    @property
    def train_files(self) -> Files:
        return self.data.resolved(self.data.train or ())

    @property
    def pair_files(self) -> Files:
        return self._of_pairs(self.data.pairs)

    @property
    def dev_pair_files(self) -> Files:
        return self._of_pairs(self.data.dev_pairs)

    def _of_pairs(self, files: Files | None) -> Files:
        return tuple(replace(file, holds_pairs=file.style is None) for file in self.data.resolved(files or ()))

    @property
    def dev_files(self) -> Files | None:
        return None if self.data.dev is None else self.data.resolved(self.data.dev)

    @property
    def skip_bad_lines(self) -> bool:
        return self.data.bad_lines == "skip"

    @property
    def batches_per_step(self) -> int:
        return self.optim.tokens_per_step // self.optim.tokens_per_batch

    def to_dict(self) -> dict[str, Any]:
        """The recipe as YAML would have it: what differs from the defaults, but no data.dir."""
        plain: dict[str, Any] = _to_plain(self)
        plain["data"].pop("dir", None)
        return plain

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        path: of the YAML file.
        overrides: `key.sub=value`, as after `--set`; the value is YAML, and `null` takes the key away. Giving
            one of optim.steps, optim.epochs and optim.minutes takes the others away.

    """
    path = Path(path)
    tree = _read_tree(path)
    for override in overrides:
        _override(tree, override)
    recipe = _build(Recipe, tree, ())
    assert isinstance(recipe, Recipe)
    _check_combinations(recipe, tree)
    named = {
        "train": recipe.train_files,
        "dev": recipe.dev_files,
        "pairs": recipe.pair_files,
        "dev_pairs": recipe.dev_pair_files,
    }
    for key, files in named.items():
        for file in files or ():
            name = f"data.{key}.{file.style}" if file.style else f"data.{key}"
            where = tree.at("data", key, *([file.style] if file.style else [])).where
            if file.path.name.lower().removesuffix(".gz").removesuffix(".xz").endswith(TABLES):
                raise RecipeError(f"{where}: {name} names {file.path}; text comes a sequence a line, or as JSONL.")
            if not file.path.is_file():
                hint = "" if recipe.data.dir else "; say where the data lies by --set data.dir=DIR"
                raise RecipeError(f"{where}: {name} names {file.path}, which is not there{hint}.")
    return recipe


def describe() -> str:
    """All keys with their defaults and help texts, for the documentation. Markdown."""
    return "\n".join(_describe(Recipe, ()))


# --- YAML with its places in the file ---


@dataclass
class _Tree:
    """A YAML value that knows where it stands: a scalar's text with its type, a list, or a mapping."""

    where: str
    value: str | list[_Tree] | dict[str, _Tree]
    type: str = ""  # of a scalar: str, int, float, bool, null

    def at(self, *keys: str) -> _Tree:
        """What stands below these keys, as far down as there is anything."""
        tree = self
        for key in keys:
            if not isinstance(tree.value, dict) or key not in tree.value:
                break
            tree = tree.value[key]
        return tree


def _read_tree(path: Path) -> _Tree:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise RecipeError(f"{path} is not a UTF-8 text file.") from None
    tree = _parse(text, str(path), lines=True)
    if not isinstance(tree.value, dict):
        raise RecipeError(f"{path}: a recipe is a mapping of keys to values.")
    return tree


def _parse(text: str, name: str, *, lines: bool) -> _Tree:
    def where(mark: yaml.Mark) -> str:
        return f"{name}, line {mark.line + 1}" if lines else name

    def convert(node: yaml.Node) -> _Tree:
        place = where(node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return _Tree(place, node.value, node.tag.rpartition(":")[2])
        if isinstance(node, yaml.SequenceNode):
            return _Tree(place, [convert(item) for item in node.value])
        mapping: dict[str, _Tree] = {}
        for key, value in node.value:
            place_of_key = where(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                raise RecipeError(f"{place_of_key}: a key must be a word.")
            if key.value in mapping:
                raise RecipeError(f"{place_of_key}: the key {key.value} is given twice.")
            mapping[key.value] = convert(value)
            mapping[key.value].where = place_of_key  # the value may begin on the next line
        return _Tree(place, mapping)

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        place = where(error.problem_mark) if error.problem_mark else name
        raise RecipeError(f"{place}: not valid YAML ({error.problem}).") from None
    except yaml.YAMLError as error:
        raise RecipeError(f"{name}: not valid YAML ({' '.join(str(error).split())}).") from None
    try:
        return convert(node) if node is not None else _Tree(name, "", "null")
    except RecursionError:
        raise RecipeError(f"{name}: what it holds refers to itself, or is nested too deeply.") from None


_ONE_OF = ("steps", "epochs", "minutes")


def _override(tree: _Tree, override: str) -> None:
    """Put `key.sub=value` into the tree."""
    name, equals, text = override.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise RecipeError(f"--set {override}: expected key=value, such as optim.seed=1.")
    where = f"--set {override}"
    for depth, key in enumerate(keys[:-1]):
        assert isinstance(tree.value, dict)  # as every recipe is, and every section
        below = tree.value.get(key)
        if below is None or not isinstance(below.value, dict):
            if below is not None and below.type != "null":
                raise RecipeError(f"{where}: {'.'.join(keys[: depth + 1])} has no keys below it.")
            tree.value[key] = below = _Tree(where, {})
        tree = below
    assert isinstance(tree.value, dict)
    tree.value[keys[-1]] = parsed = _parse(text, where, lines=False)
    if keys[0] == "optim" and keys[-1] in _ONE_OF and parsed.type != "null":
        for other in set(_ONE_OF) - {keys[-1]}:
            tree.value.pop(other, None)


# --- From the tree to typed values ---


def _build(kind: Any, tree: _Tree, keys: tuple[str, ...]) -> Any:
    """The value of a key, of the kind that it has to be."""
    if kind == Files:
        return _build_files(tree, keys)
    if is_dataclass(kind):
        return _build_section(kind, tree, keys)
    if get_origin(kind) in (Union, types.UnionType):  # something or None; null is dealt with above
        return _build(get_args(kind)[0], tree, keys)
    if get_origin(kind) is dict:
        if not isinstance(tree.value, dict):
            raise _wrong(tree, keys, "a mapping of names to numbers")
        return {name: _build(get_args(kind)[1], below, (*keys, name)) for name, below in tree.value.items()}
    if get_origin(kind) is tuple:
        items = tree.value
        if not isinstance(items, list) or len(items) != len(get_args(kind)):
            raise _wrong(tree, keys, f"a list of {len(get_args(kind))} numbers")
        return tuple(_build(get_args(kind)[0], item, keys) for item in items)
    if not isinstance(tree.value, str):
        raise _wrong(tree, keys, "a single value")
    return _build_scalar(kind, tree, tree.value, keys)


def _build_scalar(kind: Any, tree: _Tree, text: str, keys: tuple[str, ...]) -> Any:
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise _wrong(tree, keys, f"one of {', '.join(get_args(kind))}")
        return text
    if kind is bool:
        if tree.type != "bool":
            raise _wrong(tree, keys, "true or false")
        return text.lower() in ("true", "yes", "on")
    if kind is int or kind is float:  # YAML 1.1 takes 1e-3 for a string; we do not
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if isinstance(number, float) and not math.isfinite(number):
            raise _wrong(tree, keys, "a whole number" if kind is int else "a number")
        return number
    return kind(text)  # str, Path


def _build_section(kind: Any, tree: _Tree, keys: tuple[str, ...]) -> Any:
    if not isinstance(tree.value, dict):
        raise _wrong(tree, keys, "a mapping of keys to values")
    known = {f.name: f for f in fields(kind)}
    for name, below in tree.value.items():
        if name not in known:
            raise RecipeError(f"{below.where}: there is no key {_dotted(keys, name)}; {_suggest(keys, name, known)}.")
    hints = get_type_hints(kind)
    values = {}
    for name, declared in known.items():
        given = tree.value.get(name)
        if given is not None and given.type != "null":
            values[name] = _build(hints[name], given, (*keys, name))
            _check_range(declared, values[name], given, (*keys, name))
        elif declared.default is MISSING and declared.default_factory is MISSING:
            raise RecipeError(f"{tree.where}: the key {_dotted(keys, name)} is missing.")
    return kind(**values)


def _build_files(tree: _Tree, keys: tuple[str, ...]) -> Files:
    if isinstance(tree.value, dict):
        found = []
        for style, below in tree.value.items():
            if not may_be_style(style):
                raise RecipeError(f"{below.where}: the style {style!r} of {_dotted(keys)} must be a word.")
            if isinstance(below.value, dict):
                raise _wrong(below, (*keys, style), "a file or a list of files")
            if below.type != "null":
                files = _build_files(below, (*keys, style))
                found += [Source(file.path, style) for file in files]
        if not found:
            raise _wrong(tree, keys, "a mapping from style to file(s)")
        return tuple(found)
    items = tree.value if isinstance(tree.value, list) else [tree]
    if not items or not all(isinstance(item.value, str) and item.value for item in items):
        raise _wrong(tree, keys, "a file or a list of files")
    return tuple(Source(Path(str(item.value))) for item in items)


def _check_range(declared: Field[Any], value: Any, tree: _Tree, keys: tuple[str, ...]) -> None:
    limits = declared.metadata
    for number in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,):
        if not isinstance(number, int | float) or "least" not in limits:
            continue
        if number <= limits["above"]:
            raise _wrong(tree, keys, f"more than {limits['above']}")
        if number < limits["least"]:
            raise _wrong(tree, keys, f"at least {limits['least']}")
        most = MOST if isinstance(number, int) and limits["most"] == math.inf else limits["most"]
        if number > most:
            raise _wrong(tree, keys, f"at most {most}")


def _wrong(tree: _Tree, keys: tuple[str, ...], expected: str) -> RecipeError:
    got = {list: "a list", dict: "a mapping"}.get(type(tree.value), repr(tree.value))
    return RecipeError(f"{tree.where}: {_dotted(keys)} must be {expected}, got {got}.")


def _dotted(keys: Iterable[str], *more: str) -> str:
    return ".".join((*keys, *more)) or "the recipe"


def _suggest(keys: tuple[str, ...], name: str, known: Iterable[str]) -> str:
    """What the misspelt or misplaced key may have been."""
    if near := difflib.get_close_matches(name, list(known), n=1):
        return f"did you mean {_dotted(keys, near[0])}"
    elsewhere = [key for key in _all_keys(Recipe, ()) if key[-1] == name]
    if elsewhere:
        return f"did you mean {_dotted(elsewhere[0])}"
    return f"there are {', '.join(known)}"


def _section_of(hint: Any) -> Any | None:
    """The dataclass behind a field's type, if it is a section of the recipe."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next((kind for kind in kinds if is_dataclass(kind)), None)


def _all_keys(kind: Any, keys: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    for name, hint in get_type_hints(kind).items():
        yield (*keys, name)
        if section := _section_of(hint):
            yield from _all_keys(section, (*keys, name))


# --- Combinations ---


def _check_combinations(recipe: Recipe, tree: _Tree) -> None:
    """Refuse what each key allows by itself, but no training can do."""

    def refuse(condition: object, key: str, because: str) -> None:
        if condition:
            raise RecipeError(f"{tree.at(*key.split('.')).where}: {because}.")

    data, model, optim, sampling = recipe.data, recipe.model, recipe.optim, recipe.sampling
    objective, vocabulary = recipe.objective, recipe.vocabulary
    refuse(not data.train and not data.pairs, "data", "the key data.train is missing")
    refuse(data.dev and not data.train, "data.dev", "data.dev needs data.train; pairs have data.dev_pairs")
    refuse(data.pairs and not recipe.correction, "data.pairs", "data.pairs needs a section `correction`")
    for key, files in (("pairs", data.pairs), ("dev_pairs", data.dev_pairs)):
        for file in files or ():
            sides = [sum(other.style == side for other in files or ()) for side in SIDES]
            refuse(
                (file.style is None and not file.is_jsonl) or sides[0] != sides[1] or file.style not in (None, *SIDES),
                f"data.{key}",
                f"data.{key} must be JSONL with source and target, or two plain files under `source` and `target`",
            )
    styles = {file.style for file in recipe.train_files if file.style}
    jsonl = any(file.is_jsonl for file in recipe.train_files)
    baseline = objective != "xl-editor"

    refuse(baseline and styles, "data.train", f"objective {objective} knows no styles; give data.train as a list")
    refuse(baseline and recipe.classifier, "classifier", f"objective {objective} has no classifier; leave it out")
    refuse(
        baseline and sampling.style_dropout,
        "sampling.style_dropout",
        f"objective {objective} knows no styles",
    )
    refuse(
        baseline and sampling.max_slots > 1,
        "sampling.max_slots",
        f"objective {objective} takes one slot only",
    )
    refuse(
        objective == "l2r" and sampling.empty_rate,
        "sampling.empty_rate",
        "objective l2r has no END to predict in an empty interval, so sampling.empty_rate must be 0",
    )
    refuse(
        objective == "l2r" and sampling.sentence_rate,
        "sampling.sentence_rate",
        "objective l2r has no END to predict where no sentence is missing, so sampling.sentence_rate must be 0",
    )
    refuse(baseline and recipe.correction, "correction", f"objective {objective} learns no corrections; leave it out")
    unlabelled = not styles and not jsonl
    refuse(unlabelled and recipe.classifier, "classifier", "a classifier needs styles, and data.train names none")
    refuse(
        unlabelled and sampling.style_dropout,
        "sampling.style_dropout",
        "sampling.style_dropout needs styles, and data.train names none",
    )
    refuse(len(styles) == 1 and recipe.classifier, "classifier", "a classifier needs at least two styles")
    for file in data.dev or ():
        refuse(
            file.style not in styles if styles else file.style and not jsonl,
            "data.dev",
            f"data.dev has the style {file.style}, data.train has {', '.join(sorted(styles)) or 'none'}",
        )
    files = (*recipe.train_files, *(recipe.dev_files or ()))
    plain = ", ".join(str(file.path) for file in files if not file.is_jsonl)
    names = {file.name for file in recipe.train_files}
    for name in data.shares:
        refuse(name not in names, f"data.shares.{name}", f"data.shares names {name}, and data.train has no such file")
    refuse(
        data.window > 1 and plain,
        "data.window",
        f"data.window {data.window} needs articles (JSONL with sents), not plain text: {plain}",
    )

    refuse(model.init and objective == "seq2seq", "model.init", "objective seq2seq cannot start from model.init")
    refuse(
        objective == "seq2seq" and data.max_tokens >= LONGEST_POSITION,
        "data.max_tokens",
        f"objective seq2seq reads less than {LONGEST_POSITION} tokens; lower data.max_tokens",
    )
    refuse(not model.init and not vocabulary, "", "a vocabulary (or model.init) is missing")
    for size in ("n_layer", "n_head", "d_model", "d_inner"):
        given = tree.at("model", size) is not tree.at("model")
        refuse(model.init and given, f"model.{size}", f"model.init brings its own sizes; leave model.{size} out")
    refuse(
        data.least_window and data.least_window > data.window,
        "data.least_window",
        f"data.least_window is above data.window ({data.window})",
    )
    refuse(model.grow and not model.init, "model.grow", "model.grow needs a model.init that is to grow")
    if model.init and model.init.startswith((".", "/", "~")):
        there = expanded(model.init).is_dir()
        refuse(not there, "model.init", f"model.init names {model.init}, which is not a directory")
    refuse(
        model.d_model % (2 * model.n_head),
        "model.d_model",
        f"model.d_model {model.d_model} must be a multiple of twice model.n_head {model.n_head}",
    )
    if vocabulary:
        pieces = vocabulary.kind != "word"
        refuse(
            pieces and vocabulary.size is None,
            "vocabulary",
            f"kind {vocabulary.kind} needs a vocabulary.size",
        )
        refuse(
            pieces and vocabulary.min_count > 1,
            "vocabulary.min_count",
            f"vocabulary.min_count is for kind word, not for {vocabulary.kind}",
        )

    durations = [name for name in _ONE_OF if getattr(optim, name) is not None]
    refuse(not durations, "optim", "one of optim.steps, optim.epochs and optim.minutes is missing")
    refuse(len(durations) > 1, f"optim.{durations[-1]}", f"choose one of optim.{' and optim.'.join(durations)}")
    refuse(
        optim.tokens_per_step % optim.tokens_per_batch,
        "optim.tokens_per_batch",
        f"optim.tokens_per_step {optim.tokens_per_step} must be a multiple of optim.tokens_per_batch "
        f"{optim.tokens_per_batch}",
    )
    most = 2 * (data.max_tokens + sampling.max_slots)  # every token is content, and at worst also a target
    refuse(
        optim.tokens_per_batch < most,
        "optim.tokens_per_batch",
        f"optim.tokens_per_batch {optim.tokens_per_batch} cannot hold a sequence of data.max_tokens "
        f"{data.max_tokens}, which takes up to {most}",
    )


# --- Back to plain values, and to documentation ---


def _default(key: Field[Any]) -> Any:
    return key.default if key.default_factory is MISSING else key.default_factory()


def _to_plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, Source | type):
        return {
            f.name: _to_plain(getattr(value, f.name)) for f in fields(value) if getattr(value, f.name) != _default(f)
        }
    if isinstance(value, tuple) and all(isinstance(item, Source) for item in value):
        if value[0].style is None:
            return [str(file.path) for file in value]
        by_style: dict[str, list[str]] = {}
        for file in value:
            by_style.setdefault(file.style, []).append(str(file.path))
        return by_style
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _describe(kind: Any, keys: tuple[str, ...]) -> Iterable[str]:
    hints: Mapping[str, Any] = get_type_hints(kind)
    for f in fields(kind):
        section = _section_of(hints[f.name])
        text = f.metadata.get("help", "")
        default = ""
        if not section and (value := _default(f)) is not MISSING and value not in (None, "", {}):
            default = f" (default {list(value) if isinstance(value, tuple) else value})"
        yield f"{'  ' * len(keys)}- `{f.name}`{default}{': ' + text if text else ''}"
        if section:
            yield from _describe(section, (*keys, f.name))
