"""TAPE: attention with a given state against plain PyTorch in float64 (tape_model.py) and
against RoPE, and the forms of that reference against each other."""

import math

import pytest
import tape_model
import torch

import sextant

TOLERANCE = {torch.float64: dict(atol=1e-10, rtol=1e-10), torch.float32: dict(atol=1e-4, rtol=1e-4)}
TIGHT = dict(atol=1e-11, rtol=1e-11)


def drawn(batch, heads, queries, keys, dim, dtype):
    q = torch.randn(batch, heads, queries, dim, dtype=dtype, requires_grad=True)
    k, v = (torch.randn(batch, heads, keys, dim, dtype=dtype, requires_grad=True) for _ in range(2))
    zr, zi = (torch.randn(batch, heads, keys, dim // 2, dtype=dtype, requires_grad=True) for _ in range(2))
    return q, k, v, zr, zi


# Batch, heads, queries, keys, head dim.
@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_outputs_and_all_gradients(target):
    """The state turns rows and is a second value, so its gradient comes from both."""
    dtype = torch.float64 if target == "reference" else torch.float32
    for shape in [(2, 3, 37, 37, 16), (1, 2, 130, 130, 16), (2, 1, 1, 1, 16), (1, 3, 5, 60, 16)]:
        tensors = drawn(*shape, dtype)
        q, k, v, zr, zi = tensors
        out, state = sextant.attention(
            q, k, (v, torch.cat([zr, zi], -1)), ["causal", "tape"], {"tape.zr": zr, "tape.zi": zi}, target=target
        )
        exact = [t.detach().double().requires_grad_() for t in tensors]
        want, y, _ = tape_model.tape(*exact[:3], torch.complex(*exact[3:]))
        torch.testing.assert_close(out.double(), want, **TOLERANCE[dtype])
        torch.testing.assert_close(state.double(), torch.cat([y.real, y.imag], -1), **TOLERANCE[dtype])
        weights = [torch.randn(t.shape, dtype=dtype) for t in (out, state)]
        ours = torch.autograd.grad([out, state], tensors, weights)
        theirs = torch.autograd.grad(
            [want, torch.cat([y.real, y.imag], -1)], exact, [w.double() for w in weights]
        )
        for mine, other in zip(ours, theirs):
            torch.testing.assert_close(mine.double(), other, **TOLERANCE[dtype])


def test_at_the_start_it_is_rope_bit_for_bit():
    q, k, v, *_ = drawn(2, 3, 70, 70, 32, torch.float32)
    z = tape_model.start(70, 32).expand(2, 3, -1, -1)
    given = {"tape.zr": z.real.float(), "tape.zi": z.imag.float()}
    assert torch.equal(
        sextant.attention(q, k, v, ["causal", "tape"], given), sextant.attention(q, k, v, ["causal", "rope"])
    )


@pytest.mark.parametrize(
    "settings", [{}, {"base": 500.0, "scaling": "linear"}, {"scaling": "ntk"}, {"scaling": "yarn", "train_length": 24}]
)
def test_it_starts_as_rope_however_that_is_scaled(settings):
    """Literals of a definition are f32 in the reference: 6e-8 of angles up to 40."""
    q, k, v, *_ = drawn(1, 2, 40, 40, 32, torch.float64)
    settings = {**settings, "factor": 4.0} if settings else {}
    z = tape_model.start(40, 32, **settings).expand(1, 2, -1, -1)
    use = f"rope({', '.join(f'{n}={v}' for n, v in settings.items())})"
    want = sextant.attention(q, k, v, ["causal", use], target="reference")
    torch.testing.assert_close(tape_model.tape(q, k, v, z)[0], want, atol=1e-5, rtol=0)


def test_a_state_of_grouped_keys_is_refused():
    q, _, _, zr, zi = drawn(1, 4, 9, 9, 8, torch.float32)
    k = v = torch.randn(1, 2, 9, 8)
    with pytest.raises(sextant.RuntimeError, match="grouped queries.*heads of query and key"):
        sextant.attention(q, k, v, ["causal", "tape"], {"tape.zr": zr, "tape.zi": zi}, enable_gqa=True)


# The reference itself ------------------------------------------------------------------

HEADS, LENGTH, DIM, LAYERS = 3, 9, 8, 4


def model():
    """Inputs of some layers and their parameters."""
    layers = []
    for _ in range(LAYERS):
        tensors = [torch.randn(2, HEADS, LENGTH, DIM, dtype=torch.float64) for _ in range(3)]
        output = torch.randn(2, LENGTH, HEADS * DIM, dtype=torch.float64)
        layers.append((tensors, output, tape_model.parameters(HEADS, HEADS * DIM, hidden=5)))
    return layers


def test_half_the_state_is_all_of_it():
    """Over several layers: the halves of the full state stay equal, and the two updates in
    one are the two updates."""
    z = tape_model.start(LENGTH, DIM).expand(2, HEADS, -1, -1)
    cos, sin = tape_model.full(z)
    for (q, k, v), output, params in model():
        out, y, _ = tape_model.tape(q, k, v, z)
        wanted, y_cos, y_sin = tape_model.tape_full(q, k, v, cos, sin)
        torch.testing.assert_close(out, wanted, **TIGHT)
        cos, sin = tape_model.layer_full(cos, sin, y_cos, y_sin, output, params)
        both = tape_model.after_both(z, y, output, params)
        z = tape_model.after_mlp(tape_model.after_attention(z, y, params["mix"]), output, params)
        torch.testing.assert_close(both, z, **TIGHT)
        for state, half in ((cos, z.real), (sin, z.imag)):
            torch.testing.assert_close(state, torch.cat([half, half], -1), **TIGHT)
    assert (z.abs() - 1).abs().max() > 0.1


def test_a_common_rotation_changes_no_score():
    layers = model()
    results = []
    for turn in (0.0, 1.3):
        z = tape_model.start(LENGTH, DIM).expand(2, HEADS, -1, -1) * complex(math.cos(turn), math.sin(turn))
        outputs = []
        for (q, k, v), output, params in layers:
            out, y, _ = tape_model.tape(q, k, v, z)
            outputs.append(out)
            z = tape_model.after_both(z, y, output, params)
        results.append(torch.stack(outputs))
    torch.testing.assert_close(*results, **TIGHT)


@pytest.mark.parametrize("equivariant", [True, False])
def test_the_papers_form(equivariant):
    """It starts as RoPE; orthogonal maps of the states' other axis, reflections among them,
    change no score, unless the mixing is not equivariant."""
    layers = model()
    params = [tape_model.paper_parameters(5, equivariant=equivariant) for _ in layers]
    z = tape_model.start(LENGTH, DIM).expand(2, HEADS, -1, -1)
    turn = torch.linalg.qr(torch.randn(2, 2, dtype=torch.float64))[0]
    results = []
    for orthogonal in (torch.eye(2, dtype=torch.float64), turn):
        e = tape_model.as_matrices(z) @ orthogonal
        outputs = []
        for ((q, k, v), *_), own in zip(layers, params):
            out, seen = tape_model.paper_attention(q, k, v, e)
            outputs.append(out)
            e = tape_model.paper_layer(e, seen, out, own, equivariant=equivariant)
        results.append(torch.stack(outputs))
    (q, k, v), *_ = layers[0]
    torch.testing.assert_close(results[0][0], tape_model.tape(q, k, v, z)[0], **TIGHT)
    difference = (results[0] - results[1]).abs().max()
    assert (difference < 1e-11) == equivariant

    e = tape_model.as_matrices(z)
    out, seen = tape_model.paper_attention(q, k, v, e)
    begins = tape_model.paper_parameters(5, drawn=False, equivariant=equivariant)
    assert torch.equal(tape_model.paper_layer(e, seen, out, begins, equivariant=equivariant), e)
