"""The demo's driver, with a setting of a few seconds."""

import json
from dataclasses import replace

import pytest

from sextant import demo
from sextant.cli import main
from sextant.uses import parse_use

pytest.importorskip("sextant._compiler")


def test_demo_trains_compares_and_reports(tmp_path, monkeypatch, capsys):
    small = replace(
        demo.QUICK, layers=1, width=32, heads=2, length=16, batch=4, steps=3, warmup=1
    )
    monkeypatch.setattr(demo, "QUICK", small)
    tiny = replace(
        demo.QUICK_IMAGES, layers=1, width=16, heads=2, size=8, batch=4, steps=3, warmup=1
    )
    monkeypatch.setattr(demo, "QUICK_IMAGES", tiny)
    monkeypatch.setattr(demo, "QUICK_HELD_OUT", 20)
    assert "rope_2d" in demo.IMAGE_ENCODINGS
    monkeypatch.setattr(demo, "IMAGE_ENCODINGS", ("rope_2d",))
    text = tmp_path / "text.txt"
    text.write_bytes(b"The quick brown fox jumps over the lazy dog. " * 1000)
    names = ("alibi", "dape(kerple_log, hidden=3)")
    assert set(demo.ENCODINGS) > {"none", "alibi", "fire(threshold=16)"}
    assert {parse_use(use).encoding for use in demo.ENCODINGS if use != "none"} > {"seqpe", "expe"}
    assert demo.FULL.length == 128
    monkeypatch.setattr(demo, "ENCODINGS", names[:1])
    command = ["demo", str(tmp_path / "out"), "--quick", "--data", str(text)]
    assert main([*command, "--also", names[1], "--also", names[0]]) == 0
    printed = capsys.readouterr().out
    assert "2 encodings" in printed
    for name in names:
        assert f"\n{name}" in printed
    assert "ms/step" in printed and ("does not hold" in printed or "holds" in printed)
    # What is printed and drawn is what the runs stored.
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") >= 5
    for name in names:
        found = json.loads((tmp_path / "out" / "quick" / name / "evaluation.json").read_text())
        for length, loss in found["all_tokens"].items():
            assert 0 < loss < 8 and f"{loss:.3f}" in page, (name, length, loss)
    stored = tmp_path / "out" / "quick" / "images" / "rope_2d" / "evaluation.json"
    for size, share in json.loads(stored.read_text())["accuracy"].items():
        assert f"{share:.1%}" in page and f"{share:.1%}" in printed, (size, share)
    assert "seeds</th><td>0: one seed" in page and str(text) in page
    capsys.readouterr()
    # What is wrong with the last is said before anything is trained.
    before = sorted((tmp_path / "out" / "quick").iterdir())
    assert main([*command, "--also", "softcap(cap=2)", "--also", "ropes"]) == 1
    assert "unknown encoding @ropes" in capsys.readouterr().err
    assert sorted((tmp_path / "out" / "quick").iterdir()) == before
    # A second seed, two trainings at a time; the first seed is there already.
    assert main([*command, "--seeds", "2", "--jobs", "2"]) == 0
    printed = capsys.readouterr().out
    assert "1 encodings, 2 seeds" in printed
    folders = [path.name for path in (tmp_path / "out" / "quick").iterdir()]
    assert sorted(folders) == sorted(["alibi", "alibi.seed1", names[1], "images"])
    assert sorted(p.name for p in (tmp_path / "out" / "quick" / "images").iterdir()) == [
        "rope_2d", "rope_2d.seed1"
    ]  # fmt: skip
    assert "\u00b1" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    "loss, said",
    [
        (2.30, "sinusoidal: 2.300 at 1x, plain PyTorch 2.50: off by -0.200, more than 0.1"),
        (2.41, "every loss at 1x is within 0.1"),
        (2.71, "every loss at 1x is within 0.1"),
        (2.80, "sinusoidal: 2.800 at 1x, plain PyTorch 2.62: off by +0.180, more than 0.1"),
    ],
)
def test_losses_are_held_to_those_of_plain_pytorch(loss, said, capsys):
    class Found:
        name = "sinusoidal"

        def losses(self, protocol, multiple):
            assert (protocol, multiple) == ("all_tokens", 1)
            return [loss - 0.01, loss + 0.01]

    demo._compare([Found()])
    assert said in capsys.readouterr().out
