"""`sextant.attention` on bad input: every mistake is an error that names it, and
numbers that are none go where they must and no further."""

import copy
import math
import os
import pickle
from pathlib import Path

import pytest
import torch

import sextant
from sextant import CompileError

pytest.importorskip("sextant._compiler")

ENCODINGS = ["causal", "kerple_log"]


def rows(batch=2, heads=4, length=16, dim=8):
    return torch.randn(batch, heads, length, dim)


def kerple(heads=4):
    return {f"kerple_log.{n}": torch.rand(heads) + 0.5 for n in ("r1", "r2")}


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("where", ["query", "key", "value", "kerple_log.r1", "output_grad"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_reaches_what_follows_from_it(target, where, bad):
    """Of a head of a batch element, and of nothing else; with gradients."""
    tensors = {n: rows(length=40) for n in ("query", "key", "value", "output_grad")}
    params = kerple()
    wrong = tensors | params
    wrong[where].view(-1)[0] = bad
    leaves = {n: t.requires_grad_() for n, t in wrong.items() if n != "output_grad"}
    out = sextant.attention(
        tensors["query"], tensors["key"], tensors["value"], ENCODINGS, params, target=target
    )
    out.backward(tensors["output_grad"])
    touched = out[:, 0] if where.startswith("kerple") else out[0, 0]
    if where != "output_grad" and math.isnan(bad):
        assert not touched.isfinite().all()
    assert out[:, 1:].isfinite().all()
    for name, leaf in leaves.items():
        grad = leaf.grad[1:] if name in params else leaf.grad[:, 1:]
        assert grad.isfinite().all(), name


def test_nan_inputs_are_propagated():
    q, k, v = (rows() for _ in range(3))
    q[0, 0, 3, 2] = torch.nan
    out = sextant.attention(q, k, v, ["causal"])
    assert out[0, 0, 3].isnan().all()
    assert out[1].isfinite().all() and out[0, 1:].isfinite().all()


@pytest.mark.parametrize(
    "change, kind, message",
    [
        (dict(query=lambda t: t[0]), ValueError, "query must be .batch, heads"),
        (dict(value=lambda t: t[..., 0]), ValueError, "value must be .batch, heads"),
        (dict(key=lambda t: t[None]), ValueError, "key must be .batch, heads"),
        (dict(query=lambda t: t.sum()), ValueError, r"got shape \(\)"),
        (dict(query=lambda t: t.to_sparse()), TypeError, "query must be a dense tensor"),
        (dict(key=lambda t: t.to("meta")), ValueError, "key is on meta, query is on cpu"),
        (dict(value=lambda t: t[..., :0]), ValueError, "head dims must be at least 1"),
        (
            dict(key=lambda t: t[:, :0], value=lambda t: t[:, :0]),
            ValueError,
            "not a multiple of the 0",
        ),
        (dict(key=lambda t: t.double()), TypeError, "share a dtype"),
        (dict(key=lambda t: t[:1]), ValueError, "batch sizes differ: query 2, key 1"),
        (dict(key=lambda t: t[..., :3]), ValueError, "different head dims: 8 and 3"),
        (dict(key=lambda t: t[:, :3]), ValueError, "key has 3 heads, value has 4"),
        (dict(value=lambda t: t[:, :, :3]), ValueError, "value has length 3"),
        (
            dict(key=lambda t: t[:, :3], value=lambda t: t[:, :3]),
            ValueError,
            "4 heads of query are not a multiple of the 3",
        ),
    ],
)
def test_shape_errors(change, kind, message):
    tensors = {n: change.get(n, lambda t: t)(rows()) for n in ("query", "key", "value")}
    with pytest.raises(kind, match=message):
        sextant.attention(**tensors, enable_gqa=True)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_to_be_padded(layout):
    x = torch.nested.nested_tensor([torch.randn(5, 32), torch.randn(7, 32)], layout=layout)
    layer = sextant.nn.Attention(32, 4)
    cure = rf'a nested one \({layout}\): pad it with torch.nested.to_padded_tensor.*"padding"'
    for call, name in (
        (lambda: sextant.attention(x, x, x), "query"),
        (lambda: layer(x), "x"),
        (lambda: sextant.map_rows(x, ["sinusoidal"]), "input"),
    ):
        with pytest.raises(TypeError, match=f"^{name} must be a dense tensor, got {cure}"):
            call()


def test_heads_and_lengths_in_the_wrong_order_are_no_grouped_queries():
    q, k = torch.randn(2, 8, 4, 16), torch.randn(2, 2, 4, 16)  # (batch, length, heads, dim)
    with pytest.raises(ValueError, match=r"query has 8 heads and key has 2: enable_gqa=True.*"
                       r"if these are lengths, transpose\(1, 2\)"):  # fmt: skip
        sextant.attention(q, k, k)
    assert sextant.attention(q, k, k, enable_gqa=True).shape == q.shape
    with pytest.raises(TypeError, match="enable_gqa must be True or False, got 1"):
        sextant.attention(q, k, k, enable_gqa=1)


def test_an_order_of_sums_is_asked_for_or_not():
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(TypeError, match="deterministic must be True or False, got None"):
        sextant.attention(q, q, q, deterministic=None)
    with pytest.raises(TypeError, match="deterministic must be True or False, got 0"):
        sextant.nn.Attention(16, 2, deterministic=0)


@pytest.mark.parametrize("what", ["params", "query_positions", "key_positions"])
def test_operands_on_another_device(what):
    """Of which the kernel would read nothing."""
    q = rows()
    other = dict(params={"alibi.slopes": torch.ones(4)}, query_positions=torch.arange(16),
                 key_positions=torch.arange(16))  # fmt: skip
    away = {n: t.to("meta") for n, t in other["params"].items()}
    wrong = away if what == "params" else other[what].to("meta")
    label = 'parameter "alibi.slopes"' if what == "params" else what
    with pytest.raises(ValueError, match=f"{label} is on meta, query is on cpu"):
        sextant.attention(q, q, q, ["alibi"], **(other | {what: wrong}))


def test_operands_of_row_maps_on_another_device():
    x, table = torch.randn(2, 5, 8), torch.randn(1024, 8)
    with pytest.raises(ValueError, match='parameter "learned.table" is on meta, input is on cpu'):
        sextant.map_rows(x, ["learned"], {"learned.table": table.to("meta")})
    with pytest.raises(ValueError, match="positions is on meta, input is on cpu"):
        sextant.map_rows(x, ["sinusoidal"], positions=torch.arange(5).to("meta"))


def test_everything_on_the_meta_device_has_shapes_alone():
    q = rows().to("meta")
    out, lse = sextant.attention(q, q, q, ["alibi"], return_lse=True)
    assert out.device.type == "meta" and lse.shape == (2, 4, 16)


def test_axes_of_positions_are_not_made_up():
    q, flat = rows(), torch.arange(16)
    grid = torch.stack([flat // 4, flat % 4], -1)[None]
    missing = "asks for axis 1 of positions, but no positions of {} are given"
    call = lambda **given: sextant.attention(q, q, q, ["rope_2d"], **given)  # noqa: E731
    for given, side in (({}, "query"), (dict(query_positions=grid), "key")):
        with pytest.raises(CompileError, match=missing.format(side)):
            call(**given)
    with pytest.raises(CompileError, match="asks for axis 1, but the positions given have 1"):
        call(query_positions=flat, key_positions=flat)
    assert call(query_positions=grid, key_positions=grid).isfinite().all()
    on_grid, table = ["learned(grid_rows=4, grid_columns=4)"], {"learned.table": torch.randn(1024, 8)}
    with pytest.raises(CompileError, match=missing.format("rows")):
        sextant.map_rows(q[0], on_grid, table)
    with pytest.raises(ValueError, match='"rope_2d" reads positions of 2 axes'):
        sextant.models.gpt(encodings=("causal", "rope_2d"), layers=1, width=16, heads=2)


@pytest.mark.parametrize(
    "encodings, params, kind, message",
    [
        (["kerple_lag"], {}, CompileError, "nearest are 'kerple_log'"),
        (["window(sise=3)"], {}, CompileError, "size"),
        (["window(size=3"], {}, CompileError, r'expected "," or "\)"'),
        (["kerple_log"], {}, ValueError, '"kerple_log.r1" .* is trained and is missing'),
        (["prefix"], {}, ValueError, '"prefix.length" .* is given at every call'),
        (["alibi"], {"alibi.slope": 1}, ValueError, 'did you mean "alibi.slopes"'),
        (["alibi"], {"alibi.slopes": 3}, ValueError, r"must have shape \(4,\) \[heads\], got \(3,\)"),
        (["alibi"], {"alibi.slopes": "f64"}, TypeError, "must be torch.float32"),
        (["document"], {"document.ids": 4}, TypeError, "holds integers"),
        (["sinusoidal"], {}, ValueError, "sextant.map_rows"),
        (["alibi", "alibi"], {}, CompileError, "two encodings are called"),
        (["t5_bias"], {}, ValueError, "is trained and is missing"),
        (["t5_bias(buckets=0)"], {}, CompileError, "'buckets' of @t5_bias is 0, but must be at least 2"),
        (["window(size=99999999999)"], {}, CompileError, "99999999999"),
    ],
)
def test_encoding_and_param_errors(encodings, params, kind, message):
    tensors = {
        name: torch.ones(4).double() if size == "f64" else torch.ones(size)
        for name, size in params.items()
    }
    with pytest.raises(kind, match=message):
        sextant.attention(rows(), rows(), rows(), encodings, tensors)


def test_one_mistake_is_said_once():
    """Though it stands in the forward and in the backward."""
    params = sextant.init_params(
        ["cope", "talking_heads"], heads=4, head_dim=8, requires_grad=True
    )
    with pytest.raises(CompileError) as caught:
        sextant.attention(rows(), rows(), rows(), ["cope", "talking_heads"], params)
    assert caught.value.message.endswith("has no kernel beside a score of all heads")
    assert [n.message for n in caught.value.notes] == ["this score sees all heads"]
    assert caught.value.notes[0].file.endswith("talking_heads.mlir")


@pytest.mark.parametrize(
    "positions, kind, message",
    [
        (torch.arange(16.0), TypeError, "query_positions must hold integers"),
        (torch.arange(15), ValueError, r"with length 16, got \(15,\)"),
        (torch.zeros(16, 2, dtype=torch.int), ValueError, r"of 2 axes for the whole batch are query_positions\[None\]"),
        (torch.zeros(3, 16, dtype=torch.int), ValueError, "must be 1, 2 or a divisor"),
        (torch.arange(16) + 2**40, ValueError, "must fit 32 bits"),
    ],
)
def test_position_errors(positions, kind, message):
    with pytest.raises(kind, match=message):
        sextant.attention(rows(), rows(), rows(), ["alibi"], query_positions=positions)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(encodings=None), "encodings is a list, got NoneType"),
        (dict(encodings="causal"), "encodings is a list, got str"),
        (dict(encodings=torch.ones(16, 16)), "encodings is a list, got a tensor: a mask or a bias is given to"),
        (dict(encodings=[3]), "got int"),
        (dict(encodings={"causal", "alibi"}), "for its order counts, got set"),
        (dict(return_lse="no"), "return_lse must be True or False, got 'no'"),
        (dict(query_offset=1.0), "query_offset must be a whole number, got 1.0"),
        (dict(heads_total="4"), "heads_total must be a whole number, got '4'"),
        (dict(encodings=["alibi"], params=[1]), "params must map names to tensors, got list"),
        (dict(encodings=["alibi"], params={3: torch.ones(2)}), "must be strings, got 3"),
        (dict(target=3), "target must be a string, got int"),
    ],
)
def test_wrong_types(arguments, message):
    with pytest.raises(TypeError, match=message):
        sextant.attention(rows(), rows(), rows(), **arguments)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64, torch.float16])
