"""A training that stops in the middle: what goes on from it ends with the bits of one that
was never stopped."""

import pytest
import torch

from sextant.training import loop
from sextant.training.data import split_text


class Stopped(Exception):
    pass


def drawn_text(size=4000):
    """Random bytes."""
    return split_text(bytes(torch.randint(0, 256, (size,)).tolist()), "drawn")


def train_until(step, config, folder, *, save_every=3, **settings):
    """Trains, and stops after so many steps as a process that is killed does."""

    def stop(done):
        if done == step:
            raise Stopped

    with pytest.raises(Stopped):
        loop.train(
            config, folder, save_every=save_every, after_step=stop, progress=False, **settings
        )


def check_same_bits(straight, resumed):
    """Two models have the same parameters."""
    assert set(straight.params) == set(resumed.params)
    for name, value in straight.params.items():
        assert torch.equal(value, resumed.params[name]), name
