"""Operands on several devices: an error that names the one, never memory as a result."""

import pytest

torch = pytest.importorskip("torch")
sextant = pytest.importorskip("sextant")


def attend(**changes):
    q = torch.ones(1, 2, 3, 8)
    params = {"kerple_log.r1": torch.ones(2), "kerple_log.r2": torch.ones(2)}
    given = dict(query=q, key=q, value=q, encodings=["kerple_log"], params=params, target="reference")
    given.update({k: v for k, v in changes.items() if "." not in k})
    params.update({k: v for k, v in changes.items() if "." in k})
    return sextant.attention(**given)


META = "give it values first"


@pytest.mark.parametrize(
    "label, change",
    [
        ('parameter "kerple_log.r2"', {"kerple_log.r2": torch.ones(2, device="meta")}),
        ("query_positions", {"query_positions": torch.zeros(3, dtype=torch.int32, device="meta")}),
        ("key_positions", {"key_positions": torch.zeros(3, dtype=torch.int32, device="meta")}),
        ("key", {"key": torch.ones(1, 2, 3, 8, device="meta")}),
        ("value", {"value": torch.ones(1, 2, 3, 8, device="meta")}),
    ],
)
def test_one_operand_on_the_meta_device(label, change):
    with pytest.raises(ValueError) as error:
        attend(**change)
    assert str(error.value).startswith(f"{label} is on meta, query is on cpu: {META}")


def test_all_operands_on_the_meta_device():
    """Shapes are asked for: they are given."""
    params = {f"kerple_log.r{n}": torch.ones(2, device="meta") for n in (1, 2)}
    q = torch.ones(1, 2, 3, 8, device="meta")
    result = attend(query=q, key=q, value=q, **params)
    assert result.is_meta and result.shape == (1, 2, 3, 8)


def test_row_maps():
    table = {"learned.table": torch.ones(4, 8, device="meta")}
    with pytest.raises(ValueError, match='table" is on meta, input is on cpu: ' + META):
        sextant.map_rows(torch.ones(1, 4, 8), ["learned(rows=4)"], table)
