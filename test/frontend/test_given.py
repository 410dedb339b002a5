"""Tensors that encodings are given, made of a text's tokens in training and evaluation."""

import json
import re

import pytest
import torch

import sextant
from sextant.cli import main
from sextant.training import loop, runs
from sextant.training.config import TrainConfig
from sextant.training.data import split_text
from sextant.training.given import given_tensors
from sextant.training.model import Model
from sextant.training.samplers import SamplerError

TINY = dict(layers=1, width=16, heads=2, length=16, batch=2)
ANY = {"document.ids", "prefix.length", "kept.keep"}


def made(use, tokens, settings=(), seed=0, step=1):
    return given_tensors([use], settings)[0].make(ANY, tokens, seed, step)


def bytes_of(*texts):
    return torch.tensor([list(text.encode()) for text in texts])


@pytest.mark.parametrize("separator", [r"\n\n", "#", "<end>"])
def test_documents_end_with_separators(separator, seed):
    mark = separator.replace(r"\n", "\n")
    draw = torch.Generator().manual_seed(seed)
    choice = torch.randint(0, 4, (3, 60), generator=draw)
    texts = ["".join((mark, "a", "\n", "b")[c] for c in row)[:60] for row in choice.tolist()]
    tensors, counted = made("document", bytes_of(*texts), [f'document.separator="{separator}"'])
    # How often the separator ends at or before a place, with overlaps.
    starts = [[t.startswith(mark, i) for i in range(60)] for t in texts]
    want = [[sum(s[: max(i - len(mark) + 1, 0)]) for i in range(60)] for s in starts]
    assert tensors["document.ids"].tolist() == want and counted is None
    assert tensors["document.ids"].dtype == torch.int32


@pytest.mark.parametrize("separator", [r"\n\n", r"\n", r"a\n"])
def test_documents_of_texts_with_the_line_ends_of_windows(separator):
    text = "a\n\nb\na\n\n\nc\n"
    found = []
    for own in (text, text.replace("\n", "\r\n")):
        ids = made("document", bytes_of(own), [f'document.separator="{separator}"'])[0]["document.ids"][0]
        found.append([n for n, letter in zip(ids.tolist(), own) if letter != "\r"])
    assert found[0] == found[1] and found[0][-1] > 0


def test_a_text_shorter_than_the_separator_is_one_document():
    tensors, _ = made("document", bytes_of("#"), ['document.separator="##"'])
    assert tensors["document.ids"].tolist() == [[0]]


def test_documents_do_not_see_each_other(tmp_path, seed):
    """After a training, what stands in an earlier document changes no later loss, also
    where the model is read from its folder."""
    config = TrainConfig(
        encodings=("document", "alibi"), given=('document.separator="#"',), steps=3, seed=seed, **TINY
    )
    draw = torch.Generator().manual_seed(seed)
    raw = bytes(b"abc#d"[i] for i in torch.randint(0, 5, (4000,), generator=draw).tolist())
    trained = loop.train(config, tmp_path / "run", data=split_text(raw, "drawn"), progress=False)
    with runs.open_run(tmp_path / "run") as (model, _):
        assert all(torch.equal(t, model.params[n]) for n, t in trained.params.items())
        for between, is_apart in (("#", True), ("a", False)):
            tokens = bytes_of(f"bcbb{between}cbabcba", f"ccac{between}cbabcba")
            losses, counted = model.token_losses(tokens, tokens.roll(-1, 1))
            assert counted.all()
            # The last token is to predict the first, which differs.
            assert torch.equal(losses[0, 5:-1], losses[1, 5:-1]) == is_apart
    result = runs.evaluate_run(tmp_path / "run", multiples=(1, 2), last=4, progress=False)
    # Hardly trained: about the logarithm of 256.
    assert 5 < result.all_tokens[2] < 6 and result.name == "document+alibi"
    # The biases of a report are those of the others.
    assert len(result.biases) == 1


