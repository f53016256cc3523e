"""Files of texts: plain lines, JSON lines and Parquet; the first two also compressed.

A format cuts a stream into rows as they are, finds the texts in them, and writes them again with their answers. Rows
stay raw until a worker parses them: reading is quick, and whatever is wrong with a row is that row's failure.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, BinaryIO, Protocol, TypeAlias, cast

from xl_editor.errors import RequestError
from xl_editor.postedit.answers import FIELDS, Answer

Rows: TypeAlias = Any  # a list of lines, as bytes, or a pyarrow.Table
MAX_LINE_BYTES = 1 << 26
ROW_GROUP_ROWS = 1 << 16  # of a Parquet file that we write
DEFAULT_FIELD = "text"


class FormatError(RequestError):
    """An input or output that cannot be read or written at all, in one sentence."""


@dataclass(frozen=True)
class Unreadable:
    """Why a row has no text that could be edited, in one sentence."""

    reason: str


class Format(Protocol):
    name: str

    def check(self, stream: BinaryIO, field: str) -> None:
        """Raise `FormatError` if no row can have this field."""

    def count(self, stream: BinaryIO) -> int:
        """The number of rows."""

    def read(self, stream: BinaryIO, n_rows: int) -> Iterator[Rows]:
        """All rows, in runs of exactly `n_rows` but for the last; at least one run, if an empty one."""

    def texts(self, rows: Rows, field: str) -> list[str | Unreadable]: ...

    def objects(self, rows: Rows, field: str) -> list[dict[str, Any]]:
        """The rows as JSON objects, whatever is wrong with them."""

    def render(self, rows: Rows, answers: Sequence[Answer], field: str, names: Sequence[str]) -> bytes:
        """The rows with their answers, in this format; `names` are the fields that an answer may have."""

    def join(self, parts: Iterable[bytes], stream: IO[bytes]) -> None:
        """Write what `render` gave, one after the other, as one file."""


class Lines:
    """A text a line. The output has the edited texts alone, newline-ended; a line that failed stays as it was."""

    name = "lines"

    def check(self, stream: BinaryIO, field: str) -> None:
        pass  # the whole line is the text

    def count(self, stream: BinaryIO) -> int:
        return sum(1 for _ in _lines(stream))

    def read(self, stream: BinaryIO, n_rows: int) -> Iterator[list[bytes]]:
        lines = _lines(stream)
        run = list(islice(lines, n_rows))
        yield run
        while run := list(islice(lines, n_rows)):
            yield run

    def texts(self, rows: Rows, field: str) -> list[str | Unreadable]:
        return [_decoded(line) for line in rows]

    def objects(self, rows: Rows, field: str) -> list[dict[str, Any]]:
        return [{field: _legible(line)} for line in rows]

    def render(self, rows: Rows, answers: Sequence[Answer], field: str, names: Sequence[str]) -> bytes:
        edited = (
            line if answer.edited is None else answer.edited.encode()
            for line, answer in zip(rows, answers, strict=True)
        )
        return b"".join(line + b"\n" for line in edited)

    def join(self, parts: Iterable[bytes], stream: IO[bytes]) -> None:
        for part in parts:
            stream.write(part)


class JsonLines(Lines):
    """A JSON object a line, with the text in a field. All fields are carried through."""

    name = "JSON lines"

    def texts(self, rows: Rows, field: str) -> list[str | Unreadable]:
        return [self._text(line, field) for line in rows]

    def objects(self, rows: Rows, field: str) -> list[dict[str, Any]]:
        found = []
        for line in rows:
            record = self._parsed(line)
            found.append({"unreadable": _legible(line)} if isinstance(record, Unreadable) else record)
        return found

    def render(self, rows: Rows, answers: Sequence[Answer], field: str, names: Sequence[str]) -> bytes:
        written = (
            render_json(self.objects([line], field), [answer], field) if line.strip() else line + b"\n"
            for line, answer in zip(rows, answers, strict=True)
        )
        return b"".join(written)

    def _text(self, line: bytes, field: str) -> str | Unreadable:
        if not line.strip():
            return ""  # which stays as it is
        record = self._parsed(line)
        if isinstance(record, Unreadable):
            return record
        if field not in record:
            return Unreadable(f"The object has no field {field!r}.")
        return _checked(record[field], field)

    def _parsed(self, line: bytes) -> dict[str, Any] | Unreadable:
        text = _decoded(line)
        if isinstance(text, Unreadable):
            return text
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            return Unreadable(f"The line is not JSON: {error}.")
        return record if isinstance(record, dict) else Unreadable("The line is not a JSON object.")


class Parquet:
    """A row a text, in a column of strings. All columns are carried through."""

    name = "Parquet"

    def check(self, stream: BinaryIO, field: str) -> None:
        import pyarrow as pa

        schema = self._open(stream).schema_arrow
        if schema.names.count(field) > 1:
            raise FormatError(f"There are several columns {field!r}.")
        if field not in schema.names:
            raise FormatError(f"There is no column {field!r}; there are {', '.join(schema.names)} (see --field).")
        kind = schema.field(field).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise FormatError(f"The column {field!r} must hold strings, not {kind}.")

    def count(self, stream: BinaryIO) -> int:
        return int(self._open(stream).metadata.num_rows)

    def read(self, stream: BinaryIO, n_rows: int) -> Iterator[Rows]:
        import pyarrow as pa

        file = self._open(stream)
        waiting = file.schema_arrow.empty_table()
        complete = False  # a batch may end where a row group does: rows wait until there are enough
        for batch in file.iter_batches(n_rows):
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch], waiting.schema)])
            while waiting.num_rows >= n_rows:
                complete = True
                yield waiting.slice(0, n_rows).combine_chunks()
                waiting = waiting.slice(n_rows)
        if waiting.num_rows or not complete:
            yield waiting.combine_chunks()

    def texts(self, rows: Rows, field: str) -> list[str | Unreadable]:
        return [_checked(text, field) for text in rows.column(field).to_pylist()]

    def objects(self, rows: Rows, field: str) -> list[dict[str, Any]]:
        for index, column in enumerate(rows.schema):
            kind = _times_as_text(column.type)
            if kind != column.type:
                rows = rows.set_column(index, column.name, rows.column(index).cast(kind))
        return list(rows.to_pylist())

    def render(self, rows: Rows, answers: Sequence[Answer], field: str, names: Sequence[str]) -> bytes:
        import pyarrow as pa

        kinds = {
            "operations": pa.list_(pa.string()),
            "scores": pa.list_(pa.float64()),
            "p_before": pa.float64(),
            "p_after": pa.float64(),
        }
        table = rows.select([index for index, name in enumerate(rows.column_names) if name not in FIELDS])
        for name in names:
            values = [answer.to_dict().get(name) for answer in answers]
            if name == field:  # which a row that failed keeps
                before = rows.column(field).to_pylist()
                values = [old if new is None else new for old, new in zip(before, values, strict=True)]
            if name == "trace":
                values = [None if value is None else _json(value).decode() for value in values]
            table = table.append_column(name, pa.array(values, kinds.get(name, pa.string())))
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue()

    def join(self, parts: Iterable[bytes], stream: IO[bytes]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = (pa.ipc.open_stream(part).read_all() for part in parts)
        group = [next(tables)]
        with pq.ParquetWriter(stream, group[0].schema) as writer:
            for table in tables:
                if sum(waiting.num_rows for waiting in group) + table.num_rows > ROW_GROUP_ROWS:
                    writer.write_table(pa.concat_tables(group))
                    group = []
                group.append(table)
            writer.write_table(pa.concat_tables(group))

    def _open(self, stream: BinaryIO) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(stream)
        except pa.ArrowInvalid as error:
            raise FormatError(f"This is no Parquet file: {error}.") from None


def _times_as_text(kind: Any) -> Any:
    """The type with text for dates and times: JSON has none, Python's know no nanoseconds and no year 10,000."""
    import pyarrow as pa

    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_times_as_text(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _times_as_text(field.type)) for field in kind])
    return kind


