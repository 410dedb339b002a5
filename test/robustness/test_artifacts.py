"""Damaged and foreign artifacts: every one is refused with an error that says so."""

import os
import random
import struct
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SEXTANT_BUILD_DIR", ROOT / "build"))
MODEL = """
func.func @forward(%q: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@causal, "causal">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}
"""


@pytest.fixture(scope="module", params=["reference", "reference,cuda:sm_80"])
def artifact(request, tmp_path_factory):
    """The bytes of a compiled attention, alone or among those of several targets."""
    tool, library = BUILD / "bin/sextant-compile", BUILD / "python/sextant/libsextant_torch.so"
    for needed in (tool, library):
        if not needed.exists():
            pytest.skip(f"{needed} is not built")
    torch.ops.load_library(str(library))
    output = tmp_path_factory.mktemp("artifact") / "model.sxt"
    subprocess.run([tool, "-", f"--target={request.param}", "-o", output, "--no-cache"],
                   input=MODEL, text=True, check=True)
    return output.read_bytes()


@pytest.fixture
def random_source(seed):
    return random.Random(seed)


def load(data):
    handle = torch.ops.sextant.load(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    torch.ops.sextant.unload(handle)


def reason(data):
    """Why an artifact is refused."""
    with pytest.raises(RuntimeError) as error:
        load(data)
    return str(error.value).splitlines()[0]


def checksum(body):
    """FNV-1a with 64 bits, as the format has it."""
    value = 0xCBF29CE484222325
    for byte in body:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return struct.pack("<Q", value)


def test_the_whole_file_loads(artifact):
    assert checksum(artifact[:-8]) == artifact[-8:]
    load(artifact)


def test_truncated(artifact, random_source):
    lengths = {1, 4, 7, 8, 9, 16, len(artifact) - 1, len(artifact) - 8}
    lengths |= {random_source.randrange(1, len(artifact)) for _ in range(60)}
    for length in sorted(lengths):
        message = reason(artifact[:length])
        assert "artifact" in message, (length, message)


def test_one_flipped_bit(artifact, random_source):
    for _ in range(200):
        damaged = bytearray(artifact)
        place = random_source.randrange(len(damaged))
        damaged[place] ^= 1 << random_source.randrange(8)
        message = reason(damaged)
        assert "artifact" in message, (place, message)


def test_bytes_after_the_end(artifact):
    assert "artifact" in reason(artifact + b"\0")


def test_foreign_bytes():
    torch.ops.load_library(str(BUILD / "python/sextant/libsextant_torch.so"))
    for data in (b"\0" * 64, b"\x7fELF" * 64, os.urandom(4096)):
        assert "artifact" in reason(data)


def test_foreign_version_is_named(artifact):
    # `format`, the first field: its place is the root table's first offset.
    body = bytearray(artifact[:-8])
    (root,) = struct.unpack_from("<I", body, 0)
    (back,) = struct.unpack_from("<i", body, root)
    (field,) = struct.unpack_from("<H", body, root - back + 4)
    struct.pack_into("<I", body, root + field, 999)
    assert "999" in reason(bytes(body) + checksum(body))
