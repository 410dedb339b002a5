"""The bytes of texts: files in memory, on the disk and compressed, and what goes wrong with
them."""

import bz2
import gzip
import hashlib
import lzma
import os
import random
import struct

import pytest
import torch

from sextant.training import text_bytes
from sextant.training.data import DataError, batch_at, load_text, split_text


@pytest.fixture
def raw(seed):
    return random.Random(seed).randbytes(30000)


def on_disk(monkeypatch):
    """Files of any size stay where they are."""
    monkeypatch.setattr(text_bytes, "_LARGE", 1)
    monkeypatch.setattr(text_bytes, "_CHUNK", 1000)


def test_files_are_one_text_wherever_their_bytes_are(raw, tmp_path, monkeypatch, seed):
    """Compressed, on the disk, in memory, in this order and in another."""
    monkeypatch.setattr(text_bytes, "_LARGE", 5000)
    monkeypatch.setattr(text_bytes, "_CHUNK", 1000)
    monkeypatch.setattr(text_bytes, "_BLOCK", 100)
    parts = {"a.xz": raw[:9000], "b": raw[9000:20000], "c": raw[20000:24000], "d": raw[24000:]}
    for name, part in parts.items():
        (tmp_path / name).write_bytes(lzma.compress(part) if name == "a.xz" else part)
    for names in ("a.xz", "b", "c", "d"), ("d", "c", "a.xz", "b"):
        whole = b"".join(parts[name] for name in names)
        text = load_text([tmp_path / name for name in names])
        expected = split_text(whole, "x")
        assert text.digest == expected.digest == hashlib.sha256(whole).hexdigest()
        assert bytes(text.train[:].tolist()) == whole[: len(text.train)]
        assert torch.equal(text.validation, expected.validation)
        draw = random.Random(seed)
        for start in [draw.randrange(28000) for _ in range(50)]:
            assert bytes(text.train[start : start + 150].tolist()) == whole[start : start + 150]
        batch = batch_at(text.train, 3, 4, 16, seed)
        assert all(map(torch.equal, batch, batch_at(expected.train, 3, 4, 16, seed)))


def test_streams_of_xz_are_joined(raw, tmp_path):
    """As `xz -d` does, with the zeros that may stand between and behind them."""
    zeros = bytes(8)
    streams = [lzma.compress(raw[:999]), zeros, lzma.compress(raw[999:]), zeros]
    (tmp_path / "a.xz").write_bytes(b"".join(streams))
    assert load_text([tmp_path / "a.xz"]).digest == hashlib.sha256(raw).hexdigest()


def test_damaged_xz_names_file_and_place(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(text_bytes, "_BLOCK", 1000)
    path = tmp_path / "a.xz"
    whole = lzma.compress(raw)

    def message(stored):
        path.write_bytes(stored)
        with pytest.raises(DataError) as error:
            load_text([path])
        assert str(path) in str(error.value)
        return str(error.value)

    for size in (0, 10, 12000, len(whole) - 1):
        assert f"is cut: its {size} bytes end before" in message(whole[:size])
    damaged = bytearray(whole)
    damaged[15000] ^= 255
    found = message(damaged)
    assert "is damaged, or no xz file, before its byte " in found
    # Damage shows in the block where it is, or when the stream's checksum is compared.
    assert int(found.split("before its byte ")[1].split()[0]) >= 15000
    assert "is damaged, or no xz file, before its byte 1000 of 30000, after 0" in message(raw)
    assert "is damaged, or no xz file" in message(whole + raw)
    monkeypatch.setattr(text_bytes, "memory_limit", lambda: 2 * len(raw) - 1)
    assert "does not fit into" in message(whole)


@pytest.mark.parametrize(
    "pack, tool",
    [(gzip.compress, "gunzip"), (bz2.compress, "bunzip2"), (lzma.compress, "xz -d")],
    ids=["gzip", "bzip2", "xz"],
)
@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
def test_packed_files_of_other_names_are_no_texts(raw, tmp_path, monkeypatch, pack, tool, is_large):
    """A model would learn the bytes of the packing, and nobody would see why it does not."""
    if is_large:
        on_disk(monkeypatch)
    path = tmp_path / "text.packed"
    path.write_bytes(pack(raw))
    with pytest.raises(DataError, match=f"{path} is packed, .*: unpack it with {tool}, or pack it anew"):
        load_text([path])


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
def test_images_are_no_text(tmp_path, monkeypatch, is_large):
    if is_large:
        on_disk(monkeypatch)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(struct.pack(">HBBIII", 0, 8, 3, 40, 5, 5) + bytes(1000))
    with pytest.raises(DataError, match=f"{path} is an IDX file, .*--model vit"):
        load_text([path])


def test_a_file_that_changes_is_neither_read_wrongly_nor_a_crash(raw, tmp_path, monkeypatch):
    on_disk(monkeypatch)
    path = tmp_path / "text"

    def opened():
        path.write_bytes(raw)
        return load_text([path])

    text = opened()
    os.utime(path)
    path.chmod(0o600)
    assert bytes(text.train[:100].tolist()) == raw[:100]
    os.replace(tmp_path / "text", tmp_path / "moved")
    path.write_bytes(b"another one")
    assert bytes(text.train[:100].tolist()) == raw[:100]
    for change, size in ((lambda: os.truncate(path, 10), 10), (lambda: grow(path), 30001)):
        text = opened()
        change()
        with pytest.raises(DataError, match=f"text has changed.*then 30000 bytes, now {size}; take"):
            text.train[:100]
    text = opened()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(DataError, match="text has changed since it was opened"):
        text.train[:100]


def grow(path):
    with path.open("ab") as file:
        file.write(b"x")


def test_a_file_that_changes_while_it_is_read_has_no_digest(raw, tmp_path, monkeypatch):
    on_disk(monkeypatch)
    path = tmp_path / "text"
    path.write_bytes(raw)
    real = os.pread

    def cut(*arguments):
        os.truncate(path, 1500)
        return real(*arguments)

    whole = text_bytes.read_bytes([path])
    monkeypatch.setattr(text_bytes.os, "pread", cut)
    with pytest.raises(DataError, match="text changes while it is read"):
        whole.digest()


def test_validation_is_as_long_as_asked(raw):
    """More than the last 5 % are held out if need be."""
    for validation, cut in ((0, 28500), (100, 28500), (1500, 28500), (9000, 21000)):
        text = split_text(raw, "x", validation=validation)
        assert len(text.train) == cut
        assert bytes(text.validation.tolist()) == raw[cut:][: validation or None]
    with pytest.raises(DataError, match="0 are for training and 30000 for validation.*have 40000"):
        split_text(raw, "x", validation=40000)


def test_validation_on_another_text(raw, tmp_path):
    for name, part in (("train", raw[:9000]), ("other", raw[9000:19000])):
        (tmp_path / name).write_bytes(part)
    files = {"validation_files": [tmp_path / "other"]}
    text = load_text([tmp_path / "train"], **files)
    assert len(text.train) == 9000 and text.source.endswith(f"validated on {tmp_path / 'other'}")
    assert bytes(text.validation.tolist()) == raw[9000:19000]
    assert text.digest != load_text([tmp_path / "train"]).digest
    shorter = load_text([tmp_path / "train"], validation=500, **files)
    assert shorter.digest == text.digest
    assert bytes(shorter.validation.tolist()) == raw[9000:9500]
    with pytest.raises(DataError, match="other has 10000 bytes, 10001 are needed"):
        load_text([tmp_path / "train"], 10, validation=10001, **files)
