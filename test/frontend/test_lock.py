"""One training at a time in a folder; what killed processes leave is no hindrance."""

import os
import signal

import pytest

from sextant import files
from sextant.files import replace_file
from sextant.training.lock import LOCK, FolderLock, LockError


def forked(work):
    """Another process, which calls ``work``; its number."""
    process = os.fork()
    if process:
        return process
    try:
        work()
    finally:
        os._exit(1)


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a folder until it is told to end."""
    ready, told = os.pipe(), os.pipe()

    def hold():
        with FolderLock(tmp_path):
            os.write(ready[1], b"h")
            os.read(told[0], 1)

    process = forked(hold)
    assert os.read(ready[0], 1) == b"h"
    yield process, told[1]
    for handle in (*ready, *told):
        os.close(handle)


def test_the_holder_is_named(tmp_path, holder):
    process, tell = holder
    with pytest.raises(LockError, match=f"process {process} on .* trains in {tmp_path}: wait"):
        FolderLock(tmp_path).__enter__()
    os.write(tell, b"e")
    os.waitpid(process, 0)
    assert os.listdir(tmp_path) == []
    with FolderLock(tmp_path):
        with pytest.raises(LockError, match=f"process {os.getpid()} on "):
            FolderLock(tmp_path).__enter__()
    assert os.listdir(tmp_path) == []


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path, holder):
    os.kill(holder[0], signal.SIGKILL)
    os.waitpid(holder[0], 0)
    assert os.listdir(tmp_path) == [LOCK]
    with FolderLock(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    assert os.listdir(tmp_path) == []


def test_a_folder_that_stays_empty_goes(tmp_path):
    """What cannot begin leaves none; one that was there, or holds something, stays."""
    folder = tmp_path / "runs" / "a"
    with FolderLock(folder):
        assert folder.is_dir()
    assert not folder.parent.exists()
    with FolderLock(folder):
        (folder / "log").touch()
    assert folder.is_dir()
    (folder / "log").unlink()
    with FolderLock(folder):
        pass
    assert folder.is_dir()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LockError, match="cannot lock .*file: .*choose a folder"):
        FolderLock(tmp_path / "file").__enter__()


def test_what_a_killed_write_left_goes_with_the_next(tmp_path):
    path = tmp_path / "a"
    other = tmp_path / ".b.0.unfinished"  # of another file
    other.touch()


    def killed():
        files.os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
        replace_file(path, b"new")

    for _ in range(2):
        os.waitpid(forked(killed), 0)
    assert len([n for n in os.listdir(tmp_path) if n.startswith(".a.")]) == 1
    replace_file(path, b"old")
    assert sorted(os.listdir(tmp_path)) == [other.name, "a"]


def test_files_that_are_being_written_stay(tmp_path):
    handle, name = files._temporary(tmp_path / "a")
    replace_file(tmp_path / "a", b"other")
    assert os.path.exists(name)
    os.close(handle)
    replace_file(tmp_path / "a", b"other")
    assert os.listdir(tmp_path) == ["a"]
