"""Small integers, in which nothing rounds: faults that hide below a tolerance.

Each query sees one key, drawn anew: its probability is 1, its log-sum-exp is the score
of exactly that pair, and no gradient mixes two keys. With integers as operands and
parameters and a scale of 1/2 all results are multiples of a power of two; the reference
says which, where its f32 and its f64 agree in every bit (an encoding with a cosine in
its score keeps its output and loses its scores). A kernel goes through base 2, which
rounds at 2^-23 of a score. A wrong index, a scale or a share of a row's sum of products
that is off by a percent moves a result by more than a thousand times that.
"""

import math

import attention_contract
import pytest
import targets
import torch
from attention_contract import Inputs
from cases import Case, make_inputs, takes_groups

import sextant
from sextant import definitions

# Indices and factors are those of the IR; machine code of the same encodings is that of
# users in test_encodings.py.
pytestmark = pytest.mark.quick_code
TOLERANCE = 2.0**-13
# 2^-23 of it is well below.
LARGEST = 2.0**8


@sextant.mask
def paired(at, partner: sextant.Param("batch", "key", integer=True, given=True)):
    return at.key == partner[at.batch, at.query]


def integers(case: Case, seed: int) -> Inputs:
    inputs = make_inputs(case, seed)
    draw = torch.Generator().manual_seed(seed)

    def whole(t: torch.Tensor, low: int = -2) -> torch.Tensor:
        return torch.randint(low, low + 5, t.shape, generator=draw).double()

    floors = {p.name: p.floor for p in definitions.signature(case.uses).params}
    frozen = {p.name for p in definitions.signature(case.uses).params if p.made}
    params = {}
    for name, t in inputs.params.items():
        if t.dtype.is_floating_point and name not in frozen:
            low = floors[name]
            t = whole(t, -2 if low is None else math.ceil(low))
        params[name] = t
    # Each query has a partner among the keys before it: an encoding may ask for that.
    last = torch.arange(case.key) + 1
    partner = (torch.rand(case.batch, case.key, generator=draw) * last).floor().int()
    params["paired.partner"] = partner
    return Inputs(
        whole(inputs.query),
        whole(inputs.key),
        [whole(inputs.values[0])],
        [whole(inputs.output_grads[0])],
        whole(inputs.lse_grad),
        params,
        inputs.positions,
        case.scale,
    )


def holds_exactly(encoding: str, target: str, dtype: torch.dtype, seed: int) -> None:
    group = 2 if takes_groups(encoding) else 1
    case = Case(encoding, batch=2, heads=2, kv_heads=2 // group, query=150, key=300,
                head_dim=16, value_dim=8, scale=0.5)  # fmt: skip
    uses = [*case.uses, paired]
    inputs = integers(case, seed)
    found = {}
    for kind in (torch.float64, torch.float32):
        given = inputs.cast(kind)
        found[kind] = attention_contract.reference_results(uses, given)
    got = attention_contract.run(uses, inputs.cast(dtype), target)
    exact = []
    # A probability from a large score is off by what base 2 rounds of it.
    lse = found[torch.float64]["lse"]
    are_small = lse[lse.isfinite()].abs().max() < LARGEST
    for name, want in found[torch.float64].items():
        if name not in ("output", "lse") and not are_small:
            continue
        stored = want.to(got[name].dtype).double()
        if not torch.equal(want, found[torch.float32][name]) or not torch.equal(want, stored):
            continue
        exact.append(name)
        mine = got[name].double()
        difference = torch.where(mine == want, 0.0, (mine - want).abs())
        wrong = ~(difference <= TOLERANCE * want.abs().clamp(min=1))
        assert not wrong.any(), (
            f"{encoding} on {target} in {dtype}: {name} at {wrong.nonzero()[0].tolist()}: "
            f"{mine[wrong][0]:.8g}, not {want[wrong][0]:.8g}; {int(wrong.sum())} of {wrong.numel()}"
        )
    print("exact:", ", ".join(exact))
    assert "output" in exact


@pytest.mark.parametrize("target", targets.CPU)
def test_small_integers(encoding, target, seed):
    holds_exactly(encoding, target, targets.DTYPES[target], seed)
