"""Methods of real papers, trained for four steps of tiny models, through table and page."""

import pytest

pytest.importorskip("sextant._compiler")
torch = pytest.importorskip("torch")

from test_image_runs import images_of

from sextant import reproduce
from sextant.reproduce.engine import Reproduction
from sextant.reproduce.listing import plan_runs
from sextant.reproduce.tables import NOT_RUN
from sextant.training.data import split_text
from sextant.training.kinds import kind_of


def data_of(scale):
    """Of the kind that a scale trains on, as little as it takes."""
    if "size" in scale.settings:
        return images_of(count=8, size=scale.settings["size"])
    raw = b"The quick brown fox jumps over the lazy dog. " * 60
    return split_text(raw, "a fox", validation=scale.validation)


@pytest.mark.parametrize(
    "name, methods, drawn",
    [("seqpe", ("none", "seqpe_none"), "products of rows, without losses"),
     ("seqpe_images", ("learned", "mul"), ""),
     ("dape", ("cope", "transformer_xl"), ""),
     ("tape", ("randpe", "xpos"), "")],
    ids=["seqpe", "seqpe_images", "dape", "tape"],
)  # fmt: skip
def test_two_methods_of_a_paper(name, methods, drawn, tmp_path, monkeypatch):
    paper = reproduce.PAPERS[name]
    scale = paper.scales["tiny"]
    config = plan_runs(paper, scale, tmp_path, data={})[0].config
    monkeypatch.setattr(type(kind_of(config)), "load", lambda self, config: data_of(scale))
    found = Reproduction.plan(paper, scale, tmp_path, only=methods)
    found.run(progress=False, jobs=1)
    outcome = reproduce.collect(found, {})
    page, table, _ = (file.read_text() for file in reproduce.write_reports(outcome))
    assert list(outcome.results) == list(methods) and not outcome.missing
    for method in methods:
        (result,) = outcome.results[method]
        assert [step for step, _ in result.steps] == [0, 1, 2, 3]
        for protocol in scale.protocols.values():
            values = protocol.of(result)
            assert tuple(values) == scale.points
            row = [paper.titles[method], *(f"{value:.3f}" for value in values.values())]
            assert f"| {' | '.join(row)} |" in table
            assert all(f">{number}</td>" in page for number in row)
    # Curves of each drawn protocol, of the losses and of the times, and the paper's figures.
    curves = sum(protocol.figure is not None for protocol in scale.protocols.values()) + 2
    assert page.count("<svg") == curves + bool(drawn) and drawn in page
    assert f"| {NOT_RUN} |" in table