def test_a_prefix_sees_itself_and_predicts_nothing(seed):
    config = TrainConfig(mask="prefix", given=("prefix.length=5",), seed=seed, **TINY)
    assert config.name == "prefix"
    model = Model(config)
    for tensor in model.params.values():
        tensor += 0.2 * torch.rand(tensor.shape, generator=torch.Generator().manual_seed(seed))
    tokens = torch.randint(0, 256, (2, 16), generator=torch.Generator().manual_seed(seed))
    labels = tokens.roll(-1, 1)
    losses, counted = model.token_losses(tokens, labels)
    assert counted.tolist() == [[t + 1 >= 5 for t in range(16)]] * 2
    assert (losses == 0).equal(~counted)
    given = {"prefix.length": torch.tensor([5, 5], dtype=torch.int32)}
    # Another token at one place, whatever stood there.
    changed = (tokens.index_copy(1, torch.tensor([i]), (tokens[:, [i]] + 1) % 256) for i in (4, 5))
    logits = [
        model.program.run("logits", {"tokens": t, **given, **model.params})[0] for t in (tokens, *changed)
    ]
    # The last token of the prefix changes all of it; the one behind nothing before itself.
    assert ((logits[0] - logits[1]).abs().amax(-1) > 0).all()
    assert torch.equal(logits[0][:, :5], logits[2][:, :5])
    before = losses[counted].mean()
    assert model.step(tokens, labels, 1e-3) == pytest.approx(float(before), rel=1e-5)


def test_lengths_of_prefixes_are_drawn_from_all(seed):
    tokens = torch.zeros(4000, 5, dtype=torch.int64)
    lengths = made("prefix", tokens, seed=seed)[0]["prefix.length"].long()
    # 1000 each of 1 to 4, with a deviation of 27.
    assert (lengths.bincount() - torch.tensor([0, *[1000] * 4])).abs().max() < 5 * 27
    assert torch.equal(lengths, made("prefix", tokens, seed=seed)[0]["prefix.length"].long())
    assert not torch.equal(lengths, made("prefix", tokens, seed=seed, step=2)[0]["prefix.length"].long())


@pytest.mark.parametrize(
    "settings, message",
    [
        (["prefix.length=16"], "a prefix of 16 tokens leaves none to predict in a block of 16"),
        (["prefix.length=-1"], "got -1"),
        (["prefix.length=a"], "prefix.length=a: it must be a whole number"),
        (["prefix.size=1"], 'has no setting "size"'),
        (["prefx.length=1"], 'no encoding "prefx" is given tensors; did you mean "prefix"'),
    ],
)
def test_settings_that_do_not_fit(settings, message):
    with pytest.raises(SamplerError, match=re.escape(message)):
        made("prefix", torch.zeros(1, 16, dtype=torch.int64), settings)


KEPT = """
pos.encoding @kept {
  %batch = pos.extent batch
  %keys = pos.extent key
  %keep = pos.param "keep" : tensor<?x?xi32> dims(%batch, %keys)
  pos.mask {
    %b = pos.batch
    %j = pos.index key
    %v = pos.read %keep[%b, %j] : tensor<?x?xi32>
    %zero = arith.constant 0 : i32
    %visible = arith.cmpi ne, %v, %zero : i32
    pos.yield %visible : i1
  }
}
"""
SAMPLER = """
import torch
def given(tokens, options, seed, step, *, below=0.5):
    return {"keep": (tokens < 256 * below).int()}
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder of the search path with an encoding of its own, whose sampler is given."""
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "kept.mlir").write_text(KEPT)
    (folder / "sampler.py").write_text(SAMPLER)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    return folder / "sampler.py"


