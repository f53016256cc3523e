"""Files that hold all they should, or what they held before, whenever the power goes; and digests of them."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from xl_editor.errors import RequestError

BLOCK_BYTES = 1 << 20
PARTIAL = ".partial"  # what is being written, before it gets its name
DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)  # what a packed file raises that is not what it says


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~somebody` written out."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise RequestError(f"{path} begins with a home directory that this machine does not know.") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, which is there with all its content or as it was before."""
    partial = path.with_name(f"{PARTIAL}-{os.getpid()}-{path.name}")  # another process may write the same
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        sync(partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def unpack(packed: IO[bytes], suffix: str) -> IO[bytes]:
    """What a file holds, if its suffix says that it is packed (.gz, .xz)."""
    if suffix.lower() == ".gz":
        return gzip.GzipFile(fileobj=packed)  # type: ignore[return-value]
    if suffix.lower() == ".xz":
        return lzma.LZMAFile(packed)
    return packed


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """A file's content, packed or not; one that is damaged is told of in a sentence."""
    try:
        with path.open("rb") as packed, unpack(packed, path.suffix) as stream:
            yield stream
    except DAMAGED as error:
        raise RequestError(f"{path} cannot be unpacked, it is damaged or not what its name says: {error}.") from None


def content_digest(stream: IO[bytes], salt: bytes = b"") -> str:
    """Of all that a stream holds, read a block at a time."""
    digest = hashlib.sha256(salt)
    while block := stream.read(BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()


def sync_tree(directory: Path) -> None:
    """Make sure that all that was written below a directory is on disk."""
    for path in (*directory.rglob("*"), directory):
        sync(path)


def sync(path: Path) -> None:
    """Make sure that what was written is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
