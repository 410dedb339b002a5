"""What the package says about encodings: lists, parameters, errors."""

import pytest
import torch

import sextant
from sextant import CompileError, definitions

pytest.importorskip("sextant._compiler")


def test_axes_that_options_leave_unused_do_not_count():
    for use, axes in (
        ("rope", 1),
        ("rope_2d", 2),
        ("liere(axes=1)", 1),
        ("liere", 2),
        ("liere(axes=3)", 3),
        ("learned(rows=16)", 1),
        ("dape(swin(rows=2, columns=2))", 2),
    ):
        assert definitions.axes(["causal", use]) == axes, use


def test_rows_that_matrices_turn():
    @sextant.turn_rows(block="4")
    def spun(block, row, column, at):
        return row - column

    for use, turns in (("rope", False), ("liere", True), ("causal", False), (spun, True)):
        found = definitions.signature([use])
        assert found.turns_rows == turns and bool(found.operands) == (use != "causal"), use


SIZED = """
pos.encoding @sized {
  %batch = pos.option "batch" : i32 = 3 : i32
  %keys = pos.extent key
  %one = arith.constant 1 : i32
  %more = arith.addi %keys, %one : i32
  %p = pos.param "p" : tensor<?x?xf32> dims(DIMS)
  pos.score {
  ^bb0(%s: f32):
    %zero = arith.constant 0 : i32
    %v = pos.read %p[%zero, %zero] : tensor<?x?xf32>
    %t = arith.addf %s, %v : f32
    pos.yield %t : f32
  }
}
"""


def test_sizes_that_follow_the_call(tmp_path, monkeypatch):
    """One that is an extent of the call, one that is computed with it, and one that has its
    name alone."""
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    names = "heads kv_heads head_dim value_dim model query".split()
    extents = dict.fromkeys(names, 2) | {"batch": 7}
    for dims, computes, expected in (
        ("%keys, %one", False, {5: (5, 1), 6: (6, 1)}),
        ("%keys, %more", True, {5: (5, 6), 6: (6, 7)}),
        ("%batch, %one", False, {5: (3, 1), 6: (3, 1)}),
    ):
        (tmp_path / "sized.mlir").write_text(SIZED.replace("DIMS", dims))
        found = definitions.signature(["sized"])
        assert found.computes_with_call == computes, dims
        for keys, shape in expected.items():
            sizes = definitions.shapes(found, extents | {"key": keys})
            assert sizes == {"sized.p": shape}, dims


SHARES = """
pos.encoding @shares {
  %heads = pos.extent heads
  %extent = pos.extent EXTENT
  %c = pos.param "c" : tensor<?xf32> dims(%heads) frozen by {
  ^bb0(%h: i32):
    %n = arith.sitofp %extent : i32 to f32
    pos.yield %n : f32
  }
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    %n = pos.read %c[%h] : tensor<?xf32>
    %t = arith.mulf %s, %n : f32
    pos.yield %t : f32
  }
}
"""


def test_frozen_values_that_follow_the_call(tmp_path, monkeypatch):
    """Their shape is the same at every length."""
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    for extent, axis in (("key", 2), ("head_dim", 3)):
        (tmp_path / "shares.mlir").write_text(SHARES.replace("EXTENT", extent))
        (param,) = definitions.signature(["shares"]).params
        assert param.starts_with_call == (extent == "key")
        for length in (5, 9, 5):
            q = torch.randn(1, 2, length, 8)
            got = sextant.attention(q, q, q, ["shares"], target="reference")
            want = sextant.attention(q, q, q, scale=q.shape[axis] / 8**0.5, target="reference")
            torch.testing.assert_close(got, want)


def test_parameters_of_the_length_of_a_call(tmp_path, monkeypatch):
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    (tmp_path / "shares.mlir").write_text(SHARES.replace("EXTENT", "key"))

    @sextant.encoding
    def table(score, at, bias: sextant.Param("heads", "key + 1")):
        return score + bias[at.head, at.key]

    sizes = {"heads": 2, "head_dim": 8}
    said = r'"table.bias" \[heads, key \+ 1\] .* length of a call, which is not given'
    with pytest.raises(ValueError, match=said):
        sextant.init_params([table], **sizes)
    with pytest.raises(ValueError, match=said):
        sextant.nn.Attention(16, 2, ["causal", table])
    with pytest.raises(ValueError, match='"shares.c"'):
        sextant.init_params(["shares"], frozen=True, **sizes)
    made = sextant.init_params([table, "shares"], length=5, frozen=True, **sizes)
    assert made["table.bias"].shape == (2, 6) and made["shares.c"].tolist() == [5.0, 5.0]


