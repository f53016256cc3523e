"""`transformers.Trainer` with our data, our files, and checkpoints that are whole or not there at all."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from safetensors import SafetensorError
from torch import Tensor
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from xl_editor.errors import RequestError
from xl_editor.files import PARTIAL, sync, sync_tree, write_whole
from xl_editor.geometry import PADDING
from xl_editor.training.muon import Muon, parameter_groups
from xl_editor.training.objectives import IGNORED, Batch
from xl_editor.training.stream import MicroBatches

CHECKPOINTS = "checkpoints"
LOG_FILE = "log.jsonl"
RUNNING_LOSS_FILE = "running_loss.json"  # of a checkpoint: the loss since the last entry of the log
KEPT_CHECKPOINTS = 2
PARTS = ("insertion", "correction")  # of the loss, where a run learns both


class SaveError(RequestError):
    """What cannot be written, in one sentence."""


@contextmanager
def saving(partial: Path) -> Iterator[None]:
    """Within, something is written; if that fails, what there is of it is removed."""
    try:
        yield
    except (SafetensorError, RuntimeError, OSError) as error:  # torch's and safetensors' own, where a disk is full
        shutil.rmtree(partial, ignore_errors=True)
        reason = str(error).splitlines()[0].rstrip(".")
        raise SaveError(f"{partial.parent} cannot be written to ({reason}); what was saved before is kept.") from None


def product_dtype(precision: str) -> torch.dtype:
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def rounded_products(precision: str, device: torch.device) -> torch.autocast:
    """Within, matrix products have factors and results of this precision; weights, norms and losses stay float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=product_dtype(precision) == torch.bfloat16)


class DivergedError(RequestError):
    """A run whose loss is no number any more."""


