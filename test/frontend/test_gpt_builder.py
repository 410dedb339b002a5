"""The builder of GPTs: names, shapes and places of what it prints."""

import pytest

import sextant
from sextant import backend
from sextant.models import gpt


def parameters(**settings):
    """The parameters of a model by name, as its manifest has them."""
    return sextant.compile(gpt.gpt(layers=2, width=32, heads=2, **settings)).parameters


def test_parameters_of_encodings_follow_their_scope():
    found = parameters(encodings=("causal", "learned(rows=16)", "kerple_log", "t5_bias"))
    assert found["embedding.learned.table"]["dims"] == [16, 32]
    assert "layers.1.attention.kerple_log.r1" in found
    table = "attention.t5_bias.table"
    assert [n for n in found if n.endswith("t5_bias.table")] == [table]
    assert found["layers.0.attention.kerple_log.r1"]["floor"] == 0.01


def test_layers_share_parameters_if_asked():
    found = parameters(encodings=("causal", "kerple_log"), shared=True)
    assert "attention.kerple_log.r1" in found
    assert not any(n.startswith("layers.0.attention.") for n in found)


def test_frozen_parameters_come_with_the_program():
    slopes = parameters(encodings=("alibi",))["layers.0.attention.alibi.slopes"]
    assert slopes["frozen"] and slopes["has_values"]


def test_styles_differ_in_biases_and_gates():
    plain, gated = parameters(), parameters(style="llama", kv_heads=1)
    assert "layers.0.query.bias" in plain and "layers.0.mlp.gate.weight" not in plain
    assert "layers.0.query.bias" not in gated and "layers.0.mlp.gate.weight" in gated
    assert gated["layers.0.key.weight"]["dims"] == [16, 32]
    assert "head.weight" in parameters(tied=False) and "head.weight" not in plain


def test_initial_weights_of_the_residual_stream():
    name = "layers.0.mlp.down.weight"  # fan in 128, two layers
    for residual, scale in (("scaled", 0.5), ("plain", 1.0)):
        program = sextant.compile(gpt.gpt(layers=2, width=32, heads=2, residual=residual))
        largest = float(program.init_params(seed=0)[name].abs().max())
        assert 0.95 * scale < largest * 128**0.5 <= scale


def test_inputs_of_encodings_become_arguments():
    program = sextant.compile(gpt.gpt(layers=1, width=32, heads=2, encodings=("document",)))
    assert program.arguments("logits")[:2] == ["tokens", "document.ids"]
    assert program.results("gradients")[0] == "loss"


def test_positions_become_arguments():
    settings = dict(layers=2, width=32, heads=2, encodings=("causal", "rope", "sinusoidal"))
    shared = sextant.compile(gpt.gpt(positions="model", **settings))
    assert shared.arguments("logits")[:2] == ["tokens", "positions"]
    each = sextant.compile(gpt.gpt(positions="layer", **settings))
    assert each.arguments("logits")[:4] == [
        "tokens", "embedding.positions", "layers.0.positions", "layers.1.positions"
    ]  # fmt: skip


def test_traced_encodings():
    @sextant.encoding
    def slanted(score, at, slope: sextant.PerHead):
        return score + slope[at.head] * at.offset

    found = parameters(encodings=("causal", slanted))
    assert found["layers.0.attention.slanted.slope"]["dims"] == [2]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"residual": "none"}, 'unknown residual "none"'),
        ({"style": "gpt3"}, 'unknown style "gpt3".*gpt2'),
        ({"gelu": "erfc"}, 'unknown gelu "erfc".*erf'),
        ({"gelu": "erf", "style": "llama"}, 'a block of style "llama" has none'),
        ({"width": 30, "heads": 4}, "width 30 is not a multiple of heads 4"),
        ({"heads": 4, "kv_heads": 3}, "heads 4 is not a multiple of kv_heads 3"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"dtype": "bf18"}, 'unknown dtype "bf18"; did you mean "bf16"'),
        ({"positions": "layers"}, 'unknown positions "layers".*layer'),
        ({"hidden": -1}, "hidden must not be negative, got -1"),
        ({"encoding": ["causal"]}, 'unknown setting "encoding"; did you mean "encodings"'),
    ],
)
def test_settings_that_make_no_model(settings, message):
    with pytest.raises(ValueError, match=message):
        gpt.gpt(**settings)


@pytest.mark.parametrize("dim", ["key", "query", "batch"])
def test_parameters_of_the_size_of_a_call_are_refused(dim):
    @sextant.encoding
    def sized(score, at, table: sextant.Param(dim, init=sextant.constant_init(0.5))):
        return score + table[0]

    with pytest.raises(ValueError, match=rf'"sized.table" \[{dim}\] has the size of a call'):
        gpt.gpt(encodings=("causal", sized))


def test_unknown_encodings_list_the_nearest():
    with pytest.raises(sextant.CompileError, match="ropee.*rope"):
        gpt.gpt(encodings=("ropee",))


def test_an_encoding_may_act_in_the_first_layer_alone(search_path):
    """By its option `layers`, whatever it does and whatever it is called."""
    text = sextant.definitions.text_of("kerple_log").replace("@kerple_log", "@only")
    option = '%layers = pos.option "layers" : i32 = "first" of ["all", "first"]'
    search_path({"only": text.replace("{\n", "{\n" + f"{option}\n", 1)})
    found = parameters(encodings=("causal", "only", "expe(values=learned, layers=first)"))
    assert [n for n in found if n.endswith(".r1")] == ["layers.0.attention.only.r1"]
    assert "attention.expe.s" in found
    every = gpt.gpt(layers=3, width=32, heads=2, encodings=("expe",))
    first = gpt.gpt(layers=3, width=32, heads=2, encodings=("expe(layers=first)",))
    functions = 3  # loss, token losses, logits
    assert every.count("pos.map_rows") == 2 * 3 * functions
    assert first.count("pos.map_rows") == 2 * functions


def test_definitions_are_asked_as_often_for_many_layers(monkeypatch):
    """Each question folds the options of a definition, and unrolls its functions, anew."""
    compiler = backend.compiler()
    asked = []

    def counted(name):
        real = getattr(compiler, name)

        def ask(*arguments):
            asked.append(name)
            return real(*arguments)

        monkeypatch.setattr(compiler, name, ask)

    for name in ("signature", "shapes", "initial_values", "functions"):
        counted(name)
    counts = []
    for layers in (2, 6):
        # Of another width, whose extents nobody has asked for.
        gpt.gpt(encodings=("causal", "kerple_log", "forgetting"), layers=layers, width=layers * 48)
        counts.append(asked.count("initial_values"))
        assert len(asked) <= 8, asked
        asked.clear()
    assert counts == [2, 2]