def test_wrong_dtypes(dtype):
    with pytest.raises(TypeError, match="target cpu computes in torch.float32 and torch.bfloat16"):
        sextant.attention(*(rows().to(dtype) for _ in range(3)))


def test_other_arguments():
    with pytest.raises(TypeError, match="query must be a tensor, got ndarray"):
        sextant.attention(rows().numpy(), rows(), rows())
    with pytest.raises(TypeError, match=r'params\["alibi.slopes"\] must be a tensor'):
        sextant.attention(rows(), rows(), rows(), ["alibi"], {"alibi.slopes": 0.5})
    with pytest.raises(ValueError, match="scale must be a finite number, got nan"):
        sextant.attention(rows(), rows(), rows(), scale=math.nan)
    for wrong in ("x", True, torch.ones(2).numpy()):
        with pytest.raises(ValueError, match="scale must be a finite number, got"):
            sextant.attention(rows(), rows(), rows(), scale=wrong)
    with pytest.raises(TypeError, match=r"value\[1\] must be a tensor, got ndarray"):
        sextant.attention(rows(), rows(), [rows(), rows().numpy()])
    with pytest.raises(TypeError, match="query_positions must be a tensor, got ndarray"):
        sextant.attention(
            rows(), rows(), rows(), ["alibi"], query_positions=torch.arange(16).numpy()
        )
    for nameless in ("", " "):
        with pytest.raises(ValueError, match="an encoding has a name"):
            sextant.attention(rows(), rows(), rows(), ["causal", nameless])
    with pytest.raises(ValueError, match="a parameter of params has an empty name"):
        sextant.attention(rows(), rows(), rows(), [], {"": torch.ones(2)})


