"""Checkpoints: bitwise, atomic, and damage is found."""

import os
import random

import pytest
import torch

from sextant import files
from sextant.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    read_checkpoint,
    write_checkpoint,
)


@pytest.fixture
def stored(tmp_path):
    path = tmp_path / "run" / "checkpoint.safetensors"
    tensors = {
        "param/w": torch.randn(7, 5),
        "param/s": torch.randn(()),
        "state/m.w": torch.randn(5, 7).t(),
        "state/t": torch.tensor([3], dtype=torch.int64),
    }
    write_checkpoint(path, Checkpoint(tensors, {"step": "12", "config": "{}"}))
    return path, tensors


def test_round_trip_is_bitwise(stored):
    path, tensors = stored
    read = read_checkpoint(path)
    assert read.step == 12 and set(read.tensors) == set(tensors)
    for name, tensor in tensors.items():
        assert torch.equal(read.tensors[name], tensor)
    assert set(read.part("param")) == {"w", "s"}
    assert os.listdir(path.parent) == [path.name]


def test_truncation_and_flipped_bits_are_errors(stored, seed):
    path, _ = stored
    whole = path.read_bytes()
    draw = random.Random(seed)
    for size in [0, 5, 8, 40, len(whole) - 1] + [draw.randrange(len(whole)) for _ in range(20)]:
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="damaged"):
            read_checkpoint(path)
    for _ in range(200):
        bit = draw.randrange(len(whole) * 8)
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(bytes(damaged))
        with pytest.raises(CheckpointError):
            read_checkpoint(path)


def test_a_failed_write_keeps_the_checkpoint_before(stored, monkeypatch):
    path, tensors = stored
    before = path.read_bytes()

    def no_space(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", no_space)
    with pytest.raises(CheckpointError, match="No space left on device.*untouched"):
        write_checkpoint(path, Checkpoint(tensors, {"step": "13"}))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_named(tmp_path, monkeypatch):
    real = os.fdopen

    def full(handle, mode):
        os.close(handle)
        return open("/dev/full", mode)

    monkeypatch.setattr(files.os, "fdopen", full)
    with pytest.raises(CheckpointError, match="No space left"):
        write_checkpoint(tmp_path / "c", Checkpoint({"a": torch.ones(100000)}))
    monkeypatch.setattr(files.os, "fdopen", real)
    assert os.listdir(tmp_path) == []


def test_foreign_files_are_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2)}, tmp_path / "x")
    with pytest.raises(CheckpointError, match="not a checkpoint of this version"):
        read_checkpoint(tmp_path / "x")
    with pytest.raises(CheckpointError, match="no such file; sextant train"):
        read_checkpoint(tmp_path / "y")