def test_every_encoding_says_what_it_is():
    found = {e.name: e for e in sextant.encodings()}
    assert {"causal", "alibi", "kerple_log", "rope", "t5_bias"} <= set(found)
    for encoding in found.values():
        assert encoding.formula and encoding.paper and encoding.places
        assert encoding.name in str(encoding)
    rope = found["rope"]
    assert rope.places == ("rows of query, key",)
    pairing = next(o for o in rope.options if o.name == "pairing")
    assert pairing.default == "half" and pairing.choices == ("half", "interleaved")
    r1 = found["kerple_log"].parameters[0]
    assert (r1.name, r1.dims, r1.trained, r1.init) == ("r1", ("heads",), True, "uniform(0, 2)")
    slopes = found["alibi"].parameters[0]
    assert slopes.made and not slopes.trained


def test_descriptions_read_as_they_are_written():
    text = str(sextant.describe("dape"))
    assert "option slope = 0.01\n" in text
    assert "w1 [hidden, heads or heads * 2] f32, trained, starts as uniform(" in text
    assert "b2 [heads] f32, trained, starts as uniform(-1 / sqrt(hidden), 1 / sqrt(hidden))" in text
    text = str(sextant.describe("t5_bias"))
    assert "option bidirectional = false" in text
    assert "option buckets = 32, at least 2 and at most 65536\n" in text
    assert "thresholds [(buckets // 2 or buckets) - (buckets // 2 or buckets) // 2]" in text
    assert "starts as normal(0, 1 / sqrt(model)), one for all layers" in text
    assert "liere.mlir" in sextant.describe("liere").file
    assert "head_dim // (head_dim or block)" in str(sextant.describe("liere"))
    text = str(sextant.describe("forgetting"))
    assert "gate [batch, heads, key] f32, given at every call, with a gradient, or made by" in text
    assert "function produce(input, weight, bias) -> gate\n" in text
    assert "bias [heads] f32, trained, starts as uniform(-1 / sqrt(model), 1 / sqrt(model)), of a model" in text
    assert "r2 [heads] f32, trained, starts as uniform(0, 2), at least 0.01, at most 2" in str(
        sextant.describe("kerple_power")
    )
    for encoding in sextant.encodings():
        assert "..." not in str(encoding)


def test_slopes_of_alibi():
    made = sextant.init_params(["alibi"], heads=12, head_dim=64, frozen=True)
    want = [2.0**-e for e in range(1, 9)] + [2.0 ** -(e + 0.5) for e in range(4)]
    assert torch.allclose(made["alibi.slopes"], torch.tensor(want))
    assert sextant.init_params(["alibi"], heads=12, head_dim=64) == {}


def test_initial_values_depend_on_seed_and_name_only():
    one = sextant.init_params(["kerple_log"], heads=8, head_dim=16, seed=3)
    two = sextant.init_params(["alibi", "kerple_log"], heads=8, head_dim=16, seed=3)
    other = sextant.init_params(["kerple_log"], heads=8, head_dim=16, seed=4)
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name])
        assert not torch.equal(tensor, other[name])
    r1 = one["kerple_log.r1"]
    assert 0.01 <= r1.min() and r1.max() < 2 and r1.dtype == torch.float32


def test_projection_applies_floors():
    params = {"kerple_log.r1": torch.tensor([-1.0, 0.5]), "other": torch.tensor([-1.0])}
    sextant.project_(params, ["kerple_log"])
    assert params["kerple_log.r1"].tolist() == [pytest.approx(0.01), 0.5]
    assert params["other"].item() == -1


