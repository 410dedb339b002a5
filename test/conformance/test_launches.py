"""Launches fit for a GPU: there are more work items where there is more work, and
launches that do not wait for each other are one."""

import json
import re
from collections import Counter

import attention_contract
import pytest
import torch
from cases import Case, make_inputs

import sextant
from sextant import backend

SHORT, LONG = 512, 2048
# Items are counted, which is the same in code that is made quickly.
pytestmark = pytest.mark.quick_code

# Launches whose items stay the same when rows become more, and why. None of them loops
# over all rows: what depends on rows is the sum, the least or the greatest of ranges,
# which are 64 at most (`countRanges`).
FIXED = {
    r"forward|main": "tiles as large as the caches of a CPU hold; those of warps grow",
    r"weights": "the matrices of a network",
    r"hinges\d+(_pullback)?|sum_hinges_\d+": "the units of a function, for each head",
    r"gradient_\d+|turn_sum\d+": "elements of a parameter, each the sum of ranges",
    r"(products|buckets)_pull_\d+_table": "rows of a table, each the sum of ranges",
    r"offset_weights_\d+": "elements of a table",
    r"bounds|spans|indices": "bounds of numbers, each of ranges",
}


def items_of(profile):
    """Name and number of items of each launch."""
    events = [e for e in json.loads(profile) if e["kind"] == "launch"]
    prefix = re.compile(r"^(attention|map_rows)(_backward)?_\d+_")
    return [(prefix.sub("", e["name"]), e["items"]) for e in events]


@pytest.fixture
def launches(monkeypatch):
    """Name and number of items of each launch, by function, in the calls of a test."""
    found = {}

    def run(artifact, function, inputs):
        results, text = artifact.profile(function, inputs)
        found[function] = items_of(text)
        return results

    monkeypatch.setattr(backend.Artifact, "run", run)
    return found


def attend(encoding, length, target="cpu:avx2", dtype=torch.float32, heads=2, **shape):
    shape.update(batch=1, heads=heads, kv_heads=heads)
    case = Case(encoding, query=length, key=length, **shape)
    inputs = make_inputs(case, 0, dtype).cast(dtype)
    attention_contract.run(case.uses, inputs, target)


def is_fixed(name):
    return any(re.fullmatch(pattern, name) for pattern in FIXED)


@pytest.mark.parametrize("positions", ["", "shared"], ids=["indices", "positions"])
def test_items_grow_with_the_length(encoding, positions, launches, monkeypatch):
    # A launch of several kernels would hide that one of them does not grow.
    monkeypatch.setenv("SEXTANT_CHECK", "launches")
    counts = []
    for length in (SHORT, LONG):
        attend(encoding, length, positions=positions)
        counts.append({f: list(found) for f, found in launches.items()})
    short, long = counts
    assert short.keys() == long.keys() == {"forward", "backward"}
    for function, found in short.items():
        names = [name for name, _ in found]
        assert names == [name for name, _ in long[function]]
        for (name, few), (_, many) in zip(found, long[function]):
            # Nothing to do is no work that should be shared out.
            if few or many:
                assert many > few or is_fixed(name), (function, name, few, many)


def test_tiles_of_warps_grow_with_the_length_or_the_heads(encoding, launches, monkeypatch):
    """Those of a CPU are as large as its caches; what a warp has near it is less. Running
    sums of a backward go along all keys of a head, whose queries they couple."""
    monkeypatch.setenv("SEXTANT_CHECK", "launches")

    def count_items(length, heads=1):
        attend(encoding, length, target="cuda-emulated:sm_80", heads=heads)
        return {n: items for found in launches.values() for n, items in found}

    few, longer = count_items(40), count_items(140)
    assert few["forward"] < longer["forward"]
    if few["main"] == longer["main"]:
        assert few["main"] < count_items(40, heads=2)["main"]


def test_fragments_grow_with_the_length_and_joins_with_the_heads(launches, monkeypatch):
    """On tensor cores; rotations besides make rows before."""
    monkeypatch.setenv("SEXTANT_CHECK", "launches")

    def count_items(query, key, heads=1, encoding="rope"):
        case = Case(encoding, batch=1, heads=heads, kv_heads=heads, query=query, key=key)
        inputs = make_inputs(case, 0, torch.bfloat16).cast(torch.bfloat16)
        attention_contract.run(case.uses, inputs, "cuda-emulated:sm_80")
        return {n: items for found in launches.values() for n, items in found}

    few, longer = count_items(40, 40), count_items(140, 140)
    assert {"forward_fragments", "backward_fragments"} < set(few)
    for name, items in few.items():
        # Nothing is joined where keys are not split.
        assert longer[name] > items or items == 0 or is_fixed(name), name
    # Few queries are split by their keys; another launch joins the parts.
    few, more = (count_items(1, 600, heads) for heads in (1, 2))
    assert 0 < few["forward_join"] < more["forward_join"]
    assert 0 < few["forward_fragments_of_few"] < more["forward_fragments_of_few"]


# A row map of rows that indices take from a table, at given positions.
GATHER = """
func.func @forward(%i: tensor<?x?xi64>, %p: tensor<?x?x1xi32>, %w: tensor<11x8xf32>)
    -> tensor<?x?x8xf32> {
  %x = nn.embedding %w, %i : (tensor<11x8xf32>, tensor<?x?xi64>) -> tensor<?x?x8xf32>
  %y = pos.map_rows %x of embedding uses [#pos.use<@sinusoidal, "waves">]
    positions(%p : tensor<?x?x1xi32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}
"""


