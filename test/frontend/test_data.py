"""Text, batches, blocks and settings of training."""

import pytest
import torch

from sextant.training.config import TrainConfig
from sextant.training.data import (
    DataError,
    batch_at,
    blocks,
    load_text,
    split_text,
    standard_library_files,
)


def test_default_text_is_the_standard_library(tmp_path):
    for name in ("b.py", "a.py", "pkg/c.py", "pkg/deep/d.py", "test/e.py", "site-packages/f.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = [str(f.relative_to(tmp_path)) for f in standard_library_files(tmp_path)]
    assert found == ["a.py", "b.py", "pkg/c.py"]
    text = load_text()
    assert len(text.train) > 2_000_000 and len(text.validation) == 64 * 1024


def test_split():
    raw = bytes(range(200)) * 10
    text = split_text(raw, "x")
    assert bytes(text.train[:].tolist()) == raw[:1900]
    assert bytes(text.validation.tolist()) == raw[1900:]
    with pytest.raises(DataError, match="2000 bytes, of which 1900"):
        split_text(raw, "x", minimum=101)


def test_unreadable_file_is_named(tmp_path):
    with pytest.raises(DataError, match="cannot read .*missing.txt: No such file"):
        load_text([tmp_path / "missing.txt"])


def test_batches_depend_on_seed_and_step_only(seed):
    data = torch.arange(256, dtype=torch.uint8).repeat(20)
    x, y = batch_at(data, 3, 4, 16, seed)
    again, _ = batch_at(data, 3, 4, 16, seed)
    other, _ = batch_at(data, 4, 4, 16, seed)
    assert torch.equal(x, again) and not torch.equal(x, other)
    assert torch.equal(x[:, 1:], y[:, :-1])
    assert x.shape == y.shape == (4, 16) and x.dtype == torch.int64


def test_blocks_do_not_overlap():
    data = torch.arange(10, dtype=torch.uint8)
    x, y = blocks(data, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert y.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    with pytest.raises(DataError, match="a block of 10 needs 11"):
        blocks(data, 10)


def test_rate():
    config = TrainConfig(steps=400, lr=2e-3, warmup=50, final=0.1)
    assert config.rate(0) == pytest.approx(4e-5)
    assert config.rate(49) == config.rate(50) == pytest.approx(2e-3)
    assert config.rate(400) == pytest.approx(2e-4)
    assert config.rate(225) == pytest.approx(1.1e-3)


def test_config_round_trip_and_errors():
    config = TrainConfig(encodings=("rope", "alibi"), data=("a.txt",))
    assert TrainConfig.load(config.dump()) == config
    assert config.name == "rope+alibi" and TrainConfig().name == "none"
    with pytest.raises(ValueError, match='did you mean "steps"'):
        TrainConfig.load('{"step": 3}')
    with pytest.raises(ValueError, match="not a multiple of heads 3"):
        TrainConfig(heads=3)
    with pytest.raises(ValueError, match="length must be at least 1"):
        TrainConfig(length=0)
