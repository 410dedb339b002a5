"""Functions of hinges at a product of a value over offsets and one over queries, on tensor
cores: tiles that lie on one line, that have a knot, a few and many, in both directions."""

from dataclasses import replace

import attention_contract
import pytest
import torch
from cases import Case, make_inputs
from tensor_core_cases import ONE, TARGET

import sextant

pytestmark = pytest.mark.usefixtures("drawn_threads")
SHAPE = dict(query=100, key=140)
# 1 / 1024 of an offset, or of its size, times a power of two: products are exact.
UNIT = 1 / 1024


def ramps(units, of_past):
    """A sum of so many units at a product: of a value that keeps the sign of offsets, or of one
    that has no number (NaN, and -inf) where keys are behind queries."""

    @sextant.encoding
    def encoding(
        score,
        at,
        rate: sextant.Param(init=sextant.constant_init(1.0)),
        knots: sextant.Param(units, init=sextant.uniform(-1.0, 1.0)),
        turns: sextant.Param("heads", units, init=sextant.uniform(-1.0, 1.0)),
        signs: sextant.Param(units, init=sextant.constant_init(1.0)),
    ):
        step = sextant.log(1.0 - UNIT * at.offset * 64.0) if of_past else UNIT * at.offset
        argument = (step * rate) * (2.0 - 0.25 * rate * sextant.minimum(at.query, 4))
        return score + sextant.sum(
            lambda n: turns[at.head, n] * sextant.relu(signs[n] * (argument - knots[n])), units
        )

    return encoding


def hold(units, knots, seed, *, of_past=False, dtype=torch.bfloat16, before=(), shape=SHAPE):
    encoding = ramps(units, of_past)
    case = Case(encoding, **ONE, **shape, before=before)
    inputs = make_inputs(case, seed, dtype)
    (name,) = [name for name in inputs.params if name.endswith("knots")]
    params = inputs.params | {name: torch.tensor(knots, dtype=torch.float64)}
    inputs = replace(inputs, params=params)
    found = attention_contract.compare(case.uses, inputs, TARGET, dtype, case)
    assert found == {"forward", "backward"}


# At offsets of 0 to -99 and 0 to 139 arguments are -0.2 to 0.28.
KNOTS = {
    "no knot": [3.0, -3.0],
    "one knot in all": [0.03125, 3.0],
    "a knot between arguments": [0.0301, 3.0],
    "zero": [0.0, -0.0],
    "two knots": [0.03125, 0.0625],
    "equal knots": [0.03125, 0.03125],
    "knots side by side": [0.03125, 0.03125000186264515],
    "far and near": [-4.0, 1e-30],
}


@pytest.mark.parametrize("knots", KNOTS.values(), ids=KNOTS)
def test_knots(knots, seed):
    hold(len(knots), knots, seed)


@pytest.mark.parametrize("before", [(), ("causal",)], ids=["all", "causal"])
@pytest.mark.parametrize("units", [5, 40], ids=str)
def test_many_knots(units, before, seed):
    """Some in each tile, and at arguments of it: every eighth of these, in an order of units."""
    knots = [(n * 7 % units - units // 2) * 8 * UNIT for n in range(units)]
    hold(units, knots, seed, before=before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_factors_that_hidden_keys_have_not(dtype, seed):
    """Tiles on the diagonal have no finite range; those behind it have knots."""
    knots = [0.5, 1.0, 1.0, 1.75]
    shape = dict(query=200, key=200)
    hold(4, knots, seed, of_past=True, dtype=dtype, before=("causal",), shape=shape)
