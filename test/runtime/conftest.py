"""What the tests of the runtime share: programs compiled from exec text."""

import json
import os
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("SEXTANT_BUILD_DIR", HERE.parents[1] / "build"))


class Program:
    """A loaded artifact with the calls of torch.ops.sextant."""

    def __init__(self, artifact: bytes):
        buffer = torch.frombuffer(bytearray(artifact), dtype=torch.uint8)
        self.handle = torch.ops.sextant.load(buffer)

    def __call__(self, function, *inputs):
        return torch.ops.sextant.run(self.handle, function, list(inputs))

    def profile(self, function, *inputs):
        outputs, text = torch.ops.sextant.profile(self.handle, function, list(inputs))
        return outputs, decode(text)

    def manifest(self):
        return decode(torch.ops.sextant.manifest(self.handle))


def decode(text):
    """JSON that an operator gives as bytes."""
    return json.loads(bytes(text.tolist()))


@pytest.fixture(scope="session")
def ops():
    """torch.ops.sextant, loaded."""
    library = BUILD / "python" / "sextant" / "libsextant_torch.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    torch.ops.load_library(str(library))
    return torch.ops.sextant


@pytest.fixture(scope="session")
def compile_text(tmp_path_factory):
    """Compiles exec text to the bytes of an artifact."""
    tool = BUILD / "bin" / "sextant-compile"
    if not tool.exists():
        pytest.skip(f"{tool} is not built")
    folder = tmp_path_factory.mktemp("artifacts")
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}

    def run(text: str, target: str = "reference") -> bytes:
        output = folder / "program.sxt"
        done = subprocess.run(
            [str(tool), "-", f"--target={target}", "-o", str(output)],
            input=text, text=True, capture_output=True, env=environment,
        )
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        return output.read_bytes()

    return run


@pytest.fixture(scope="session")
def load_artifact(ops):
    """Loads the bytes of an artifact."""
    return Program


@pytest.fixture(scope="session")
def load(load_artifact, compile_text):
    """Compiles and loads exec text."""
    return lambda text, target="reference": load_artifact(compile_text(text, target))


@pytest.fixture(scope="session")
def scale(compile_text):
    """The bytes of a small artifact with a kernel."""
    return compile_text((HERE / "Inputs" / "scale.mlir").read_text())
