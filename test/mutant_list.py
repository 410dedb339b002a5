"""Faults for mutants.py: what is written otherwise, and the tests that could see it.

Tests are `pytest:FILE [WORDS of -k]`, `unit:FILTER` or `lit:PART OF A NAME`; the first
that fails ends a mutant, so the narrowest stands first.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


EXACT = "pytest:conformance/test_exact.py"
ENCODINGS = "pytest:conformance/test_encodings.py"
OF_OFFSETS = "pytest:codegen/test_wide_positions.py"

# Faults that a reading of the tests believed to be seen by none. -------------------

READING = [
    Mutant(
        "positions of a batch that they divide",
        "codegen/Tiles/HeadPlace.cpp",
        "Index element = kernel.rem(batch, arguments.getSize(positions, 0));",
        "Index element = kernel.min(\n"
        "      batch, kernel.sub(arguments.getSize(positions, 0), 1));",
        (f"{ENCODINGS} half-the-batch and avx2",),
    ),
    Mutant(
        "the backward scales by the head dim alone",
        "codegen/Rows/Finish.cpp",
        "? lowering.plan.scale",
        "? 1.0 / std::sqrt(double(source.getDimSize(3)))",
        (f"{EXACT} alibi and avx2",),
    ),
    Mutant(
        "scans never saturate, forward",
        "codegen/CPU/Forward/ForwardScans.cpp",
        "return holdsInAll(kernel, all);",
        "return {};",
        ("pytest:codegen/test_contextual_places.py saturated and avx2",),
    ),
    Mutant(
        "scans never saturate, backward",
        "codegen/CPU/Backward/BackwardScans.cpp",
        "return holdsInAll(kernel, all);",
        "return {};",
        ("pytest:codegen/test_contextual_places.py saturated and avx2",),
    ),
    Mutant(
        "a table of offsets takes one entry more",
        "codegen/Tables/OffsetRange.cpp",
        "Index beyond = kernel.add(size, 1), count = 1, start = 0;",
        "Index beyond = kernel.add(size, 2), count = 1, start = 0;",
        (f"{OF_OFFSETS} last_entry",),
    ),
    Mutant(
        "rows that see no key of a tile of all heads have weights",
        "codegen/CPU/AllHeads/AllHeadsUnitProducts.cpp",
        "isSeen, kernel.loadVector",
        "kernel.either(isSeen, kernel.constantI1(true)), kernel.loadVector",
        ("pytest:conformance/test_encodings.py test_bf16_in_tiles and talking_heads",),
    ),
    Mutant(
        "items add to dQ in any order",
        "codegen/CPU/AllHeads/AllHeadsBackwardLoopNest.cpp",
        "    order->awaitTurn();",
        "    (void)order;",
        ("pytest:codegen/test_item_order.py test_bits_do_not_depend_on_threads and avx2",),
    ),
    Mutant(
        "a block that an item passes over is not waited for",
        "codegen/CPU/Backward/ItemOrder.cpp",
        "  // Also of a block to which the item has not added: what the next one may add\n"
        "  // to, all those before it have.\n"
        "  awaitTurn();",
        "",
        ("pytest:codegen/test_item_order.py test_bits_do_not_depend_on_threads and 700",),
    ),
    Mutant(
        "edges of a tile of its own are cleared once",
        "codegen/CPU/Backward/GradientSums.cpp",
        "if (isOwn || !edgesAreClear)",
        "if (!edgesAreClear)",
        ("pytest:codegen/test_scratch.py two_tables and avx2",),
    ),
    Mutant(
        "evaluation takes the first tokens of a block",
        "frontend/python/sextant/training/evaluate.py",
        "losses[:, -last:]",
        "losses[:, :last]",
        ("pytest:frontend/test_evaluate.py",),
    ),
    Mutant(
        "the module takes values as keys",
        "frontend/python/sextant/nn.py",
        'for name in ("key", "value"))',
        'for name in ("value", "value"))',
        ("pytest:frontend/test_nn.py",),
    ),
    Mutant(
        "a ceiling is not applied",
        "frontend/python/sextant/initial.py",
        "clamp_(param.floor, param.ceiling)",
        "clamp_(param.floor, None)",
        ("pytest:frontend/test_nn.py bounds",),
    ),
    Mutant(
        "sums of bf16 start from what a thread left",
        "codegen/CPU/Backward/BackwardPacking.cpp",
        "  for (const Operand &operand : {keys, values})\n    kernel.clear(",
        "  for (const Operand &operand : {keys, values})\n    if (!shape.dot)\n      kernel.clear(",
        (f"{ENCODINGS} bf16_does_not and alibi", f"{ENCODINGS} bf16_matches and alibi"),
    ),
    Mutant(
        "delta is a percent too small",
        "codegen/CPU/Backward/BackwardCell.cpp",
        "Value delta = loadStatistics(launch.negativeDelta, group, r);",
        "Value delta = kernel.mulF(loadStatistics(launch.negativeDelta, group, r),\n"
        "                              kernel.splatF32(0.99));",
        (f"{EXACT} alibi and avx512bf16", f"{EXACT} alibi and avx2"),
    ),
]

# Kernels. ---------------------------------------------------------------------------

KERNELS = [
    Mutant(
        "delta has the other sign",
        "codegen/Rows/Delta.cpp",
        "negative = kernel.subF(negative, product);",
        "negative = kernel.addF(negative, product);",
        (f"{EXACT} alibi and avx2",),
    ),
    Mutant(
        "a row term has no gradient through the log-sum-exp",
        "codegen/Rows/Delta.cpp",
        "kernel.selectF(seesKeys, load(lseGradient), zero),",
        "kernel.selectF(seesKeys, zero, zero),",
        ("pytest:conformance/test_row_terms.py gradient_of_a_dropped",),
    ),
    Mutant(
        "the sum of a row is not rescaled",
        "codegen/CPU/Forward/OnlineSoftmax.cpp",
        "kernel.mulF(kernel.loadVector(sum, {v * width}), alpha.back()));",
        "kernel.loadVector(sum, {v * width}));",
        (f"{EXACT} alibi and avx2", f"{ENCODINGS} f32_matches and avx2 and alibi"),
    ),
    Mutant(
        "the logarithm lacks a term",
        "codegen/Emit/KernelBuilder.cpp",
        "for (int odd : {7, 5, 3, 1})",
        "for (int odd : {5, 3, 1})",
        ("pytest:codegen/test_two_keys.py",),
    ),
    Mutant(
        "a product of tiles takes the factors of its first step",
        "codegen/Tiles/UnitProduct.cpp",
        "{kernel.mul(word, product.bStride),",
        "{kernel.mul(0, product.bStride),",
        (f"{EXACT} tiles and alibi",),
    ),
    Mutant(
        "a product of f32 on tiles lacks that of a third term",
        "codegen/Tiles/UnitProduct.cpp",
        "{0, 1}, {0, 2}, {0, 0}};",
        "{0, 1}, {2, 2}, {0, 0}};",
        ("pytest:codegen/test_tiles.py terms",),
    ),
    Mutant(
        "a backward adds products of terms in another order than its forward",
        "codegen/CPU/Backward/BackwardCell.cpp",
        "/*haveChangedPlaces=*/true",
        "/*haveChangedPlaces=*/false",
        ("pytest:codegen/test_large_scores.py amx",),
    ),
    Mutant(
        "the exponential lacks a term",
        "codegen/Emit/KernelBuilder.cpp",
        "    1.535336376686e-04};",
        "    0.0};",
        ("unit:KernelExponentials.*", "pytest:codegen/test_two_keys.py"),
    ),
    Mutant(
        "values of all heads stay those of the first block of keys",
        "codegen/CPU/AllHeads/AllHeadsForwardLoopNest.cpp",
        "kernel.store(kernel.constantI64(0), areTurned);",
        "if (false) kernel.store(kernel.constantI64(0), areTurned);",
        ("pytest:conformance/test_encodings.py bf16_in_tiles",),
    ),
    Mutant(
        "heads of a group take turns",
        "codegen/CPU/Forward/ForwardItem.h",
        "kvHead = kernel.div(head, kernel.div(heads, keyHeads));",
        "kvHead = kernel.rem(head, kernel.min(heads, keyHeads));",
        (f"{ENCODINGS} grouped and alibi and avx2",),
    ),
    Mutant(
        "a strict comparison of a tile is not strict",
        "codegen/Payload/MaskTiles.cpp",
        "case CmpIPredicate::sgt:\n    return emitCompare(CmpIPredicate::slt, b, a);",
        "case CmpIPredicate::sgt:\n    return emitCompare(CmpIPredicate::sle, b, a);",
        ("pytest:codegen/test_strict_masks.py",),
    ),
    Mutant(
        "a tile's last row is left out",
        "codegen/Tiles/TileMask.cpp",
        "rows.last = kernel.sub(kernel.add(first, count), 1);",
        "rows.last = kernel.sub(kernel.add(first, count), 2);",
        ("pytest:codegen/test_forward.py shapes and avx2-float32",),
    ),
    Mutant(
        "indices of queries start at 0",
        "codegen/Tiles/HeadPlace.cpp",
        "return kernel.add(row, operands.getQueryShift(kernel, arguments));",
        "return row;",
        (f"{ENCODINGS} decode and avx2",),
    ),
    Mutant(
        "elements of the batch take the gradients of later ones",
        "codegen/Rows/TableRowSums.cpp",
        "    step = arguments.getSize(target, 0);",
        "    step = 1;",
        ("pytest:codegen/test_columns.py matches_the_reference and avx2 and own",),
    ),
    Mutant(
        "rows of pairs hold one row twice",
        "codegen/CPU/Backward/BackwardPacking.cpp",
        "kernel.loadVector(from, {word + words}));",
        "kernel.loadVector(from, {word}));",
        (f"{EXACT} alibi and avx512bf16",),
    ),
    Mutant(
        "cells of offsets are those of one vector",
        "codegen/Tiles/OffsetTile.cpp",
        "kernel.mul(vector, kernel.width()),\n",
        "kernel.mul(vector, 0),\n",
        (f"{OF_OFFSETS} values_and and avx2",),
    ),
    Mutant(
        "the exponential drops the low part of ln 2",
        "codegen/Emit/VectorFunctions.cpp",
        "return {whole, number, fma(whole, constant(-low), rest)};",
        "return {whole, number, fma(whole, constant(0 * low), rest)};",
        ("unit:*/VectorMath*",),
    ),
    Mutant(
        "keys that are past the end are seen",
        "codegen/CPU/Backward/BackwardVisibility.cpp",
        "kernel.sub(at.getLength(pos::Side::key), point.getKey()));",
        "kernel.sub(kernel.add(at.getLength(pos::Side::key), 1),\n"
        "                 point.getKey()));",
        ("pytest:codegen/test_backward.py shapes and avx2 and float32",),
    ),
    Mutant(
        "quotients of what no score reaches are products on tensor cores",
        "codegen/CUDA/Sm80/PayloadMath.cpp",
        "if (!isa<arith::MulFOp, arith::DivFOp>(op) || !mayBeOff(op) ||",
        "if (!isa<arith::MulFOp, arith::DivFOp>(op) ||",
        ("pytest:conformance/test_tensor_core_functions.py",),
    ),
    Mutant(
        "the slope of a tanh is that of a GPU's instruction",
        "codegen/CUDA/Sm80/PayloadMath.cpp",
        "if (!square || square.getLhs() != square.getRhs())",
        "if (square || !square)",
        ("pytest:conformance/test_tensor_core_functions.py",),
    ),
    Mutant(
        "keys that begin again share the offset of the others on tensor cores",
        "codegen/CUDA/Sm80/AllHeadsGradientPoint.cpp",
        "Value sum = kernel.selectF(beginsAgain, zero, value);",
        "Value sum = kernel.selectF(beginsAgain, value, value);",
        ("pytest:conformance/test_tensor_core_heads.py matches and dape",),
    ),
    Mutant(
        "gradients of matrices lack the last points on tensor cores",
        "codegen/CUDA/Sm80/AllHeadsGradientPoint.cpp",
        "step < sums.ofPoints.dim / fragmentDepth;",
        "step < sums.ofPoints.dim / fragmentDepth - 1;",
        ("pytest:conformance/test_tensor_core_heads.py matches and talking",),
    ),
]

# Passes and dialects. ----------------------------------------------------------------

PASSES = [
    Mutant(
        "a maximum keeps its left constant",
        "passes/Encoding/FormPiecewiseLinear.cpp",
        "form.b = addValues(left->q, right->q, /*isNegated=*/true, loc);",
        "form.b = addValues(left->q, right->q, /*isNegated=*/false, loc);",
        ("pytest:codegen/test_hinges.py",),
    ),
    Mutant(
        "a term that is subtracted is added",
        "passes/Analysis/ScoreTerms.cpp",
        "result.terms.push_back({sub.getRhs(), /*isNegated=*/true});",
        "result.terms.push_back({sub.getRhs(), /*isNegated=*/false});",
        ("pytest:conformance/test_row_terms.py gradient_of_a_dropped",),
    ),
    Mutant(
        "a tensor in use is overwritten",
        "passes/Schedule/Memory.cpp",
        "if (isUsedAfter(views, owner))",
        "if (false && isUsedAfter(views, owner))",
        ("lit:passes/convert-to-exec", "pytest:integration/test_gpt.py gradients_equal and cpu"),
    ),
    Mutant(
        "a tensor is released before its views",
        "passes/Schedule/ReleaseTensors.cpp",
        "for (Value view : collectViews(tensor))",
        "for (Value view : {tensor})",
        ("lit:passes/release-tensors", "pytest:integration/test_gpt.py gradients_equal and cpu"),
    ),
    Mutant(
        "decay acts on the other parameters",
        "passes/Gradient/TrainingStep.cpp",
        "group.isDecayed ? decay : builder.getF64FloatAttr(0.0),",
        "!group.isDecayed ? decay : builder.getF64FloatAttr(0.0),",
        ("pytest:integration/test_gpt.py training_steps and cpu",),
    ),
    Mutant(
        "gradients are clipped at 1",
        "passes/Gradient/TrainingStep.cpp",
        "builder.getF64FloatAttr(1.0 / clip));",
        "builder.getF64FloatAttr(1.0));",
        ("pytest:integration/test_gpt.py training_steps and cpu", "lit:passes/derive-backward"),
    ),
    Mutant(
        "a training step forgets ceilings",
        "passes/Gradient/TrainingStep.cpp",
        "definition.getCeilingAttr());",
        "FloatAttr());",
        ("pytest:integration/test_gpt.py in_their_bounds",),
    ),
    Mutant(
        "a second use of a value has no gradient",
        "passes/Gradient/ReverseMode.cpp",
        "sum = sum ? Value(nn::AddOp::create(builder, loc, sum, cotangent))\n"
        "              : cotangent;",
        "sum = cotangent;",
        ("pytest:integration/test_nn_derivatives.py",),
    ),
    Mutant(
        "a clamp gives to the other bound",
        "dialects/Interfaces/MathDerivatives.cpp",
        "return {inside, e.where(below, e.ct), e.where(above, e.ct)};",
        "return {inside, e.where(above, e.ct), e.where(below, e.ct)};",
        ("pytest:codegen/test_clamps.py",),
    ),
    Mutant(
        "the derivative of log1p is that of log",
        "dialects/Interfaces/MathDerivatives.cpp",
        "return pullLogOf(e, e.add(e.in(0), e.constant(1.0)), 1.0);",
        "return pullLogOf(e, e.in(0), 1.0);",
        ("pytest:conformance/test_finite_differences.py kerple_log", "unit:*/DerivativeRules*"),
    ),
]

# Runtime. ---------------------------------------------------------------------------

RUNTIME = [
    Mutant(
        "random words are used twice",
        "runtime/Initialize.cpp",
        "if (i % 4 == 0) {",
        "if (i % 8 == 0) {",
        ("unit:Initialize*",),
    ),
    Mutant(
        "initial values pass their ceiling",
        "runtime/Initialize.cpp",
        "std::min(std::max(value, distribution.floor), distribution.ceiling));",
        "std::max(value, distribution.floor));",
        ("unit:Initialize*",),
    ),
    Mutant(
        "a view of a stretch that ends is taken for one",
        "runtime/View.cpp",
        "source.strides[dim - 1] != stretch * baseStride);",
        "source.strides[dim - 1] < stretch * baseStride);",
        ("unit:View*",),
    ),
    Mutant(
        "a tensor of which a view is a result is a temporary",
        "runtime/Temporaries.cpp",
        "origins[view->result] = origins[view->source];",
        "origins[view->result] = view->result;",
        ("unit:Temporaries*",),
    ),
    Mutant(
        "a workspace that is too small is kept",
        "runtime/cpu/Scratch.cpp",
        "if (buffer.bytes >= bytes)",
        "if (buffer.bytes > 0)",
        ("unit:*", "pytest:codegen/test_forward.py avx2-float32"),
    ),
]

# Python: training and calls. ----------------------------------------------------------

FRONTEND = [
    Mutant(
        "every step draws the same batch",
        "frontend/python/sextant/training/data.py",
        "torch.Generator().manual_seed(_mix(seed, step))",
        "torch.Generator().manual_seed(_mix(seed, 0))",
        ("pytest:frontend/test_data.py",),
    ),
    Mutant(
        "random positions are not in order",
        "frontend/python/sextant/drawn_positions.py",
        "drawn.sort().values",
        "drawn",
        ("pytest:frontend/test_random_positions.py",),
    ),
    Mutant(
        "a call does not see what its thread has changed",
        "frontend/python/sextant/listeners.py",
        "and _settings_of_thread() in _unchanged()",
        "and _unchanged()",
        ("pytest:frontend/test_listeners.py",),
    ),
    Mutant(
        "tensors with more keys than plain ones are plain",
        "frontend/python/sextant/listeners.py",
        "if type(tensor) not in _TYPES or _keys_of(tensor).raw_repr() not in _PLAIN:",
        "if type(tensor) not in _TYPES:",
        ("pytest:frontend/test_listeners.py",),
    ),
    Mutant(
        "what is not trained has a gradient",
        "frontend/python/sextant/attention_operators.py",
        "_like(by_name.get(name), p)",
        "_like(by_name.get(name, p), p)",
        ("pytest:frontend/test_listeners.py",),
    ),
    Mutant(
        "an edit that leaves the size is not seen",
        "frontend/bindings/Surroundings.cpp",
        "status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec,",
        "second,",
        ("pytest:frontend/test_plans.py edited",),
    ),
    Mutant(
        "programs for another target are the same",
        "frontend/python/sextant/definitions.py",
        '_OF_PROGRAMS = ("SEXTANT_CHECK", "SEXTANT_CODE", "SEXTANT_TARGET")',
        '_OF_PROGRAMS = ("SEXTANT_CHECK", "SEXTANT_CODE")',
        ("pytest:frontend/test_plans.py another_target",),
    ),
]

MUTANTS = [*READING, *KERNELS, *PASSES, *RUNTIME, *FRONTEND]
assert len({m.name for m in MUTANTS}) == len(MUTANTS)
