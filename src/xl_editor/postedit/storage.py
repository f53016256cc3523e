"""Places that a job reads from and writes to: local paths, and whatever else fsspec opens by its URL.

What is written is there as a whole or not at all: a file gets its name when all of it is on disk, or has arrived.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import fsspec
from fsspec.implementations.local import LocalFileSystem

from xl_editor.errors import RequestError
from xl_editor.files import PARTIAL, content_digest, sync, write_whole


def locate(url: str) -> tuple[Any, str]:
    """The file system of a path or URL, and the path there."""
    try:
        return fsspec.url_to_fs(url)
    except ImportError as error:
        raise RequestError(f"{url} cannot be opened: {error}.") from None


def canonical(url: str) -> str:
    """The same for every way to write a place; nothing else begins so, but what is below it."""
    files, path = locate(url)
    path = os.path.realpath(path) if isinstance(files, LocalFileSystem) else path
    return f"{files.protocol}:{path}".rstrip("/")


def exists(url: str) -> bool:
    files, path = locate(url)
    return bool(files.exists(path))


def is_directory(url: str) -> bool:
    files, path = locate(url)
    return bool(files.isdir(path))


def size(url: str) -> int:
    files, path = locate(url)
    return int(files.size(path))


def make_directory(url: str) -> None:
    files, path = locate(url)
    files.makedirs(path, exist_ok=True)


def remove_tree(url: str) -> None:
    files, path = locate(url)
    with contextlib.suppress(FileNotFoundError):
        files.rm(path, recursive=True)


def entries(url: str) -> list[str]:
    """What is in a directory, hidden or not; nothing if there is none."""
    files, path = locate(url)
    try:
        return sorted(entry.rstrip("/").rsplit("/", 1)[-1] for entry in files.ls(path, detail=False))
    except FileNotFoundError:
        return []


def names_below(url: str) -> list[str]:
    """The files below a directory, by their paths from there; hidden ones are left out."""
    files, top = locate(url)
    top = top.rstrip("/")
    names = [path[len(top) + 1 :] for path in files.find(top)]
    return sorted(name for name in names if not any(part.startswith((".", "_")) for part in name.split("/")))


def open_input(url: str) -> BinaryIO:
    files, path = locate(url)
    return cast(BinaryIO, files.open(path, "rb"))


def read(url: str) -> bytes:
    with open_input(url) as stream:
        return stream.read()


def digest(url: str) -> str:
    """Of all bytes of a file."""
    with open_input(url) as stream:
        return content_digest(stream)


def write(url: str, data: bytes) -> None:
    files, path = locate(url)
    if isinstance(files, LocalFileSystem):
        write_whole(Path(path), data)
    else:
        with writing(url) as stream:
            stream.write(data)


@contextlib.contextmanager
def alone_in(url: str) -> Iterator[None]:
    """Make a directory, and keep other processes of this machine out of it; refuses if one is in it."""
    make_directory(url)
    files, path = locate(url)
    if not isinstance(files, LocalFileSystem) or sys.platform == "win32":
        yield
        return
    import fcntl

    directory = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(f"Another process is at work in {url}.") from None
        yield
    finally:
        os.close(directory)
        with contextlib.suppress(OSError):
            os.rmdir(path)  # if nothing is in it


@contextlib.contextmanager
def writing(url: str) -> Iterator[IO[bytes]]:
    """A stream into a file that gets its name when it is complete."""
    files, path = locate(url)
    if not isinstance(files, LocalFileSystem):
        # An object appears when its stream is closed, whatever has happened: so it gets another name at first.
        directory, slash, name = path.rpartition("/")
        partial_path = f"{directory}{slash}{PARTIAL}-{name}"
        try:
            with files.open(partial_path, "wb") as stream:
                yield stream
            files.mv(partial_path, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):  # if it could not even be begun
                files.rm(partial_path)
            raise
        return
    whole = Path(path)
    whole.parent.mkdir(parents=True, exist_ok=True)
    partial = whole.with_name(f"{PARTIAL}-{whole.name}")
    try:
        with partial.open("wb") as stream:
            yield stream
        sync(partial)
        os.replace(partial, whole)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
