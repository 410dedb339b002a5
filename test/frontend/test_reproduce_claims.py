"""Orderings of losses, decided from made-up runs of some seeds, and remarks on them."""

import pytest

from sextant import reproduce
from sextant.cli import reproduce as command
from sextant.reproduce.claims import (
    Claim,
    Loss,
    Names,
    Ordering,
    below,
    decide,
    flatter,
    grows,
    no_slower,
    stays,
    within,
)
from sextant.reproduce.engine import Reproduction
from sextant.reproduce.listing import ReproduceError
from sextant.reproduce.paper import Method, Paper, Published
from sextant.reproduce.remarks import read_remarks
from sextant.reproduce.scale import STEP_TIME

NAMES = Names({"a": "Method A", "b": "Method B"}, "{}x".format)


def verdict(claims, a, b=((1.0, 1.0, 1.0),)):
    """Of losses at 1x, 2x and 4x, of seeds 0, 1, ..."""
    runs = {
        n: {seed: dict(zip((1, 2, 4), losses)) for seed, losses in enumerate(r)}
        for n, r in zip("ab", (a, b))
    }
    return decide(Ordering("order", "An order.", claims), runs, NAMES)


def test_one_seed_decides_nothing_beyond_its_mark():
    found = verdict(below("a", "b", 1, 2), [(0.9, 0.8, 2.0)])
    assert (found.mark, found.held) == ("held (one seed)", True)
    assert found.margin.mean == pytest.approx(0.1) and found.spelled_margin == "+0.100"
    assert found.numbers == "Method A 0.900 at 1x: less than Method B 1.000 at 1x"
    found = verdict(below("a", "b", 1, 2), [(0.9, 1.3, 2.0)])
    assert found.mark == "not held (one seed)" and found.spelled_margin == "-0.300"
    assert found.numbers == "Method A 1.300 at 2x: not less than Method B 1.000 at 2x"


def test_differences_of_the_same_seed_decide():
    """However far seeds are from each other: what both methods share moves both."""
    claims = below("a", "b", 1)
    found = verdict(claims, [(1.49, 1, 1), (1.98, 1, 1)], [(1.5, 1, 1), (2.0, 1, 1)])
    assert found.mark == "held" and found.spelled_margin == "+0.015 \u00b1 0.005"
    assert found.numbers == "Method A 1.735 at 1x: less than Method B 1.750 at 1x"
    found = verdict(claims, [(1.51, 1, 1), (2.02, 1, 1)], [(1.5, 1, 1), (2.0, 1, 1)])
    assert found.mark == "not held" and found.spelled_margin == "-0.015 \u00b1 0.005"
    # The mean says so, but one seed is farther from it than that from zero.
    for sign in (1, -1):
        a = [(1 - sign * d, 1, 1) for d in (0.1, 0.1, -0.02)]
        found = verdict(claims, a, [(1.0, 1, 1)] * 3)
        assert found.mark == "below the noise of 3 seeds" and found.held is None
        assert found.spelled_margin == f"{sign * 0.06:+.3f} \u00b1 0.080"


def test_all_claims_of_an_ordering_decide():
    """One that fails is enough; what is below the noise decides where none does."""
    sure, fails = [(0.9, 1.1, 1)] * 2, [(0.9, 1.1, 1), (1.3, 1.2, 1)]
    b = [(1.0, 1.0, 1)] * 2
    assert verdict(below("a", "b", 1), fails, b).held is None
    found = verdict(below("a", "b", 1, 2), fails, b)
    assert found.mark == "not held" and found.spelled_margin == "-0.150 \u00b1 0.050"
    assert found.numbers == "Method A 1.150 at 2x: not less than Method B 1.000 at 2x"
    found = verdict(below("a", "b", 1, 4, by=-0.01), fails, b)
    assert found.mark == "below the noise of 2 seeds" and "at 1x" in found.numbers
    assert verdict(below("a", "b", 1, 4, by=-0.01), sure, b).mark == "held"


def test_seeds_that_not_all_methods_have_do_not_count():
    ordering = Ordering("order", "An order.", below("a", "b", 1))
    a, b = {0: {1: 0.9}, 2: {1: 5.0}}, {0: {1: 1.0}, 1: {1: 0.1}}
    found = decide(ordering, {"a": a, "b": b}, NAMES)
    assert found.mark == "held (one seed)" and "Method A 0.900" in found.numbers
    assert decide(ordering, {"a": a, "b": {1: {1: 0.1}}}, NAMES) is None


def test_growth_and_bounds():
    rises, falls = [(1.0, 1.2, 1.9)], [(1.0, 0.9, 0.8)]
    assert verdict(flatter("a", "b", 2, 4), falls, rises).held
    assert not verdict(flatter("b", "a", 4), falls, rises).held
    assert verdict(grows("a", 4, 0.5), rises).margin.mean == pytest.approx(0.4)
    assert not verdict(grows("a", 2, 0.5), rises).held
    assert verdict(stays("a", 2, within=0.25), rises).held
    found = verdict(stays("a", 2, 4, within=0.25), rises)
    assert found.numbers == "Method A +0.900 from 1x to 4x: not less than 0.25"
    # At most so much worse.
    assert verdict(below("a", "b", 1, by=-0.01), [(1.005, 1, 1)]).held
    assert not verdict(below("a", "b", 1, by=-0.01), [(1.02, 1, 1)]).held
    assert not verdict((Claim(Loss("a", 1), Loss("b", 1), 0.2),), [(0.9, 1, 1)]).held