class InsertionTrainer(Trainer):
    """Trains an `Objective` on `MicroBatches`; keeps the best model so far in the output directory."""

    def __init__(
        self,
        *,
        model: Any,
        args: TrainingArguments,
        stream: MicroBatches,
        development: MicroBatches,
        most_development_sequences: int,
        output: Path,
        with_muon: bool,
        precision: str,
    ) -> None:
        # An item of the stream is a whole batch already.
        super().__init__(
            model=model,
            args=args,
            train_dataset=stream,
            eval_dataset=development,
            data_collator=lambda items: items[0],
        )
        self.development = development
        self.most_development_sequences = most_development_sequences
        self.output = output
        self.with_muon = with_muon
        self.precision = precision
        self.n_tokens_seen = 0
        self.remove_callback(PrinterCallback)

    def training_step(self, model: Any, inputs: Batch, num_items_in_batch: Any = None) -> Tensor:
        self.n_tokens_seen += n_real_tokens(inputs)
        return super().training_step(model, inputs, num_items_in_batch)

    def compute_loss_context_manager(self) -> Any:
        return rounded_products(self.precision, self.args.device)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        if self.optimizer is not None or not self.with_muon:
            return super().create_optimizer(model)
        objective = self.accelerator.unwrap_model(self.model)
        decayed = set(self.get_decay_parameter_names(objective))
        self.optimizer = Muon(
            parameter_groups(objective, decayed, self.args.weight_decay),
            self.args.learning_rate,
            (self.args.adam_beta1, self.args.adam_beta2),
            product_dtype(self.precision),
        )
        return self.optimizer

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Loss a target (and accuracy of the classifier) on the development data; keeps the model if it is better."""
        objective = self.accelerator.unwrap_model(self.model)
        objective.eval()
        nll = n_targets = n_correct = n_labels = 0.0
        parts = {name: [0.0, 0.0] for name in PARTS}  # loss and targets of either objective
        with torch.no_grad():
            for batch in self.development.evaluation_batches(self.most_development_sequences):
                output = objective(**self._prepare_inputs(batch))
                nll += float(output["nll"])
                n_of_batch = int((batch["labels"] != IGNORED).sum())
                n_targets += n_of_batch
                part = parts["correction" if "weights" in batch else "insertion"]
                part[0], part[1] = part[0] + float(output["nll"]), part[1] + n_of_batch
                if "n_correct" in output:
                    n_correct += int(output["n_correct"])
                    n_labels += len(batch["classified_labels"])
        objective.train()
        self._check_finite(nll)
        metrics = {"eval_loss": nll / n_targets}
        if parts["correction"][1]:
            metrics |= {f"eval_{name}": loss / n for name, (loss, n) in parts.items() if n}
        if n_labels:
            metrics["eval_accuracy"] = n_correct / n_labels
        if self.state.best_metric is None or metrics["eval_loss"] <= self.state.best_metric:
            self.export()
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        self._check_finite(logs.get("loss", 0.0))
        super().log(logs, *args, **kwargs)

    def _check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise DivergedError(
                f"The loss is no number any more at step {self.state.global_step:,}; try a lower optim.learning_rate. "
                f"The best model until then, if there was one, is in {self.output}."
            )

    def export(self) -> None:
        """Put the weights as they are into the output directory, each file whole or not at all."""
        if not self.is_world_process_zero():
            return
        partial = self.output / PARTIAL
        shutil.rmtree(partial, ignore_errors=True)
        with saving(partial):
            partial.mkdir(parents=True)
            self.accelerator.unwrap_model(self.model).save(partial)
            sync_tree(partial)
        for path in partial.iterdir():
            os.replace(path, self.output / path.name)
        partial.rmdir()

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """As the Trainer's, which writes in place, but in a directory that gets its name when all is on disk."""
        name = f"checkpoint-{self.state.global_step}"
        final = self.output / CHECKPOINTS / name
        partial = self.output / CHECKPOINTS / PARTIAL
        if self.is_world_process_zero():
            shutil.rmtree(partial, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self.args.output_dir = str(partial)
        try:
            with saving(partial):
                super()._save_checkpoint(model, trial)
        finally:
            self.args.output_dir = str(self.output)
        running_loss = float(self.accelerator.gather(self._tr_loss).mean())
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            running = {"loss": running_loss, "since": self._globalstep_last_logged}
            (partial / name / RUNNING_LOSS_FILE).write_text(json.dumps(running), encoding="utf-8")
            sync_tree(partial)
            shutil.rmtree(final, ignore_errors=True)
            os.replace(partial / name, final)
            sync(final.parent)
            for old in find_checkpoints(self.output)[:-KEPT_CHECKPOINTS]:
                shutil.rmtree(old)
        self.accelerator.wait_for_everyone()

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        directory = Path(output_dir or self.output)
        directory.mkdir(parents=True, exist_ok=True)
        self.accelerator.unwrap_model(self.model).save(directory)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self.accelerator.unwrap_model(self.model if model is None else model).load(Path(resume_from_checkpoint))

    def restore_running_loss(self) -> None:
        """Let the next entry of the log count from the last one, not from where the run was resumed."""
        path = self.output / CHECKPOINTS / f"checkpoint-{self.state.global_step}" / RUNNING_LOSS_FILE
        if path.is_file():
            running = json.loads(path.read_text(encoding="utf-8"))
            self._tr_loss += running["loss"]
            self._globalstep_last_logged = running["since"]


class SaveByTheClock(TrainerCallback):
    """A checkpoint every so many minutes, and one before a run that is told to stop (Ctrl-C, SIGTERM) stops."""

    def __init__(self, minutes: float) -> None:
        self.seconds = 60 * minutes
        self.told_to_stop = False  # this process
        self.interrupted = False  # the run: every process knows it after the same step

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.last = time.monotonic()
        self.handlers = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: Any) -> None:
        # Asked twice: at once. But a launcher of many processes repeats to each what the terminal told them all.
        if self.told_to_stop and not torch.distributed.is_initialized():
            raise KeyboardInterrupt
        self.told_to_stop = True

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        is_due = time.monotonic() - self.last > self.seconds
        self.interrupted, is_due = wanted_by_any([self.told_to_stop, is_due], args.device)
        if self.interrupted:
            control.should_training_stop = True
        if self.interrupted or is_due or state.global_step == state.max_steps:
            control.should_save = True
            self.last = time.monotonic()


