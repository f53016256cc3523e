"""What a job comes to: counted chunk by chunk, and added up in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xl_editor.postedit.answers import Answer

MAX_FAILURES = 10  # that are named; the others are counted


@dataclass(frozen=True)
class Failure:
    file: str
    line: int  # from 1
    error: str


@dataclass(frozen=True)
class Summary:
    lines: int = 0
    changed: int = 0
    failed: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    scored: int = 0
    score_sum: float = 0.0
    failures: tuple[Failure, ...] = ()  # the first ones

    @classmethod
    def of(cls, texts: Sequence[object], answers: Sequence[Answer], file: str, first_line: int) -> Summary:
        """Count the answers to texts, the first of which stands on a line of a file."""
        failed = [(i, answer.error) for i, answer in enumerate(answers) if answer.error is not None]
        scores = [score for answer in answers for score in answer.scores if score is not None]
        return cls(
            lines=len(answers),
            changed=sum(a.edited is not None and a.edited != text for text, a in zip(texts, answers, strict=True)),
            failed=len(failed),
            operations=dict(sorted(Counter(done for answer in answers for done in answer.operations).items())),
            scored=len(scores),
            score_sum=sum(scores),
            failures=tuple(Failure(file, first_line + i, error) for i, error in failed[:MAX_FAILURES]),
        )

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Summary:
        return cls(**{**found, "failures": tuple(Failure(**failure) for failure in found["failures"])})

    @classmethod
    def total(cls, parts: Iterable[Summary]) -> Summary:
        total = cls()
        for part in parts:
            total = total + part
        return total

    def __add__(self, other: Summary) -> Summary:
        operations = Counter(self.operations) + Counter(other.operations)
        return Summary(
            self.lines + other.lines,
            self.changed + other.changed,
            self.failed + other.failed,
            dict(sorted(operations.items())),
            self.scored + other.scored,
            self.score_sum + other.score_sum,
            (self.failures + other.failures)[:MAX_FAILURES],
        )

    def render(self, score_name: str) -> str:
        """A few lines for people."""
        edits = ", ".join(f"{count:,} {name}" for name, count in self.operations.items()) or "none"
        mean = f"{self.score_sum / self.scored:.3f}" if self.scored else "–"
        share = f" ({self.changed / self.lines:.1%})" if self.lines else ""
        lines = [
            f"{self.lines:,} lines, {self.changed:,} changed{share}, {self.failed:,} failed",
            f"edits: {edits}; mean {score_name}: {mean}",
        ]
        lines += [f"{failure.file}, line {failure.line}: {failure.error}" for failure in self.failures]
        if self.failed > len(self.failures):
            lines.append(f"… and {self.failed - len(self.failures):,} more failures")
        return "\n".join(lines)
