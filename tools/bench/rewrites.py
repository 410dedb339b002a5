"""What rewrites gain: an encoding against the same function, spelled so that the
compiler does not see what it could make of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from rows import Row, Settings, both, inputs
from timing import Rounds

import sextant

# 1, but for the compiler a number that depends on the key.
ONE = """%jdx = pos.index key
    %jnone = arith.constant 0 : i32
    %jany = arith.cmpi sge, %jdx, %jnone : i32
    %jyes = arith.constant 1.0 : f32
    %jno = arith.constant 0.0 : f32
    %jone = arith.select %jany, %jyes, %jno : f32
    """


@dataclass(frozen=True)
class Rewrite:
    """An encoding's use, and lines of its definition that others replace where it is
    kept as it is."""

    what: str
    use: str
    lines: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.use.partition("(")[0]

    @property
    def kept(self) -> str:
        return f"kept_{self.use}"

    def write(self, folder: Path) -> None:
        """The definition of `kept`."""
        package = Path(sextant.__file__).parent / "encodings"
        text = (package / f"{self.name}.mlir").read_text()
        named = {f"pos.encoding @{self.name} ": f"pos.encoding @kept_{self.name} "}
        for old, new in {**named, **self.lines}.items():
            if text.count(old) != 1:
                raise SystemExit(f"bench: {self.name}.mlir has not one line with {old!r}")
            text = text.replace(old, new)
        (folder / f"kept_{self.name}.mlir").write_text(text)


REWRITES = (
    Rewrite(
        "sines and cosines of angles are tables of the call",
        "rope",
        {
            "%pf = arith.sitofp %p : i32 to f32": "%pw = arith.sitofp %p : i32 to f32\n"
            "    %isx = arith.cmpf ord, %x, %x : f32\n"
            "    %xone = arith.select %isx, %one, %none : f32\n"
            "    %pf = arith.mulf %pw, %xone : f32"
        },
    ),
    Rewrite(
        "sums of rectified units are tables of segments",
        "fire",
        {
            "%y = arith.maximumf %z, %floor : f32": "%is = arith.cmpf ogt, %z, %floor : f32\n"
            "      %y = arith.select %is, %z, %floor : f32"
        },
    ),
    Rewrite(
        "what a network takes of offsets is a table",
        "dape(kerple_log)",
        {
            "%b = pos.host : tensor<?xf32>": ONE
            + "%all = arith.index_cast %heads : i32 to index\n"
            "    %ones = tensor.splat %jone[%all] : tensor<?xf32>\n"
            "    %host = pos.host : tensor<?xf32>\n"
            "    %b = arith.mulf %host, %ones : tensor<?xf32>"
        },
    ),
    Rewrite(
        "scans that have reached their limit exit",
        "cope",
        {
            "%limit = arith.sitofp %last : i32 to f32": "%whole = arith.sitofp %last : i32 to f32\n"
            "    %keys = pos.extent key\n"
            "    %most = arith.maxsi %last, %keys : i32\n"
            "    %mostf = arith.sitofp %most : i32 to f32\n"
            "    %limit = arith.minimumf %whole, %mostf : f32"
        },
    ),
    Rewrite(
        "sums over columns are products with rows of offsets",
        "transformer_xl(width=16)",
        {
            "%distance = arith.negf %of : f32": ONE + "%minus = arith.negf %of : f32\n"
            "    %distance = arith.mulf %minus, %jone : f32"
        },
    ),
)


class Pair:
    """Calls of a rewritten encoding and of the kept one, on the same tensors."""

    def __init__(self, rewrite: Rewrite, shape, tensors):
        self.rewrite = rewrite
        self.query, self.key, self.value, self.gradient = tensors
        params = sextant.init_params([rewrite.use], heads=shape[1], head_dim=shape[3], seed=0)
        self.params = {n: t.detach().requires_grad_() for n, t in params.items()}
        self.leaves = [self.query, self.key, self.value, *self.params.values()]

    def run(self, use: str) -> torch.Tensor:
        name = use.partition("(")[0]
        params = {name + n.removeprefix(self.rewrite.name): t for n, t in self.params.items()}
        return sextant.attention(self.query, self.key, self.value, ["causal", use], params)

    def call(self, use: str):
        return both(lambda: self.run(use), self.leaves, self.gradient)


def rewrites(settings: Settings) -> Iterator[Row]:
    """Forward and backward with the gradients of parameters."""
    shape = settings.inside
    with tempfile.TemporaryDirectory() as folder:
        path = os.environ.get("SEXTANT_PATH")
        os.environ["SEXTANT_PATH"] = folder + (os.pathsep + path if path else "")
        try:
            for rewrite in REWRITES:
                text = f"{shape} f32 causal {rewrite.use}: {rewrite.what}"
                if not settings.wants(text):
                    continue
                rewrite.write(Path(folder))
                pair = Pair(rewrite, shape, inputs(shape, torch.float32))
                candidates = {use: pair.call(use) for use in (rewrite.use, rewrite.kept)}
                rounds = Rounds(candidates, settings.few)
                yield settings.ratio(
                    "encodings with a rewrite vs without",
                    text,
                    rounds,
                    rewrite.use,
                    rewrite.kept,
                    note=f"{rounds.median(rewrite.use):.3f} s",
                )
        finally:
            if path is None:
                del os.environ["SEXTANT_PATH"]
            else:
                os.environ["SEXTANT_PATH"] = path
