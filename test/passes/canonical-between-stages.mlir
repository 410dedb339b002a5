// Canonicalisation and CSE between any two stages change no result: with and
// without them the stages end in the same text, once both are canonical (but for
// the order of constants).
// RUN: sextant-opt %s --pos-link-encodings --pos-inline-encodings --pos-fuse-sites --canonicalize --cse --pos-drop-row-constants --pos-form-piecewise-linear --pos-hoist --canonicalize --cse | %python %S/Inputs/inline_constants.py > %t.plain
// RUN: sextant-opt %s --canonicalize --cse --pos-link-encodings --canonicalize --cse --pos-inline-encodings --canonicalize --cse --pos-fuse-sites --canonicalize --cse --pos-drop-row-constants --canonicalize --cse --pos-form-piecewise-linear --canonicalize --cse --pos-hoist --canonicalize --cse | %python %S/Inputs/inline_constants.py > %t.between
// RUN: diff %t.plain %t.between
// RUN: FileCheck %s < %t.between

// Stage verifiers hold after them, too.
// RUN: sextant-opt %s --canonicalize --cse --pos-link-encodings --canonicalize --cse --pos-verify-linked --pos-inline-encodings --canonicalize --cse --pos-verify-inlined --pos-fuse-sites --canonicalize --cse --pos-verify-fused --pos-drop-row-constants --canonicalize --cse --pos-form-piecewise-linear --canonicalize --cse --pos-hoist --canonicalize --cse --pos-verify-hoisted -o /dev/null

// Nothing is deleted as dead, and no constant leaves a payload that uses it.
// CHECK-LABEL: func @attention
// CHECK: pos.rows
// CHECK: pos.score
// CHECK: math.tanh
func.func @attention(%q: tensor<?x4x?x16xf32>, %ids: tensor<?x?xi32>, %slopes: tensor<4xf32>, %r1: tensor<4xf32>,
    %r2: tensor<4xf32>, %table: tensor<32x4xf32>, %thresholds: tensor<16xf32>)
    -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [
      #pos.use<@causal, "causal">, #pos.use<@document, "document">, #pos.use<@window, "window">,
      #pos.use<@rope, "rope", {lanes = 8 : i32}>, #pos.use<@alibi, "alibi">, #pos.use<@kerple_log, "kerple_log">,
      #pos.use<@t5_bias, "t5_bias">, #pos.use<@sandwich, "sandwich">, #pos.use<@softcap, "softcap">]
    params(%ids, %slopes, %r1, %r2, %table, %thresholds : tensor<?x?xi32>, tensor<4xf32>, tensor<4xf32>,
      tensor<4xf32>, tensor<32x4xf32>, tensor<16xf32>)
    : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, (tensor<?x4x?x16xf32>) -> (tensor<?x4x?x16xf32>), tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
}

// What only a function asks for, by its name, is not deleted either.
pos.encoding @gate {
  %model = pos.extent model
  %scale = pos.option "scale" : f32 = 1.0 : f32
  %w = pos.param "weight" : tensor<?x?xf32> dims(%model, %model) init constant(%scale)
  %most = arith.constant 8 : i32
  %ids = pos.input "ids" : tensor<?xi32> dims(%most)
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"}, %m: tensor<?x?xf32> {pos.role = "weight"},
      %i: tensor<?xi32> {pos.role = "ids"}) -> (tensor<?x?x?xf32> {pos.role = "made"}) {
    %y = nn.matmul %x, %m : (tensor<?x?x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
}

// Two terms that are the same for all keys, with a constant in each.
pos.encoding @level {
  %heads = pos.extent heads
  %one = arith.constant 1.0 : f32
  %level = pos.param "level" : tensor<?xf32> dims(%heads) init constant(%one)
  pos.score {
  ^bb0(%s: f32):
    %half = arith.constant 0.5 : f32
    %h = pos.head
    %i = pos.index query
    %j = pos.index key
    %v = pos.read %level[%h] : tensor<?xf32>
    %w = arith.mulf %v, %half : f32
    %fi = arith.sitofp %i : i32 to f32
    %fj = arith.sitofp %j : i32 to f32
    %a = arith.mulf %fi, %half : f32
    %b = arith.mulf %fj, %half : f32
    %t = arith.addf %s, %a : f32
    %u = arith.subf %t, %b : f32
    %x = arith.addf %u, %w : f32
    pos.yield %x : f32
  }
}

// CHECK-LABEL: func @row_term
// CHECK: pos.row_term
func.func @row_term(%q: tensor<?x4x?x16xf32>, %level: tensor<4xf32>) -> (tensor<?x4x?x16xf32>, tensor<?x4x?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@level, "level">] params(%level : tensor<4xf32>)
    : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, (tensor<?x4x?x16xf32>) -> (tensor<?x4x?x16xf32>), tensor<?x4x?xf32>
  return %o, %lse : tensor<?x4x?x16xf32>, tensor<?x4x?xf32>
}

