"""Files that a power cut leaves old or new, never half; arrays that fit in memory."""

import io
import os
import secrets
import zipfile
from pathlib import Path

import numpy as np


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file by new content, durably and in one step.

    The bytes go to a hidden temporary file in the same directory and are forced to the
    disk before they take the name of the target.  If anything goes wrong before that,
    be it a full disk or an interrupt, the temporary file is removed, the target is what
    it was, and the error travels on.
    """
    # Random, because processes that share a directory may write the same file at once.
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


def flush_directory(directory: Path) -> None:
    """Force the names in a directory to the disk, where the system knows how to."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """Remove the temporary files of writers that were killed.

    Only the sole owner of a directory may call this: it would also remove the file that
    another process is just writing.
    """
    for temporary in directory.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)


def read_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an archive that ``numpy.savez`` has written.

    It is not larger in memory than in its file: a compressed archive is refused unread.

    Raises:
        Exception: Of many types, if the archive is damaged.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is no archive")  # NumPy would advise to unpickle it
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        members = archive.zip.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("the archive is compressed")
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("the archive says that it is larger than its file")
        if archive.zip.testzip() is not None:
            raise ValueError("a checksum does not match")
        return {name: archive[name] for name in archive.files}


def shipped(directory: str) -> Path:
    """Return a directory that comes with driftrl, such as its studies.

    Installed, it lies inside the package; in a checkout, at its top.
    """
    package = Path(__file__).parent
    inside = package / directory
    return inside if inside.is_dir() else package.parent.parent / directory


def page(name: str) -> str:
    """Return where a page of the documentation is on this machine."""
    return str(shipped("docs") / name)


def cache_directory() -> Path:
    """Return the directory of driftrl in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "driftrl"
