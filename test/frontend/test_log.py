"""The log of a run where something of it cannot be written."""

import sys
import types

import pytest

torch = pytest.importorskip("torch")

from sextant.cli import main
from sextant.training.log import Log, LogError

ENTRY = {"step": 0, "loss": 1.5, "rate": 0.1, "ms": 3.0}


@pytest.fixture
def full(monkeypatch):
    """Event files on a full disk, which their writer's thread says some entries later."""

    class Writer:
        def __init__(self, folder, purge_step):
            if folder.endswith("no folder"):
                raise FileExistsError(17, "File exists", folder)

        def add_scalar(self, name, value, step):
            if step:
                raise OSError(28, "No space left on device")

        def close(self):
            raise OSError(28, "No space left on device")

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_event_files_that_cannot_be_written_are_named(tmp_path, full):
    """And the log itself is closed with all that it was told."""
    events = tmp_path / "tensorboard"
    for steps, raised in ((1, LogError), (2, LogError), (1, KeyError)):
        log = Log(tmp_path / "log.jsonl", 0, events)
        message = "no entry" if raised is KeyError else f"cannot write {events}: No space left on device"
        with pytest.raises(raised, match=message), log:
            for step in range(steps):
                log.add({**ENTRY, "step": step})
            if raised is KeyError:
                raise KeyError("no entry")
        assert len((tmp_path / "log.jsonl").read_text().splitlines()) == steps
    with pytest.raises(LogError, match="cannot write .*no folder: File exists"):
        Log(tmp_path / "log.jsonl", 0, tmp_path / "no folder")


def test_a_dry_run_misses_the_package_of_event_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert main(["train", str(tmp_path / "run"), "--dry-run", "--tensorboard"]) == 1
    assert "need the package tensorboard" in capsys.readouterr().err
