"""Gradients of the reference against finite differences, for every encoding.

In float64, of a sum of the results with random weights. A central difference with steps
of 1e-6 is exact to about 1e-10 of the sum where the function is smooth, so 1e-5 of the
largest derivative is far above its rounding and far below any mistake.

At a kink (a unit at 0, a clamp, a whole position) differences to the left and to the
right disagree, by more than a smooth function's do. That has to be seen before it
excuses anything, and then the derivative lies between the two.
"""

import torch
from cases import Case, make_inputs, takes_groups

import sextant
from sextant import definitions

STEP = 1e-6
TOLERANCE = 1e-5


def test_reference_matches_finite_differences(encoding, seed):
    heads = 1 if takes_groups(encoding) else 2
    case = Case(encoding, batch=1, heads=2, kv_heads=heads, query=4, key=5, head_dim=4, value_dim=3)
    inputs = make_inputs(case, seed)
    trained = [p.name for p in definitions.signature([encoding]).params if p.trained]
    leaves = {"query": inputs.query, "key": inputs.key, "value": inputs.values[0]}
    leaves |= {n: inputs.params[n] for n in trained}
    leaves = {n: t.detach().clone().requires_grad_() for n, t in leaves.items()}

    def loss():
        named = {**inputs.params, **{n: leaves[n] for n in trained}}
        rows = [leaves[n] for n in ("query", "key", "value")]
        output, lse = sextant.attention(
            *rows, case.uses, named, return_lse=True, enable_gqa=True, target="reference",
            **inputs.positions,
        )
        weighted = torch.where(lse.isfinite(), lse, 0.0) * inputs.lse_grad
        return (output * inputs.output_grads[0]).sum() + weighted.sum()

    here = loss()
    here.backward()
    here = here.item()
    largest = max(1.0, *(t.grad.abs().max().item() for t in leaves.values()))
    wrong = []
    for name, leaf in leaves.items():
        # Results with a step of one element to either side.
        elements, derivatives = leaf.data.view(-1), leaf.grad.reshape(-1).tolist()
        for place, derivative in enumerate(derivatives):
            value = elements[place].item()
            moved = []
            for step in (STEP, -STEP):
                elements[place] = value + step
                with torch.no_grad():
                    moved.append(loss().item())
            elements[place] = value
            right, left = (moved[0] - here) / STEP, (here - moved[1]) / STEP
            allowed = TOLERANCE * largest
            # Of a smooth function they differ by the step times a second derivative.
            has_kink = abs(right - left) > 1000 * STEP * largest
            low, high = (min(left, right), max(left, right)) if has_kink else [(left + right) / 2] * 2
            if not low - allowed <= derivative <= high + allowed:
                wrong.append(f"{name}[{place}]: {derivative:.8g}, differences {left:.8g} and {right:.8g}")
    assert not wrong, f"{encoding}: {len(wrong)} derivatives differ, first {wrong[:3]}"
