"""Files that a power cut leaves old or new, never half."""

import os
import secrets
from pathlib import Path


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
