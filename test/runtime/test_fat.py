"""Programs for several targets in one file, from Python."""

import pytest
import torch

sextant = pytest.importorskip("sextant")

MODEL = """
func.func @f(%x: tensor<1x2x?x16xf32> {exec.name = "x", exec.dims = ["", "", "length", ""]})
    -> (tensor<1x2x?x16xf32> {exec.name = "output"}) {
  %o, %l = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">]
    : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, (tensor<1x2x?x16xf32>)
      -> (tensor<1x2x?x16xf32>), tensor<1x2x?xf32>
  return %o : tensor<1x2x?x16xf32>
}
"""


def test_a_program_runs_where_its_tensors_are(tmp_path):
    one = sextant.compile(MODEL, target="reference")
    both = sextant.compile(MODEL, target="cuda:sm_80,reference")
    assert both.manifest["target"] == "cuda:sm_80,reference"
    assert {o["architecture"] for o in both.manifest["objects"]} == {"x86-64", "sm_80"}
    assert both.arguments("f") == ["x"] and both.results("f") == ["output"]
    both.save(tmp_path / "both.sxt")
    loaded = sextant.load(tmp_path / "both.sxt")
    x = torch.randn(1, 2, 13, 16)
    for program in (both, loaded):
        assert torch.equal(program.run("f", [x])[0], one.run("f", [x])[0])


def test_the_first_that_fits_runs():
    """The emulated one rounds otherwise than the reference."""
    x = torch.randn(1, 2, 60, 16)
    programs = {
        target: sextant.compile(MODEL, target=target).run("f", [x])[0]
        for target in ("reference", "cuda-emulated:sm_80", "cuda-emulated:sm_80,reference")
    }
    assert torch.equal(*[programs[t] for t in programs if t.startswith("cuda")])
    assert not torch.equal(programs["reference"], programs["cuda-emulated:sm_80"])


def test_what_is_inside_is_listed():
    program = sextant.compile(MODEL, target="cuda:sm_80,cuda:sm_90a")
    with pytest.raises(sextant.RuntimeError) as error:
        program.run("f", [torch.randn(1, 2, 13, 16)])
    for part in ("'cuda:sm_80': ", "'cuda:sm_90a': ", "compile the model for this device, too"):
        assert part in str(error.value)


def test_bytes_are_read_once(tmp_path):
    """Where nothing runs on this CPU, a program is looked for at a call, when the bytes
    that were loaded may be others."""
    sextant.compile(MODEL, target="cuda:sm_80,cuda:sm_90a").save(tmp_path / "fat.sxt")
    file = bytearray((tmp_path / "fat.sxt").read_bytes())
    held = torch.frombuffer(file, dtype=torch.uint8)
    program = torch.ops.sextant.load(held)
    held.zero_()
    with pytest.raises(RuntimeError, match="compile the model for this device, too"):
        torch.ops.sextant.run(program, "f", [torch.randn(1, 2, 13, 16)])


@pytest.mark.parametrize(
    "target, message",
    [
        ("reference,reference", "the target 'reference' is given twice"),
        ("reference,soup", "unknown target 'soup'"),
        ("reference, cpu:avx2", "unknown target ' cpu:avx2'"),
    ],
)
def test_wrong_lists(target, message):
    with pytest.raises(sextant.CompileError, match=message):
        sextant.compile(MODEL, target=target)


def test_a_stage_has_one_target():
    with pytest.raises(sextant.CompileError, match="several targets make an artifact"):
        sextant.emit(MODEL, "exec", target="reference,cuda:sm_80")