def test_a_users_file_is_found_without_rebuilding(tmp_path, monkeypatch):
    text = sextant.describe("causal")
    (tmp_path / "nearby.mlir").write_text(
        """pos.encoding @nearby attributes {formula = "j > i - 3"} {
  pos.mask {
    %o = pos.offset
    %c = arith.constant -3 : i32
    %v = arith.cmpi sgt, %o, %c : i32
    pos.yield %v : i1
  }
}
"""
    )
    place = r"its file would be nearby\.mlir in a folder of SEXTANT_PATH"
    with pytest.raises(CompileError, match=f"unknown encoding @nearby;.*; {place}$"):
        sextant.describe("nearby")
    monkeypatch.setenv("SEXTANT_PATH", f"{tmp_path}/no:{tmp_path / 'nearby.mlir'}:{tmp_path}/not")
    several = f"'{tmp_path}/no', '{tmp_path}/nearby.mlir', '{tmp_path}/not' on the search path are no folders"
    with pytest.raises(CompileError, match=f"{place}; {several}$"):
        sextant.describe("nearby")
    monkeypatch.setenv("SEXTANT_PATH", f"{tmp_path}/no:{tmp_path}")
    with pytest.raises(CompileError, match=f"; '{tmp_path}/no' on the search path is no folder$"):
        sextant.describe("near")
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    assert sextant.describe("nearby").formula == "j > i - 3"
    assert "nearby" in [e.name for e in sextant.encodings()]
    assert sextant.describe("causal") == text
    user = tmp_path / "data" / "sextant" / "encodings"
    user.mkdir(parents=True)
    (user / "mine.mlir").write_text((tmp_path / "nearby.mlir").read_text().replace("@nearby", "@mine"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert sextant.describe("mine").file == str(user / "mine.mlir")


def test_a_user_without_a_home(monkeypatch):
    """As whom containers run: there is no folder of the user's own encodings."""
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    q = torch.randn(1, 1, 3, 4)
    assert sextant.attention(q, q, q, ["causal", "alibi"]).shape == q.shape
    assert "alibi" in [e.name for e in sextant.encodings()]


def test_one_wrong_file_is_left_out(tmp_path, monkeypatch):
    """With a warning that names it; where it is used, that is an error. A model is none."""
    (tmp_path / "broken.mlir").write_text("pos.encoding @broken { nonsense }")
    (tmp_path / "model.mlir").write_text("func.func @forward() { return }")
    names = [e.name for e in sextant.encodings()]
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    with pytest.warns(UserWarning, match=r'"broken" is left out: .*broken\.mlir:1:') as said:
        assert [e.name for e in sextant.encodings()] == names
    assert len(said) == 1
    with pytest.raises(CompileError, match=r"broken\.mlir:1:"):
        sextant.init_params(["broken"], heads=2, head_dim=16)


def test_sizes_of_dims_are_spelled_as_they_were_written(tmp_path, monkeypatch):
    @sextant.mask
    def sized(
        at,
        table: sextant.Param("2 * reach + 1", "head_dim // size", "heads * (reach - 1)"),
        other: sextant.Param("2 * (head_dim // size)", "(model + 1) // size"),
        *,
        reach=4,
        size=8,
    ):
        return at.key < 3

    (tmp_path / "sized.mlir").write_text(sized.text)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    table, other = sextant.describe("sized").parameters
    assert table.dims == ("2 * reach + 1", "head_dim // size", "heads * (reach - 1)")
    assert other.dims == ("2 * (head_dim // size)", "(model + 1) // size")


def test_errors_in_a_users_file_point_at_line_and_column(tmp_path, monkeypatch):
    (tmp_path / "broken.mlir").write_text(
        "pos.encoding @broken {\n  pos.mask {\n    %o = pos.offset\n"
        "    %v = arith.cmpi what, %o, %o : i32\n    pos.yield %v : i1\n  }\n}\n"
    )
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    with pytest.raises(CompileError) as info:
        sextant.describe("broken")
    assert info.value.file == str(tmp_path / "broken.mlir")
    assert info.value.line == 4 and info.value.column > 0


def test_a_byte_order_mark_is_named(tmp_path, monkeypatch):
    text = sextant.definitions.text_of("alibi").replace("@alibi", "@marked")
    (tmp_path / "marked.mlir").write_text(text, encoding="utf-8-sig")
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    with pytest.raises(CompileError, match="marked.mlir:1:1: the text begins with a byte order mark"):
        sextant.describe("marked")
    with pytest.raises(CompileError, match="<text>:1:1: the text begins with a byte order mark"):
        sextant.compile("\ufeff" + sextant.models.gpt(layers=1, width=16, heads=2))


@pytest.mark.parametrize(
    "use, message",
    [
        ("cusal", "nearest are 'causal'"),
        ("kerple", "nearest are 'kerple_log', 'kerple_power', 'kerple_multiplicative'"),
        ("rope(bse=3)", "base"),
        ("rope(pairing=halv)", "'half'"),
        ("rope(lanes=wide)", "lanes"),
    ],
)
def test_unknown_names_list_the_nearest(use, message):
    with pytest.raises(CompileError, match=message):
        sextant.init_params([use], heads=2, head_dim=4)


def test_lists_are_lists():
    with pytest.raises(TypeError, match=r"write \[causal\]"):
        sextant.init_params("causal", heads=2, head_dim=4)
    with pytest.raises(TypeError, match="got int"):
        sextant.init_params([3], heads=2, head_dim=4)