// CHECK-LABEL: func @units
// CHECK: pos.hinges
// CHECK: pos.hinge_sum
func.func @units(%q: tensor<?x4x?x16xf32>, %c: tensor<f32>, %m: tensor<f32>, %w1: tensor<32xf32>, %b1: tensor<32xf32>,
    %w2: tensor<4x32xf32>, %b2: tensor<4xf32>) -> tensor<?x4x?x16xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@fire, "fire", {activation = "leaky_relu"}>]
    params(%c, %m, %w1, %b1, %w2, %b2 : tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<32xf32>, tensor<4x32xf32>, tensor<4xf32>)
    : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, (tensor<?x4x?x16xf32>) -> (tensor<?x4x?x16xf32>), tensor<?x4x?xf32>
  return %o : tensor<?x4x?x16xf32>
}

// CHECK-LABEL: func @units_of_a_host
// CHECK: pos.hinges
// CHECK: pos.for_heads
// CHECK: pos.hinge_sum
func.func @units_of_a_host(%q: tensor<?x4x?x16xf32>, %c: tensor<f32>, %m: tensor<f32>, %w1: tensor<32xf32>, %b1: tensor<32xf32>,
    %w2: tensor<4x32xf32>, %b2: tensor<4xf32>, %n1: tensor<8x8xf32>, %n2: tensor<8xf32>, %n3: tensor<4x8xf32>)
    -> tensor<?x4x?x16xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@dape, "dape", {hidden = 8 : i32}, [#pos.use<@fire, "fire">]>]
    params(%n1, %n2, %n3, %b2, %c, %m, %w1, %b1, %w2, %b2 : tensor<8x8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<4xf32>,
      tensor<f32>, tensor<f32>, tensor<32xf32>, tensor<32xf32>, tensor<4x32xf32>, tensor<4xf32>)
    : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, (tensor<?x4x?x16xf32>) -> (tensor<?x4x?x16xf32>), tensor<?x4x?xf32>
  return %o : tensor<?x4x?x16xf32>
}

// CHECK-LABEL: func @backward
// CHECK: pos.score
func.func @backward(%q: tensor<?x4x?x16xf32>, %l: tensor<?x4x?xf32>, %r1: tensor<4xf32>, %r2: tensor<4xf32>, %stats: tensor<?x4x?x2xf32>)
    -> (tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<4xf32>, tensor<4xf32>) {
  %g:5 = pos.attention_backward %q, %q, (%q), (%q), %stats, (%q), %l
    uses [#pos.use<@causal, "causal">, #pos.use<@kerple_power, "kerple_power">]
    params(%r1, %r2 : tensor<4xf32>, tensor<4xf32>) gradients [0, 1]
    : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, (tensor<?x4x?x16xf32>), (tensor<?x4x?x16xf32>), tensor<?x4x?x2xf32>,
      (tensor<?x4x?x16xf32>), tensor<?x4x?xf32>
    -> tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, (tensor<?x4x?x16xf32>), tensor<4xf32>, tensor<4xf32>
  return %g#0, %g#1, %g#2, %g#3, %g#4 : tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>, tensor<?x4x?x16xf32>,
    tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func @embedding
// CHECK: pos.rows
// CHECK: pos.rows
func.func @embedding(%x: tensor<?x?x16xf32>, %table: tensor<64x16xf32>) -> tensor<?x?x16xf32> {
  %y = pos.map_rows %x of embedding uses [#pos.use<@sinusoidal, "sinusoidal">,
      #pos.use<@learned, "learned", {rows = 64 : i32, train_length = 16 : i32}>]
    params(%table : tensor<64x16xf32>) : tensor<?x?x16xf32> -> tensor<?x?x16xf32>
  return %y : tensor<?x?x16xf32>
}