def test_two_methods_that_grow_alike():
    rises, more = [(1.0, 1.2, 1.9)], [(2.0, 2.25, 2.9)]
    assert verdict(within("a", "b", 2, 0.06), rises, more).held
    assert not verdict(within("a", "b", 2, 0.04), rises, more).held
    assert not verdict(within("b", "a", 2, 0.04), rises, more).held
    assert not verdict(within("a", "b", 4, 0.04, since=2), rises, more).held


def test_times_of_steps_are_held_against_a_multiple():
    """They have no points, and no digits behind the point."""
    names = Names(NAMES.titles, NAMES.point, "ms a step", 0)
    ordering = Ordering("times", "", no_slower("a", "b", 1.5))
    found = decide(ordering, {"a": {0: {1: 149.0}}, "b": {0: {1: 100.0}}}, names)
    assert found.mark == "held (one seed)" and found.spelled_margin == "+1.000"
    assert found.numbers == "Method A 149 ms a step: less than 1.5 times Method B 100 ms a step"
    assert not decide(ordering, {"a": {0: {1: 151.0}}, "b": {0: {1: 100.0}}}, names).held


def test_an_ordering_without_its_losses_is_not_decided():
    ordering = Ordering("order", "An order.", below("a", "b", 1, 8))
    assert ordering.methods == ("a", "b") and ("b", 8) in ordering.points
    assert decide(ordering, {"a": {0: {1: 1.0, 8: 1.0}}}, NAMES) is None
    assert decide(ordering, {"a": {0: {1: 1.0, 8: 1.0}}, "b": {0: {1: 1.0}}}, NAMES) is None


def test_a_paper_speaks_of_its_methods_alone():
    def made(**changes):
        parts = dict(
            methods=(Method("a", "A"),), tables=(), orderings=(), title="", source="", about=""
        )
        return Paper(name="mine", **{**parts, **changes})

    with pytest.raises(ValueError, match='no method "b"'):
        made(orderings=(Ordering("o", "", below("a", "b", 1)),))
    with pytest.raises(ValueError, match='no method "b"'):
        made(tables=(Published("", "", ("1",), {"b": (1.0,)}),))
    with pytest.raises(ValueError, match='two methods "a"'):
        made(methods=(Method("a", "A"), Method("a", "B")))
    with pytest.raises(ValueError, match='"a" comes before "b", which it needs'):
        made(methods=(Method("a", "A", begins="b"), Method("b", "B")))


@pytest.mark.parametrize("name", reproduce.PAPERS)
def test_papers_can_be_trained(name, tmp_path):
    """Encodings and settings are right at every scale; tables and orderings are of its
    lengths."""
    pytest.importorskip("sextant._compiler")
    paper = reproduce.PAPERS[name]
    for scale in paper.scales.values():
        found = Reproduction.plan(paper, scale, tmp_path)
        assert [run.method for run in found.runs] == list(paper.methods)
        timed = [o for o in paper.orderings if o.protocol == STEP_TIME]
        assert all(p == 1 for o in timed for _, p in o.points)
        of_points = [o for o in paper.orderings if o not in timed]
        assert {p for o in of_points for _, p in o.points} <= set(scale.points)
        assert {o.protocol for o in (*of_points, *paper.tables)} <= {"", *scale.protocols}
    for table in paper.tables:
        assert all(len(row) <= len(table.columns) for row in table.rows.values())
    names = [ordering.name for ordering in paper.orderings]
    assert len(set(names)) == len(names) and paper.name == name


def test_the_command_line_names_all_papers_and_scales():
    assert sorted(command._PAPERS) == sorted(reproduce.PAPERS)
    for paper in reproduce.PAPERS.values():
        assert sorted(command._SCALES) == sorted(paper.scales)


def test_remarks(tmp_path):
    file = tmp_path / "remarks.txt"

    def read(text):
        file.write_text(text)
        return read_remarks(file, ["host", "flat"])

    text = "# of toy runs\n\nhost: too few steps:\n  400\n\nflat: the length is short\n"
    assert read(text) == {"host": "too few steps: 400", "flat": "the length is short"}
    for wrong, said in (
        ("hosts: x", ':1: no ordering or figure "hosts"; did you mean "host"'),
        ("host\n", ':1: write "NAME: remark", got "host"'),
        ("host: a\nhost: b\n", ':2: a second remark on "host"'),
        ("  goes on", ":1: goes on with a remark, but none began"),
    ):
        with pytest.raises(ReproduceError, match="remarks.txt") as error:
            read(wrong)
        assert said in str(error.value)
    with pytest.raises(ReproduceError, match="cannot read .*none.txt: No such file"):
        read_remarks(tmp_path / "none.txt", [])
