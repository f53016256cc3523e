"""How tables of results are written: as Markdown for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def table_row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def table_header(*names: str) -> str:
    return f"{table_row(names)}\n{table_row(['---'] * len(names))}"


def write_results(directory: Path, name: str, markdown: str, as_json: dict[str, Any]) -> None:
    """Writes `NAME.md` and `NAME.json`."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.md").write_text(markdown, encoding="utf-8")
    (directory / f"{name}.json").write_text(json.dumps(as_json, indent=1) + "\n", encoding="utf-8")
