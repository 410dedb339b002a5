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
UNIT = 1 / 1024
# What arguments are multiplied with, r * (2 - r) from the fifth query on, so that they are exact
# and f32 puts each on the side of a knot where float64 does. At 1/2 every eighth is a multiple
# of 6 units, where knots are, at 17/16 hardly any. It is not drawn: next to 1, where that
# factor has its peak, arguments at knots differ from these by less than f32 can tell.
RATES = [0.5, 1.0625]


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


def hold(units, knots, rate, seed, *, of_past=False, dtype=torch.bfloat16, before=(), shape=SHAPE):
    encoding = ramps(units, of_past)
    case = Case(encoding, **ONE, **shape, before=before)
    inputs = make_inputs(case, seed, dtype)
    given = {"encoding.knots": torch.tensor(knots), "encoding.rate": torch.tensor(rate)}
    assert given.keys() <= inputs.params.keys()
    params = inputs.params | {name: value.double() for name, value in given.items()}
    inputs = replace(inputs, params=params)
    found = attention_contract.compare(case.uses, inputs, TARGET, dtype, case)
    assert found == {"forward", "backward"}


# At offsets of 0 to -99 and 0 to 139 arguments are -0.2 to 0.3.
AT = 24 * UNIT
KNOTS = {
    "no knot": [3.0, -3.0],
    "one knot in all": [AT, 3.0],
    "a knot between arguments": [0.0301, 3.0],
    "zero": [0.0, -0.0],
    "two knots": [AT, 2 * AT],
    "equal knots": [AT, AT],
    "knots side by side": [AT, AT * (1 + 2**-23)],
    "far and near": [-4.0, 1e-30],
}


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("knots", KNOTS.values(), ids=KNOTS)
def test_knots(knots, rate, seed):
    hold(len(knots), knots, rate, seed)


@pytest.mark.parametrize("before", [(), ("causal",)], ids=["all", "causal"])
@pytest.mark.parametrize("units", [5, 40], ids=str)
@pytest.mark.parametrize("rate", RATES, ids=str)
def test_many_knots(rate, units, before, seed):
    """Some in each tile, and at arguments of it: every eighth of these, in an order of units."""
    knots = [(n * 7 % units - units // 2) * 6 * UNIT for n in range(units)]
    hold(units, knots, rate, seed, before=before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_factors_that_hidden_keys_have_not(dtype, seed):
    """Tiles on the diagonal have no finite range; those behind it have knots."""
    knots = [0.5, 1.0, 1.0, 1.75]
    shape = dict(query=200, key=200)
    hold(4, knots, RATES[1], seed, of_past=True, dtype=dtype, before=("causal",), shape=shape)