@pytest.mark.parametrize(
    "shapes", [[(1, SHORT), (1, LONG)], [(16, 40), (64, 40)]], ids=["length", "batch"]
)
def test_items_of_a_row_map_grow_with_its_rows(shapes, monkeypatch):
    monkeypatch.setenv("SEXTANT_CHECK", "launches")
    program = sextant.compile(GATHER, target="cpu:avx2")
    counts = []
    for shape in shapes:
        index = torch.randint(11, shape)
        position = torch.arange(shape[1], dtype=torch.int32).expand(shape)[..., None]
        inputs = [index, position, torch.randn(11, 8)]
        _, text = program._loaded.profile("forward", inputs)
        counts.append(items_of(text))
    few, many = counts
    assert [n for n, _ in few] == [n for n, _ in many]
    assert "range_of_indices" in dict(few)
    for (name, less), (_, more) in zip(few, many):
        assert more > less or is_fixed(name), (name, less, more)


# Bias tables, a function that is piecewise linear, and rotations: one launch per level
# of dependence.
COUNTS = {
    "alibi": (2, 3),
    "t5_bias": (2, 5),
    "kerple_log": (2, 5),
    "fire": (2, 5),
    "rope": (2, 3),
}


# On tensor cores rows are turned before. A forward computes the angles as it turns them; a
# backward needs them again.
COUNTS_OF_TENSOR_CORES = {**COUNTS, "rope": (2, 4)}


def count(launches):
    """Those that have something to do: no others are given to a GPU."""
    return sum(1 for _, items in launches if items)


@pytest.mark.parametrize(
    "target, dtype, counts",
    [
        ("cpu:avx2", torch.float32, COUNTS),
        ("cuda-emulated:sm_80", torch.float32, COUNTS),
        ("cuda-emulated:sm_80", torch.bfloat16, COUNTS_OF_TENSOR_CORES),
    ],
    ids=["cpu", "warps", "tensor-cores"],
)
@pytest.mark.parametrize("name", COUNTS)
def test_launches_that_do_not_wait_are_one(name, target, dtype, counts, launches):
    attend(name, 40, target, dtype)
    assert (count(launches["forward"]), count(launches["backward"])) == counts[name]


def test_rows_wait_for_no_table_of_scores(launches):
    attend("alibi", 40, "cuda-emulated:sm_80", torch.bfloat16, before=("rope",))
    assert count(launches["forward"]) == 2


def count_by_kind(launched):
    """Items by the first words of names."""
    kinds = Counter()
    for name, items in launched.items():
        kinds[name.partition("_")[0]] += items
    return kinds


@pytest.mark.parametrize("target", ["cpu:avx2", "cuda-emulated:sm_80"])
@pytest.mark.parametrize("name", ["seqpe", "seqpe(form=mul)", "seqpe(form=sum)", "tape"])
def test_rows_of_tokens_are_read_and_written_in_place(name, target, launches):
    """No launch makes a table of given rows, and none leads the gradient of one back. Maps
    write gradients where they belong, with the launches of a mask; those of columns are summed
    into the parameters."""
    attend("causal", 40, target)
    without = {function: dict(found) for function, found in launches.items()}
    attend(name, 40, target)
    assert launches["forward"] == [*without["forward"].items()]
    found = {n: items for n, items in launches["backward"] if items}
    # Warps finish the gradients of keys and values, too.
    finish = {n: items for n, items in without["backward"].items() if n.startswith("finish")}
    assert len(finish) == 1 and set(without["backward"]) == {"delta", "main", *finish}
    if name == "seqpe":
        assert set(found) == {"delta", "main", "_and_".join([*finish, "sum_0", "sum_1"])}
    else:
        # Those that add to the same parameter are launched one after the other.
        assert count_by_kind(found) == count_by_kind(without["backward"])


def test_keys_are_joined_only_where_they_are_split(launches):
    # Few queries and many keys are split, and another launch joins them; of few keys, or
    # where there are as many items as fill a GPU, it has nothing to do.
    for queries, keys, launched in ((1, 600, 3), (70, 200, 2)):
        case = Case("alibi", batch=1, heads=2, kv_heads=2, query=queries, key=keys)
        inputs = make_inputs(case, 0, torch.bfloat16).cast(torch.bfloat16)
        attention_contract.run(case.uses, inputs, "cuda-emulated:sm_80")
        assert launches["forward"][-1][0] == "forward_join"
        assert count(launches["forward"]) == launched


@pytest.mark.parametrize("target", ["cpu:avx2", "reference"])
@pytest.mark.parametrize("name", ["fire", "dape", "deberta"])
def test_one_launch_computes_what_several_do(name, target, launches, monkeypatch):
    # The same instructions on the same items: the same bits.
    case = Case(name, query=70, key=90)
    inputs = make_inputs(case, 0).cast(torch.float32)
    results, numbers = [], []
    for check in ("", "launches"):
        monkeypatch.setenv("SEXTANT_CHECK", check)
        results.append(attention_contract.run(case.uses, inputs, target))
        numbers.append({f: len(found) for f, found in launches.items()})
    merged, apart = results
    assert merged.keys() == apart.keys()
    for result, tensor in merged.items():
        assert torch.equal(tensor, apart[result]), result
    assert all(numbers[0][f] <= numbers[1][f] for f in numbers[1])
    if target != "reference":
        assert numbers[0]["backward"] < numbers[1]["backward"]