def test_target_errors():
    with pytest.raises(CompileError, match="cpu:avx2"):
        sextant.attention(rows(), rows(), rows(), target="cpu:avx1024")
    with pytest.raises(TypeError, match='target="reference" computes in float64'):
        sextant.attention(*(rows().double() for _ in range(3)))
    with pytest.raises(TypeError, match="got torch.float16"):
        sextant.attention(*(rows().half() for _ in range(3)))


def test_positions_must_be_tensors():
    q = rows()
    with pytest.raises(TypeError, match="key_positions must be a tensor, got list"):
        sextant.attention(q, q, q, ["alibi"], key_positions=[0] * 16)
    with pytest.raises(TypeError, match="positions must be a tensor, got range"):
        sextant.map_rows(q[0], ["sinusoidal"], positions=range(16))


@pytest.mark.parametrize(
    "input, arguments, kind, message",
    [
        ((5, 8), {}, ValueError, r"input must be \(batch, length, width\), got shape \(5, 8\)"),
        ((2, 5, 7), {}, CompileError, "maps pairs of lanes, got 7"),
        ((2, 5, 8), dict(of="key"), ValueError, 'unknown operand "key"'),
        ((2, 5, 8), dict(of=["key"]), TypeError, "of must be a string, got list"),
        ((2, 5, 8), dict(target=None), TypeError, "target must be a string, got NoneType"),
        ((2, 5, 8), dict(positions=torch.arange(4)), ValueError, "with length 5"),
        ((2, 5, 8), dict(params={"a.b": torch.ones(1)}), ValueError, 'a parameter "a.b"'),
        ((2, 5, 8), dict(encodings=["learned"]), ValueError, '"learned.table" .* is missing'),
    ],
)
def test_row_maps(input, arguments, kind, message):
    with pytest.raises(kind, match=message):
        sextant.map_rows(torch.randn(input), **{"encodings": ["sinusoidal"], **arguments})


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_whole_rows_are_mapped_nowhere(target):
    @sextant.rows(of="embedding", group="whole")
    def longer(x, at):
        return x * 2.0

    with pytest.raises(CompileError, match="of whole rows has no kernel on any target; maps of lanes"):
        sextant.map_rows(torch.randn(1, 3, 4), [longer], target=target)


