"""Tables that functions of encodings make of positions alone, in files, and evaluations that
take them."""

import shlex

import pytest
import torch
from safetensors.torch import load_file

from sextant.cli import main
from sextant.training import loop, runs
from sextant.training.config import TrainConfig
from sextant.training.data import split_text
from sextant.training.tables import TablesError, read_tables

# A bias per key and head, read from a table at the position. LENGTH makes %x_used of %x.
PLACED = """
pos.encoding @placed {
  %option.layers = pos.option "layers" : i32 = "all" of ["all", "first"]
  %one = arith.constant 1 : i32
  pos.require %option.layers at_most %one, "layers is all or first"
  %batch = pos.extent batch
  %heads = pos.extent heads
  %keys = pos.extent key
  %rows = arith.constant 64 : i32
  %nil = arith.constant 0.0 : f32
  %deviation = arith.constant 1.0 : f32
  %bias = pos.param "bias" : tensor<?x?x?xf32> dims(%batch, %heads, %keys)
  %table = pos.param "table" : tensor<?x?xf32> dims(%rows, %heads) init normal(%nil, %deviation) SCOPE
  pos.score {
  ^bb0(%s: f32):
    %b = pos.batch
    %h = pos.head
    %k = pos.index key
    %g = pos.read %bias[%b, %h, %k] : tensor<?x?x?xf32>
    %t = arith.addf %s, %g : f32
    pos.yield %t : f32
  }
  func.func @initial_state(%at: tensor<?x?x?xi32> {pos.role = "positions"})
      -> (tensor<?x?xi32> {pos.role = "numbers"}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %b = tensor.dim %at, %c0 : tensor<?x?x?xi32>
    %l = tensor.dim %at, %c1 : tensor<?x?x?xi32>
    %n = nn.reshape %at sizes(%b, %l) : tensor<?x?x?xi32> -> tensor<?x?xi32>
    return %n : tensor<?x?xi32>
  }
  func.func @produce(%n: tensor<?x?xi32> {pos.role = "numbers"},
                     %w: tensor<?x?xf32> {pos.role = "table"})
      -> (tensor<?x?x?xf32> {pos.role = "bias"}) {
    %x = nn.embedding %w, %n : (tensor<?x?xf32>, tensor<?x?xi32>) -> tensor<?x?x?xf32>
    LENGTH
    %y = nn.transpose %x_used 1, 2 : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
}
"""
KEPT = "%x_used = nn.add %x, %x : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>"
SUMMED = """%s = nn.sum %x over [0, 1, 2] : (tensor<?x?x?xf32>) -> tensor<f32>
    %x_used = nn.mul %x, %s : (tensor<?x?x?xf32>, tensor<f32>) -> tensor<?x?x?xf32>"""
TINY = dict(layers=2, width=16, heads=2, length=8, batch=2, steps=2)


