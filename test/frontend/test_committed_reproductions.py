"""Tables under docs/reproductions are those of the results beside them: a changed setting,
rule or word of a table leaves none of them as it was."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("sextant._compiler")
torch = pytest.importorskip("torch")

from sextant import reproduce
from sextant.reproduce import markdown
from sextant.reproduce.engine import Reproduction
from sextant.reproduce.remarks import read_remarks
from sextant.training.kinds import kind_of

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reproductions"
RESULTS = sorted(FOLDER.glob("*.json"))


def stand_in(evaluation):
    """The data of a run as far as tables need it: where it is from, and what settings of a
    model the data complete. The text itself is that of one version of Python."""
    config, origin = evaluation["config"], evaluation["provenance"]
    on_images = config["model"] == "vit"
    shape = (1, config["size"], config["size"], config["channels"])
    return SimpleNamespace(
        source=origin["source"],
        digest=origin["images" if on_images else "text"],
        train=SimpleNamespace(images=torch.empty(shape)),
        classes=range(config["classes"]),
    )


def rendered(file, folder, monkeypatch):
    """The table that `sextant reproduce PAPER --report --results FILE` writes."""
    stored = json.loads(file.read_text())
    paper = reproduce.PAPERS[stored["paper"]]
    scale = paper.scales[stored["scale"]]
    data = stand_in(stored["runs"][0]["evaluations"]["evaluation.json"])
    kind = type(kind_of(SimpleNamespace(model=scale.settings.get("model", "gpt"))))
    monkeypatch.setattr(kind, "load", lambda self, config: data)
    seeds = 1 + max(run["seed"] for run in stored["runs"])
    found = Reproduction.plan(paper, scale, folder, seeds=seeds, results=[file])
    remarks = file.with_suffix(".remarks.txt")
    return markdown.render(reproduce.collect(found, read_remarks(remarks, paper.remarked)))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_a_table_is_that_of_the_results_beside_it(file, tmp_path, monkeypatch):
    found = rendered(file, tmp_path, monkeypatch)
    assert found == file.with_suffix(".md").read_text(), (
        f"sextant reproduce {file.stem.split('.')[0]} --report --results {file.name} writes another "
        "table: keep that one, and look at remarks and README"
    )


def test_all_results_have_a_table():
    assert len(RESULTS) >= 4
    for file in RESULTS:
        assert file.with_suffix(".md").exists() and file.with_suffix(".remarks.txt").exists()