def wanted_by_any(wishes: list[bool], device: torch.device) -> list[bool]:
    """What one process wants, all do: their clocks differ, and a checkpoint is written by all of them together."""
    if not torch.distributed.is_initialized():
        return wishes
    votes = torch.tensor(wishes, dtype=torch.int32, device=device)
    torch.distributed.all_reduce(votes, torch.distributed.ReduceOp.MAX)
    return votes.bool().tolist()


class LogToFile(TrainerCallback):
    """One JSON object a line. What was logged after the checkpoint that a run resumes from is taken back."""

    def __init__(self, trainer: InsertionTrainer) -> None:
        self.trainer = trainer
        self.path = trainer.output / LOG_FILE

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.trainer.restore_running_loss()
        if state.is_world_process_zero:
            kept = [entry for entry in read_log(self.path) if entry["step"] <= state.global_step]
            write_whole(self.path, "".join(json.dumps(entry) + "\n" for entry in kept))

    def on_log(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        if state.is_world_process_zero and logs and ("loss" in logs or "eval_loss" in logs):
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"step": state.global_step, **logs}) + "\n")


class ShowProgress(TrainerCallback):
    """A live bar on a terminal; elsewhere a line a minute."""

    SECONDS_BETWEEN_LINES = 60

    def __init__(self, trainer: InsertionTrainer, console: Console) -> None:
        self.trainer = trainer
        self.console = console
        columns: list[ProgressColumn] = [
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
        ]
        self.progress = Progress(*columns, console=console)
        self.texts = {"loss": "", "dev": ""}
        self.last_line = 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.task = self.progress.add_task("", total=state.max_steps, completed=state.global_step, text="")
        self.started, self.first_step = time.monotonic(), state.global_step
        if self.console.is_terminal:
            self.progress.start()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        now = time.monotonic()
        rate = self.trainer.n_tokens_seen / (now - self.started)
        text = f"{rate:,.0f} tokens/s{self.texts['loss']}{self.texts['dev']}"
        self.progress.update(self.task, completed=state.global_step, text=text)
        if not self.console.is_terminal and now - self.last_line > self.SECONDS_BETWEEN_LINES:
            self.last_line = now
            pace = (now - self.started) / max(1, state.global_step - self.first_step)
            left = pace * (state.max_steps - state.global_step) / 60
            self.console.print(f"step {state.global_step}/{state.max_steps}  {text}  {left:.0f} min left")

    def on_log(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        logs = logs or {}
        if "loss" in logs:
            self.texts["loss"] = f"  loss {logs['loss']:.3f}"
        if "eval_loss" in logs:
            accuracy = f" ({logs['eval_accuracy']:.1%})" if "eval_accuracy" in logs else ""
            parts = "".join(f" {name} {logs[f'eval_{name}']:.4f}" for name in PARTS if f"eval_{name}" in logs)
            self.texts["dev"] = f"  dev {logs['eval_loss']:.4f}{accuracy}{parts}"

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.progress.stop()


def n_real_tokens(batch: Batch) -> int:
    """Tokens of a batch's sequences: what a pass over the corpus counts, not what the model computes."""
    if "slot" in batch:
        return int((batch["slot"] != PADDING).sum())
    return int(batch["attention_mask"].sum() + (batch["labels"] != IGNORED).sum())


def find_checkpoints(output: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = [path for path in (output / CHECKPOINTS).glob("checkpoint-*") if path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))


def read_log(path: Path) -> list[dict[str, float]]:
    """The entries of a log file; a last line that a crash cut short is left out."""
    if not path.is_file():
        return []
    entries = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return entries