def test_any_encoding_may_make_its_tensors(kept):
    tokens = torch.tensor([[0, 63, 64, 255]])
    assert made("kept", tokens)[0]["kept.keep"].tolist() == [[1, 1, 1, 0]]
    assert made("kept", tokens, ["kept.below=0.25"])[0]["kept.keep"].tolist() == [[1, 1, 0, 0]]
    assert made("kept", tokens, ["kept.below=0"])[0]["kept.keep"].tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(
    "before, after, message",
    [
        (".int()", "", 'gives torch.bool for "keep", expected a tensor of torch.int32'),
        ("(tokens <", "(tokens[:1, 1:] <", 'gives shape (1, 3) for "keep", expected (2, 4)'),
        ('"keep"', '"kept"', "gives kept, expected keep"),
        ("return {", 'return {"counted": tokens < 0, ', 'gives "counted" without a token'),
        ("return {", 'return {"counted": tokens, ', 'gives torch.int64 for "counted"'),
        ("return {", 'raise ValueError("no more"); {', 'cannot make what "kept" needs: no more'),
        ("return {", "[][0]; {", 'fails for "kept": IndexError: list index out of range'),
        ("def given", "def other", '"kept" needs the tensor "kept.keep" [batch, key] of i32'),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_its_file(kept, before, after, message):
    kept.write_text(SAMPLER.replace(before, after))
    with pytest.raises(SamplerError, match=re.escape(message)) as error:
        made("kept", torch.zeros(2, 4, dtype=torch.int64))
    assert (str(kept) in str(error.value)) != (after == "def other")


def test_the_command_line_takes_settings(tmp_path, capsys):
    flags = "--mask prefix --given prefix.length=4 --length 16 --width 16 --heads 2 --layers 1"
    run = str(tmp_path / "run")
    assert main(["train", run, *flags.split(), "--steps", "2", "--batch", "2", "--quiet"]) == 0
    assert main(["eval", run, "--multiples", "1", "--quiet"]) == 0
    assert "prefix: nats per byte" in capsys.readouterr().out
    plain = stored_losses(tmp_path / "run")
    assert main(["eval", run, "--multiples", "1", "--quiet", "--given", "prefix.length=12"]) == 0
    assert "evaluated with given prefix.length=12, trained with 4" in capsys.readouterr().err
    assert stored_losses(tmp_path / "run") != plain
    assert main(["eval", run, "--multiples", "1", "--quiet", "--given", "prefix.size=12"]) == 1
    assert 'has no setting "size"' in capsys.readouterr().err


def stored_losses(folder):
    return json.loads((folder / "evaluation.json").read_text())["all_tokens"]


def test_a_mask_that_hides_no_later_token_is_refused(tmp_path, capsys):
    """It is a mask, but one between texts: the model would learn to copy."""
    run = ["train", str(tmp_path / "run"), "--mask", "none", "--encodings", "document", "--steps", "2"]
    small = ["--layers", "1", "--width", "16", "--heads", "1", "--length", "16", "--quiet"]
    assert main([*run, *small]) == 1
    error = capsys.readouterr().err
    assert "token 0 of a block sees token 15, which comes later" in error
    assert "nothing of document hides later tokens; take --mask causal" in error


def test_a_table_that_is_too_short_does_not_count_as_a_later_token(tmp_path, monkeypatch, capsys):
    """NaN is unlike itself: it was taken for a token that sees another one."""

    @sextant.encoding
    def short(score, at, bias: sextant.Param(10)):
        return score + bias[-at.offset]

    (tmp_path / "short.mlir").write_text(short.text)
    monkeypatch.setenv("SEXTANT_PATH", str(tmp_path))
    run = ["train", str(tmp_path / "run"), "--encodings", "short", "--steps", "2"]
    small = ["--layers", "1", "--width", "16", "--heads", "1", "--length", "16", "--quiet"]
    assert main([*run, *small]) == 1
    error = capsys.readouterr().err
    assert "short: before any step the loss of token 10 of a block is nan: " in error
    assert "SEXTANT_CHECK=reads" in error and "later" not in error
