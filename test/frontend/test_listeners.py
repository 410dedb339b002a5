"""A call that nobody but autograd hears of goes around PyTorch's dispatcher; everybody else who
listens hears of it, and what autograd keeps is what it keeps of PyTorch's own operators."""

from typing import ClassVar

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import sextant
from sextant import listeners

USES = ["causal", "alibi"]


def attend(*rows):
    return sextant.attention(*rows, USES)


def rows(count=3, **options):
    return [torch.randn(1, 2, 5, 8, **options) for _ in range(count)]


def is_unheard(*tensors):
    return listeners.unheard(list(tensors)) is not None


class _Functions(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        self.names.append(str(function))
        return function(*arguments, **(keywords or {}))


class _Dispatched(TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.names.append(str(function))
        return function(*arguments, **(keywords or {}))


class _Tensor(torch.Tensor):
    names: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        cls.names.append(str(function))
        return super().__torch_function__(function, types, arguments, keywords or {})


@pytest.mark.parametrize("mode", [_Functions, _Dispatched])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_modes_hear_of_a_call(mode, requires_grad):
    given = rows(requires_grad=requires_grad)
    want = attend(*given)
    with mode() as heard:
        got = attend(*given)
    assert "sextant.attention.default" in heard.names
    assert torch.equal(got, want)


def test_tensors_of_a_subclass_hear_of_a_call():
    given = rows()
    want = attend(*given)
    _Tensor.names.clear()
    attend(given[0].as_subclass(_Tensor), *given[1:])
    assert "sextant.attention.default" in _Tensor.names
    got = attend(given[0].as_subclass(_Tensor), *given[1:])
    assert torch.equal(got.as_subclass(torch.Tensor), want)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit")
def test_a_profiler_and_tracers_hear_of_a_call():
    given = rows()
    with torch.profiler.profile() as profile:
        attend(*given)
    assert "sextant::attention" in {event.key for event in profile.key_averages()}
    graph = make_fx(attend)(*given)
    assert torch.ops.sextant.attention.default in {node.target for node in graph.graph.nodes}
    traced = torch.jit.trace(attend, tuple(given), check_trace=False)
    assert "sextant::attention" in str(traced.inlined_graph)


def test_who_listens():
    q = rows(1)[0]
    assert is_unheard(q, torch.nn.Parameter(q)) and is_unheard(q.transpose(1, 2)[:, ::2])
    for other in (q.to("meta"), q.to_sparse(), q.as_subclass(_Tensor), None, 1.0):
        assert not is_unheard(q, other), other
    listening = (
        lambda: torch.autocast("cpu", torch.bfloat16),
        torch.autograd.forward_ad.dual_level,
        torch._C._AutoDispatchBelowAutograd,
        torch.profiler.profile,
        lambda: torch.device("cpu"),
        _Functions,
        _Dispatched,
    )
    for make in listening:
        with make():
            assert not is_unheard(q), make
        assert is_unheard(q), make
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            assert is_unheard(q, q + 1), context


def test_a_negated_view_is_no_plain_tensor():
    q = rows(1)[0]
    negated = torch.complex(q, q).conj().imag
    assert negated.is_neg() and not is_unheard(negated)
    assert torch.equal(attend(negated, q, q), attend(-q, q, q))


def test_batches_and_levels_of_transforms_listen():
    heard = []

    def look(tensor):
        heard.append(is_unheard(tensor))
        return tensor

    q = rows(1)[0]
    torch.func.vmap(look)(q)
    torch.func.grad(lambda t: look(t).sum())(q)
    torch._vmap_internals._vmap(look)(q)
    assert heard == [False] * 3


def test_a_call_below_autograd_is_not_recorded():
    """As of an operator whose kernel calls an attention."""
    given = rows(requires_grad=True)
    with torch._C._AutoDispatchBelowAutograd():
        assert not attend(*given).requires_grad
    assert attend(*given).requires_grad


def test_what_autograd_keeps_is_its_own():
    """Hooks of saved tensors see all of them; one that has changed is an error."""
    given = rows(requires_grad=True)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        attend(*given).sum().backward()
    kept = {t.data_ptr() for t in packed}
    assert {t.data_ptr() for t in given} <= kept
    out = attend(*given)
    with torch.no_grad():
        given[1].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_both_ways_give_the_same_gradients(monkeypatch):
    """Of a list of values, positions, and parameters that are trained, of bf16, held fixed, and
    frozen: the last have no gradient, though autograd asks."""
    uses = ["causal", "kerple_log", "alibi", "t5_bias"]
    params = sextant.init_params(uses, heads=2, head_dim=8, frozen=True)
    params["kerple_log.r1"] = params["kerple_log.r1"].bfloat16()
    params = {n: p.clone().requires_grad_(n != "t5_bias.table") for n, p in params.items()}
    trained = [p for p in params.values() if p.requires_grad]
    q, k, *values = rows(4, requires_grad=True)
    positions = torch.arange(5)
    seeds = [*rows(2), torch.randn(1, 2, 5)]

    def gradients():
        outputs, lse = sextant.attention(
            q, k, values, uses, params, query_positions=positions, key_positions=positions,
            return_lse=True,
        )  # fmt: skip
        asked = (q, k, *values, *trained)
        return torch.autograd.grad((*outputs, lse), asked, seeds, allow_unused=True)

    found = gradients()
    missing = [name for p, g in zip(trained, found[4:]) if g is None
               for name, each in params.items() if each is p]  # fmt: skip
    assert missing == ["alibi.slopes", "t5_bias.thresholds"]
    monkeypatch.setattr(listeners, "_unchanged", frozenset)  # everybody listens
    assert not is_unheard(q)
    for one, other in zip(found, gradients(), strict=True):
        assert (one is None) == (other is None)
        assert one is None or (one.dtype == other.dtype and torch.equal(one, other))


def test_keys_of_plain_tensors():
    """Those of a GPU are put together as those of a CPU, which are seen to be right."""
    found = {torch._C._dispatch_keys(torch.empty(1)).raw_repr()}
    with torch.inference_mode():
        found.add(torch._C._dispatch_keys(torch.empty(1)).raw_repr())
    assert len(found) == 2 and found < listeners._PLAIN and len(listeners._PLAIN) == 4