def definition(name, scope, body=KEPT):
    text = PLACED.replace("@placed", f"@{name}").replace("SCOPE", scope)
    return text.replace("LENGTH", body)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs with a table for each layer, one for all, and both in the first layer only."""
    root = tmp_path_factory.mktemp("tables")
    (root / "placed.mlir").write_text(definition("placed", ""))
    (root / "shared.mlir").write_text(definition("shared", "scope model"))
    (root / "summed.mlir").write_text(definition("summed", "", SUMMED))
    draw = torch.Generator().manual_seed(1)
    text = split_text(bytes(torch.randint(0, 9, (4000,), generator=draw).tolist()), "drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEXTANT_PATH", str(root))
        for folder, uses in {
            "both": ("placed", "shared"),
            "first": ("placed(layers=first)",),
            "summed": ("summed",),
            "none": ("alibi",),
            "multi": ("seqpe(projection=multi, digits=2, alpha=0.0, beta=0.0)",),
        }.items():
            config = TrainConfig(encodings=uses, lr=0.1, warmup=1, **TINY)
            loop.train(config, root / folder, data=text, progress=False)
        yield root


def losses(folder, **settings):
    found = runs.evaluate_run(folder, multiples=(1, 4), last=4, progress=False, **settings)
    return found.all_tokens, found.last_tokens


def test_an_evaluation_takes_tables(trained, tmp_path, capsys):
    """Of each layer, or of all; the losses are those of one that makes them."""
    run, file = str(trained / "both"), tmp_path / "t.safetensors"
    assert main(["tables", run, "--length", "40", "-o", str(file)]) == 0
    assert f"tables: {file}" in capsys.readouterr().out
    tables = load_file(file)
    assert {n: tuple(t.shape) for n, t in tables.items()} == {
        "attention.shared.bias": (1, 2, 40),
        "layers.0.attention.placed.bias": (1, 2, 40),
        "layers.1.attention.placed.bias": (1, 2, 40),
    }
    with runs.open_run(run) as (model, _):
        for name, found in tables.items():
            own = model.params[name.replace("bias", "table")]
            assert torch.equal(found[0], 2 * own[:40].T)
    assert losses(run) == losses(run, tables=file)


def test_layers_project_embeddings_each_for_itself(trained, tmp_path, capsys):
    """SeqPE with a projection per layer: its encoder runs once, and every layer has rows."""
    run, file = str(trained / "multi"), tmp_path / "t.safetensors"
    assert main(["tables", run, "--length", "40", "-o", str(file)]) == 0
    tables = load_file(file)
    rows = {(i, n): tables.pop(f"layers.{i}.attention.seqpe.{n}") for i in (0, 1) for n in ("eq", "ek")}
    assert not tables and all(t.shape == (1, 2, 40, 8) and t.any() for t in rows.values())
    assert not torch.equal(rows[0, "eq"], rows[1, "eq"])
    assert losses(run) == losses(run, tables=file)


def test_evaluations_read_the_file(trained, tmp_path):
    """Other rows are other losses."""
    run, file = trained / "first", tmp_path / "t.safetensors"
    runs.write_run_tables(run, 32, file)
    assert set(load_file(file)) == {"layers.0.attention.placed.bias"}
    with runs.open_run(run) as (model, opened):
        tables = read_tables(file, opened, 32)
        tokens, labels = torch.randint(0, 9, (2, 2, 32))
        made = model.token_losses(tokens, labels)[0]
        model.take_tables(tables.rows)
        taken = model.token_losses(tokens, labels)[0]
        model.take_tables(lambda length: {n: -t for n, t in tables.rows(length).items()})
        other = model.token_losses(tokens, labels)[0]
    assert torch.equal(made, taken) and not torch.equal(made, other)
    assert model.evaluator.functions == ["token_losses", "logits"]


@pytest.mark.parametrize(
    "run, length, message",
    [
        ("none", 32, "there are no tables of causal+alibi: no function of an encoding makes"),
        ("summed", 32, 'rows of "layers.0.attention.summed.bias" depend on the length'),
        ("both", 1, "tables have at least 2 rows, got 1"),
        ("nowhere", 32, "cannot read checkpoint"),
    ],
)
def test_what_makes_no_tables_is_an_error(trained, tmp_path, capsys, run, length, message):
    file = tmp_path / "t.safetensors"
    flags = ["--length", str(length), "-o", str(file)]
    assert main(["tables", str(trained / run), *flags]) == 1
    assert message in capsys.readouterr().err and not file.exists()


def test_the_evaluation_that_is_named_takes_the_tables(trained, tmp_path, capsys):
    """Of the length that they have: the lengths of any evaluation may be more."""
    run, file = str(trained / "both"), tmp_path / "some tables"
    assert main(["tables", run, "--length", "12", "-o", str(file)]) == 0
    sextant, *words = shlex.split(capsys.readouterr().out.partition("evaluate with: ")[2])
    assert sextant == "sextant" and main([*words, "--quiet"]) == 0
    assert "all tokens: 1.5x (12) " in capsys.readouterr().out


def test_tables_replace_no_file_of_the_run(trained, tmp_path, monkeypatch, capsys):
    run = trained / "both"
    checkpoint = run / "checkpoint.safetensors"
    before = checkpoint.read_bytes()
    (tmp_path / "link").symlink_to(checkpoint)
    monkeypatch.chdir(run)
    for name in ("checkpoint.safetensors", str(checkpoint), str(tmp_path / "link"), "log.jsonl"):
        assert main(["tables", str(run), "--length", "12", "-o", name]) == 1
        assert f"{name} is a file of the run: name another one" in capsys.readouterr().err
    assert main(["tables", str(checkpoint), "--length", "12"]) == 1
    assert f"is a file: name the folder of the run, {run}" in capsys.readouterr().err
    assert checkpoint.read_bytes() == before


def test_tables_that_do_not_fit_are_refused(trained, tmp_path):
    file = runs.write_run_tables(trained / "both", 16, tmp_path / "t.safetensors")
    with pytest.raises(TablesError, match="tables of length 16, blocks of 32 tokens need more"):
        losses(trained / "both", tables=file)
    with pytest.raises(TablesError, match="tables of another run than .*first"):
        losses(trained / "first", tables=file)
    with pytest.raises(TablesError, match="take one of --tables and --set"):
        losses(trained / "both", tables=file, settings=["placed.layers=first"])
    with pytest.raises(TablesError, match="is not a file of tables of this version: expected format"):
        losses(trained / "both", tables=trained / "both" / "checkpoint.safetensors")
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(TablesError, match="is damaged: its checksum is wrong"):
        losses(trained / "both", tables=file)
    file.write_bytes(damaged[:-5])
    with pytest.raises(TablesError, match="is damaged"):
        losses(trained / "both", tables=file)
    with pytest.raises(TablesError, match="cannot read"):
        losses(trained / "both", tables=tmp_path / "none")
