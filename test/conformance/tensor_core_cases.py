"""What tests of tensor cores share: shapes that leave parts of tiles, encodings that have
what no installed one has, and attention that must multiply there, in the emulator."""

import json
from unittest import mock

import torch
from attention_contract import launches_on_tensor_cores, run
from cases import compare

import sextant
from sextant import backend

TARGET = "cuda-emulated:sm_80"
# A block has room for P beside dS of rows of 128.
HOPPER = "cuda-emulated:sm_90a"
# Tiles of a forward are 128 queries by 64 keys, of a backward 32 queries by 128 keys.
SHAPES = [
    dict(query=1, key=1, label="single"),
    dict(query=1, key=65, heads=4, kv_heads=2, label="decode"),
    dict(query=63, key=63, value_dim=40, label="part-of-a-tile"),
    dict(query=65, key=129, heads=4, kv_heads=2, head_dim=24, value_dim=8, label="grouped"),
]
ONE = dict(batch=1, heads=2, kv_heads=2)
# Of a backward two chunks of keys, one of two tiles.
CHUNKS = dict(batch=8, heads=16, kv_heads=16, query=9, key=300)
# What scores, or rows behind them, ask for that tensor cores do not compute.
AS_WARPS = {
    "cope": "running sums",
    "deberta": "products with tables",
    "shaw": "weighted rows",
    "transformer_xl": "rows of offsets",
}


@sextant.encoding
def every_form(
    score,
    at,
    scale: sextant.Param("heads", init=sextant.normal(1.0, 0.2)),
    rows: sextant.Param("heads", 16, init=sextant.normal(0.0, 0.5)),
    columns: sextant.Param(16, init=sextant.normal(0.0, 0.5)),
    steps: sextant.Param("heads", 16, init=sextant.normal(0.0, 0.5)),
):
    """Trained values of a head, over queries, keys and offsets, in a score that does not
    only add them."""
    near = 1 + 0.3 * steps[at.head, at.offset % 16]
    pair = rows[at.head, at.query % 16] * columns[at.key % 16]
    return 3.0 * sextant.tanh(score * scale[at.head] / 3.0) * near + pair


@sextant.encoding
def added_forms(
    score,
    at,
    rows: sextant.Param("heads", 16, init=sextant.normal(0.0, 0.5)),
    columns: sextant.Param(16, init=sextant.normal(0.0, 0.5)),
    steps: sextant.Param("heads", 16, init=sextant.normal(0.0, 0.5)),
):
    """Likewise over queries, keys and offsets, which are only added. At a head dim of 64 two
    warps of a backward have half of a tile's queries each."""
    return score + rows[at.head, at.query % 16] + columns[at.key % 16] + steps[at.head, at.offset % 16]


@sextant.encoding
def scaled(score, at, scale: sextant.Param("heads", init=sextant.normal(1.0, 0.2))):
    """Likewise one of a head, which is not only added."""
    return score * scale[at.head]


@sextant.mask
def near_by_head(at):
    """Heads see windows of their own, so no tile is hidden from all of them."""
    return at.query - at.key < 3 + 40 * at.head


@sextant.columns("width")
def waves(
    at,
    speed: sextant.Param("width", init=sextant.normal(1.0, 0.3)),
    size: sextant.Param("heads", init=sextant.normal(1.0, 0.3)),
    *,
    width=7,
):
    """Columns of a head for queries, and of all heads for keys, with trained values."""
    i, j = at.coord("query"), at.coord("key")
    return size[at.head] * sextant.cos(i * speed[at.lane]), sextant.sin(j * speed[at.lane])


@sextant.columns("width")
def given_columns(
    at,
    a: sextant.Param("batch", "heads", "query", "width", given=True),
    b: sextant.Param("batch", "kv_heads", "key", "width", given=True),
    *,
    width=9,
):
    """Columns that the call brings, one of each element of the batch and head."""
    return a[at.batch, at.head, at.query_row, at.lane], b[at.batch, at.head, at.key, at.lane]


def launches_of(case, inputs, direction, what="bytes"):
    """Bytes of the operands of each launch of a direction, or another number, by name."""
    found = {}

    def profile(artifact, function, tensors):
        results, text = artifact.profile(function, tensors)
        if function == direction:
            launches = [e for e in json.loads(text) if e["kind"] == "launch"]
            found.update({e["name"]: e[what] for e in launches})
        return results

    with mock.patch.object(backend.Artifact, "run", profile):
        run(case.uses, inputs, TARGET)
    return found


def hold(case, seed, direction="forward", dtype=torch.bfloat16):
    """Holds all results of a case to C7, of which a direction multiplies on tensor cores."""
    assert direction in compare(case, TARGET, dtype, seed)


def run_on_tensor_cores(case, inputs):
    """All results, of products on tensor cores in both directions."""
    with launches_on_tensor_cores() as found:
        results = run(case.uses, inputs, TARGET)
    assert found == {"forward", "backward"}
    return results


def grouped(group, query, key, kv_heads=2, **rest):
    return dict(heads=group * kv_heads, kv_heads=kv_heads, query=query, key=key, **rest)