def test_module_input():
    layer = sextant.nn.Attention(32, 4, ["causal"])
    for shape in ((3, 32), (2, 3, 31)):
        with pytest.raises(ValueError, match=r"x must be \(batch, length, 32\)"):
            layer(torch.randn(shape))
    with pytest.raises(TypeError, match="x must be a tensor, got ndarray"):
        layer(torch.randn(2, 3, 32).numpy())
    with pytest.raises(TypeError, match="params must map names to tensors, got list"):
        layer(torch.randn(2, 3, 32), given=[1])


@pytest.mark.parametrize(
    "arguments, kind, message",
    [
        (dict(width=32, heads=0), ValueError, "heads must be at least 1, got 0"),
        (dict(width=32, heads=4.0), TypeError, "heads must be a whole number, got 4.0"),
        (dict(width=32, heads=4, kv_heads=0), ValueError, "kv_heads must be at least 1"),
        (dict(width=32, heads=4, kv_heads=3), ValueError, "not a multiple of kv_heads 3"),
        (dict(width=30, heads=4), ValueError, "width 30 is not a multiple of heads 4"),
        (dict(width=32, heads=4, encodings="causal"), TypeError, "encodings is a list, got str"),
        (
            dict(width=32, heads=4, encodings=["dape(kerple_log)", "dape_kerple_log=kerple_log"]),
            ValueError,
            'has an attribute "dape_kerple_log_r1", which parameter "dape_kerple_log.r1" would be',
        ),
    ],
)
def test_arguments_of_the_module(arguments, kind, message):
    with pytest.raises(kind, match=message):
        sextant.nn.Attention(**arguments)