def render_json(objects: Iterable[dict[str, Any]], answers: Iterable[Answer], field: str) -> bytes:
    """A JSON object a line: what came with a text, and the answer. Where there is none, the text itself stays."""
    lines = []
    for record, answer in zip(objects, answers, strict=True):
        replaced = set(FIELDS) - ({field} if answer.error is not None else set())
        carried = {name: value for name, value in record.items() if name not in replaced}
        lines.append(_json({**carried, **answer.to_dict()}) + b"\n")
    return b"".join(lines)


LINES, JSON_LINES, PARQUET = Lines(), JsonLines(), Parquet()
ENDINGS: dict[str, Format] = {".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".parquet": PARQUET}
# To take these for plain lines would spoil them.
FOREIGN = (".csv", ".tsv", ".json", ".xlsx", ".gzip", ".xz", ".bz2", ".zip", ".7z")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True)
class FileKind:
    """How a file is written, by its name: `texts.jsonl.zst` has JSON lines; what is not known has plain lines."""

    format: Format
    compression: str | None

    @classmethod
    def of(cls, name: str) -> FileKind:
        compression = next((ending for ending in COMPRESSIONS if name.lower().endswith(ending)), "")
        inner = name.lower().removesuffix(compression)
        if inner.endswith(FOREIGN):
            raise FormatError(f"{name} cannot be used; use plain lines or .jsonl (also .gz, .zst), or .parquet.")
        format = next((found for ending, found in ENDINGS.items() if inner.endswith(ending)), LINES)
        if format is PARQUET and compression:
            raise FormatError(f"{name}: Parquet is compressed by itself, and must not be compressed again.")
        return cls(format, COMPRESSIONS.get(compression))

    def writable_from(self, source: FileKind) -> bool:
        return self.format in (source.format, JSON_LINES)

    @contextmanager
    def reading(self, stream: BinaryIO) -> Iterator[BinaryIO]:
        """What the stream holds, decompressed."""
        if self.compression == "gzip":
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield cast(BinaryIO, unpacked)
        elif self.compression == "zstd":
            import pyarrow as pa

            # pyarrow's stream, unlike others, notices that the end is missing.
            with io.BufferedReader(pa.CompressedInputStream(stream, "zstd")) as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield stream

    @contextmanager
    def writing(self, stream: IO[bytes]) -> Iterator[IO[bytes]]:
        """A stream that compresses into another; the same bytes every time."""
        if self.compression == "gzip":
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif self.compression == "zstd":
            import pyarrow as pa

            with pa.CompressedOutputStream(stream, "zstd") as packed:
                yield packed
        else:
            yield stream


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Without their ends, and without a byte-order mark."""
    begins = True
    while line := stream.readline(MAX_LINE_BYTES):
        if begins:
            line, begins = line.removeprefix(codecs.BOM_UTF8), False
        if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise FormatError(f"A line has more than {MAX_LINE_BYTES:,} bytes: is this a file of lines?")
        yield line.rstrip(b"\r\n")


def _decoded(line: bytes) -> str | Unreadable:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return Unreadable(f"Byte {error.start + 1} of the line, 0x{line[error.start]:02x}, is not UTF-8.")


def _legible(line: bytes) -> str:
    return line.decode(errors="backslashreplace")


def _checked(text: object, field: str) -> str | Unreadable:
    if not isinstance(text, str):
        return Unreadable(f"The field {field!r} must be a string, not {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        return Unreadable(f"The field {field!r} has half of a surrogate pair, which is no character.")
    return text


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_described).encode()
    except UnicodeEncodeError:  # half of a surrogate pair can only be written as an escape
        return json.dumps(_finite(value), default=_described).encode()
    except ValueError:
        return _json(_finite(value))


def _described(value: Any) -> str:
    return _legible(value) if isinstance(value, bytes) else str(value)


def _finite(value: Any) -> Any:
    """The same with null for what is no number, or infinite, for which JSON has no word."""
    return json.loads(json.dumps(value, default=_described), parse_constant=lambda _: None)