@pytest.mark.parametrize(
    "arguments, kind, message",
    [
        (dict(heads="4"), TypeError, "heads must be a whole number, got '4'"),
        (dict(heads=-1), ValueError, "heads must not be negative, got -1"),
        (dict(dtype=torch.int32), TypeError, "floating-point type, got torch.int32"),
        (dict(seed=1.5), TypeError, "seed must be a whole number, got 1.5"),
        (dict(seed=2**63), ValueError, "seed must fit 64 bits, got 9223372036854775808"),
    ],
)
def test_arguments_of_initial_values(arguments, kind, message):
    with pytest.raises(kind, match=message):
        sextant.init_params(["alibi"], **{"heads": 4, "head_dim": 8, **arguments})


MODEL = """
func.func @double(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = nn.add %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}
"""


@pytest.mark.parametrize(
    "inputs, kind, message",
    [
        (torch.ones(2), TypeError, "inputs must be a list of tensors .* got Tensor"),
        (None, TypeError, "got NoneType"),
        ([], ValueError, "takes 1 arguments .* got 0"),
        ([[1.0, 2.0]], TypeError, "must be a tensor, got list"),
        ({"y": torch.ones(2)}, ValueError, 'has no argument "y"'),
        ([torch.ones(3)], RuntimeError, "2"),
        ([torch.ones(2, dtype=torch.int32)], RuntimeError, "f32"),
    ],
)
def test_inputs_of_programs(inputs, kind, message):
    program = sextant.compile(MODEL)
    with pytest.raises(kind, match=message):
        program.run("double", inputs)
    with pytest.raises(TypeError, match="seed must be a whole number, got None"):
        program.init_params(seed=None)


def test_a_program_has_no_derivative_of_pytorch():
    """PyTorch's own answer is a warning and no gradient, of which nothing would be trained."""
    x = torch.ones(2, requires_grad=True)
    program = sextant.compile(MODEL)
    (out,) = program.run("double", [x])
    assert torch.equal(out, torch.full((2,), 2.0))
    with pytest.raises(NotImplementedError, match='of the program\'s function "double": run its'):
        (out.sum() + x.sum()).backward()
    with torch.no_grad():
        assert not program.run("double", [x])[0].requires_grad
    assert not program.profile("double", [x])[0][0].requires_grad


def test_files_that_have_no_end(tmp_path):
    """Nothing waits for a pipe's writer, or reads a device for ever."""
    pipe = tmp_path / "pipe.sxt"
    os.mkfifo(pipe)
    for path, what in ((pipe, "a pipe"), ("/dev/zero", "a device"), (tmp_path, "a folder")):
        with pytest.raises(OSError) as error:
            sextant.load(path)
        assert str(error.value) == f"{path} is {what}, not a file"


def test_programs_in_files(tmp_path):
    program = sextant.compile(MODEL)
    path = tmp_path / "model.sxt"
    program.save(path)
    whole = path.read_bytes()
    (got,) = sextant.load(path).run("double", [torch.ones(2)])
    assert torch.equal(got, torch.full((2,), 2.0))
    path.write_bytes(whole[:-20])
    with pytest.raises(RuntimeError, match="artifact"):
        sextant.load(path)
    with pytest.raises(FileNotFoundError):
        sextant.load(tmp_path / "none.sxt")
    with pytest.raises(OSError, match="No space left"):
        program.save("/dev/full")


@pytest.mark.parametrize("made", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_of_programs(made):
    """As an average of a model's weights makes them, and a process that is sent one."""
    (got,) = made(sextant.compile(MODEL)).run("double", [torch.ones(2)])
    assert torch.equal(got, torch.full((2,), 2.0))


@pytest.mark.parametrize("make", [sextant.compile, lambda text: sextant.emit(text, "pos")])
@pytest.mark.parametrize("text", ["model.mlir", Path("model.mlir"), b""])
def test_a_module_is_given_as_its_text(make, text):
    with pytest.raises(TypeError, match=r"a module is given as its text, got .*read_text\(\)"):
        make(text)


@pytest.mark.parametrize("text", ["", "module {}", "// nothing"])
def test_a_program_without_a_function(text):
    with pytest.raises(sextant.CompileError, match="expected a function"):
        sextant.compile(text)
