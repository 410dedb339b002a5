// RUN: sextant-opt %s --pos-specialize --split-input-file | FileCheck %s
// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s --check-prefix=INLINED

// Sizes come from the declaration's arguments, extents and options become
// constants, helpers are inlined, and the types of results follow.
// CHECK-LABEL: func.func private @a.produce
// CHECK-SAME: (%[[X:.+]]: tensor<?x?x64xf32>
// CHECK-SAME: %[[W:.+]]: tensor<12x64xf32>
// CHECK-SAME: -> (tensor<?x?x4x3xf32>
// CHECK: %[[Y:.+]] = nn.linear %[[X]], %[[W]] : (tensor<?x?x64xf32>, tensor<12x64xf32>) -> tensor<?x?x12xf32>
// CHECK: %[[B:.+]] = tensor.dim %[[X]]
// CHECK: %[[L:.+]] = tensor.dim %[[X]]
// CHECK: nn.reshape %[[Y]] sizes(%[[B]], %[[L]]) : tensor<?x?x12xf32> -> tensor<?x?x4x3xf32>
// CHECK-NEXT: return
pos.encoding @split {
  %lanes = pos.option "lanes" : i32 = 2 : i32
  %heads = pos.extent heads
  %width = pos.extent model
  %rows = arith.muli %heads, %lanes : i32
  %zero = arith.constant 0.0 : f32
  %p = pos.param "weight" : tensor<?x?xf32> dims(%rows, %width) init constant(%zero)
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"},
                     %w: tensor<?x?xf32> {pos.role = "weight"},
                     %n: i32 {pos.role = "lanes"})
      -> (tensor<?x?x?x?xf32> {pos.role = "parts"}) {
    %y = nn.linear %x, %w : (tensor<?x?x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
    %z = func.call @cut(%x, %y, %n) : (tensor<?x?x?xf32>, tensor<?x?x?xf32>, i32) -> tensor<?x?x?x?xf32>
    return %z : tensor<?x?x?x?xf32>
  }
  func.func private @cut(%x: tensor<?x?x?xf32>, %y: tensor<?x?x?xf32>, %n: i32) -> tensor<?x?x?x?xf32> {
    %first = arith.constant 0 : index
    %second = arith.constant 1 : index
    %b = tensor.dim %x, %first : tensor<?x?x?xf32>
    %l = tensor.dim %x, %second : tensor<?x?x?xf32>
    %h = pos.extent heads
    %outer = arith.index_cast %h : i32 to index
    %inner = arith.index_cast %n : i32 to index
    %z = nn.reshape %y sizes(%b, %l, %outer, %inner) : tensor<?x?x?xf32> -> tensor<?x?x?x?xf32>
    return %z : tensor<?x?x?x?xf32>
  }
}
func.func private @a.produce(tensor<?x?x64xf32>, tensor<12x64xf32>) -> tensor<?x?x4x3xf32>
  attributes {pos.use = #pos.use<@split, "a", {lanes = 3 : i32}>, pos.extents = {heads = 4 : i32}}

// Then it is part of its caller, and the definition is gone with the rest.
// INLINED-NOT: pos.encoding
// INLINED-NOT: func.func private
// INLINED: func.func @f
// INLINED: nn.linear
// INLINED: nn.reshape
func.func @f(%x: tensor<?x?x64xf32>, %w: tensor<12x64xf32>) -> tensor<?x?x4x3xf32> {
  %y = func.call @a.produce(%x, %w) : (tensor<?x?x64xf32>, tensor<12x64xf32>) -> tensor<?x?x4x3xf32>
  return %y : tensor<?x?x4x3xf32>
}

// -----

// An attention that uses the encoding takes what its sites read, and no more.
// INLINED-LABEL: func.func @attended
// INLINED: %[[G:.+]] = nn.transpose
// INLINED: pos.attention {{.+}} params(%[[G]] : tensor<?x4x?xf32>)
func.func private @forgetting.produce(tensor<?x?x32xf32>, tensor<4x32xf32>, tensor<4xf32>) -> tensor<?x4x?xf32>
  attributes {pos.use = #pos.use<@forgetting, "forgetting">, pos.extents = {heads = 4 : i32}}
func.func @attended(%x: tensor<?x?x32xf32>, %w: tensor<4x32xf32>, %b: tensor<4xf32>,
                    %q: tensor<?x4x?x8xf32>) -> tensor<?x4x?x8xf32> {
  %g = func.call @forgetting.produce(%x, %w, %b) : (tensor<?x?x32xf32>, tensor<4x32xf32>, tensor<4xf32>) -> tensor<?x4x?xf32>
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@causal, "causal">, #pos.use<@forgetting, "forgetting">]
    params(%g : tensor<?x4x?xf32>)
    : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, (tensor<?x4x?x8xf32>)
    -> (tensor<?x4x?x8xf32>), tensor<?x4x?xf32>
  return %o : tensor<?x4x?x8xf32>
}

// -----

// Options and extents decide choices and the rounds of loops. What is not chosen
// asks for nothing: with `mixed = false` the function takes no mixing matrices.
// CHECK-LABEL: func.func private @plain.produce
// CHECK-SAME: (%[[X:.+]]: tensor<?x?x8xf32>
// CHECK-NOT: tensor<3x8x8xf32>
// CHECK: %[[E:.+]] = nn.exp %[[X]]
// CHECK-NEXT: return %[[E]]
// CHECK-LABEL: func.func private @mixed.produce
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x?x8xf32>
// CHECK-SAME: %[[W:[^:]+]]: tensor<3x8x8xf32>
// CHECK: nn.slice %[[W]] dim 0 start 0 length 1
// CHECK: %[[Y0:.+]] = nn.linear %[[X]]
// CHECK: nn.slice %[[W]] dim 0 start 1 length 1
// CHECK: %[[Y1:.+]] = nn.linear %[[Y0]]
// CHECK: nn.slice %[[W]] dim 0 start 2 length 1
// CHECK: %[[Y2:.+]] = nn.linear %[[Y1]]
// CHECK-NOT: scf
// CHECK: return %[[Y2]]
pos.encoding @chosen {
  %mixed = pos.option "mixed" : i1 = true
  %rounds = pos.option "rounds" : i32 = 3 : i32
  %width = pos.extent model
  %zero = arith.constant 0.0 : f32
  %w = pos.param "mix" : tensor<?x?x?xf32> dims(%rounds, %width, %width) init constant(%zero)
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"},
                     %s: tensor<?x?x?xf32> {pos.role = "mix"},
                     %is_mixed: i1 {pos.role = "mixed"}, %n: i32 {pos.role = "rounds"})
      -> (tensor<?x?x?xf32> {pos.role = "rows"}) {
    %y = scf.if %is_mixed -> tensor<?x?x?xf32> {
      %z = func.call @mix(%x, %s, %n) : (tensor<?x?x?xf32>, tensor<?x?x?xf32>, i32) -> tensor<?x?x?xf32>
      scf.yield %z : tensor<?x?x?xf32>
    } else {
      %z = nn.exp %x : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
      scf.yield %z : tensor<?x?x?xf32>
    }
    return %y : tensor<?x?x?xf32>
  }
  func.func private @mix(%x: tensor<?x?x?xf32>, %s: tensor<?x?x?xf32>, %n: i32) -> tensor<?x?x?xf32> {
    %first = arith.constant 0 : index
    %one = arith.constant 1 : index
    %count = arith.index_cast %n : i32 to index
    %wide = pos.extent model
    %lanes = arith.index_cast %wide : i32 to index
    %y = scf.for %i = %first to %count step %one iter_args(%z = %x) -> (tensor<?x?x?xf32>) {
      %one_of = nn.slice %s dim 0 start %i length 1 : (tensor<?x?x?xf32>, index) -> tensor<1x?x?xf32>
      %m = nn.reshape %one_of sizes(%lanes, %lanes) : tensor<1x?x?xf32> -> tensor<?x?xf32>
      %next = nn.linear %z, %m : (tensor<?x?x?xf32>, tensor<?x?xf32>) -> tensor<?x?x?xf32>
      scf.yield %next : tensor<?x?x?xf32>
    }
    return %y : tensor<?x?x?xf32>
  }
}
func.func private @plain.produce(tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  attributes {pos.use = #pos.use<@chosen, "plain", {mixed = false}>, pos.extents = {model = 8 : i32}}
func.func private @mixed.produce(tensor<?x?x8xf32>, tensor<3x8x8xf32>) -> tensor<?x?x8xf32>
  attributes {pos.use = #pos.use<@chosen, "mixed">, pos.extents = {model = 8 : i32}}

// -----

// Options are handed on to what a function uses, choices by their names; the use is
// linked where the function is called, the definition stays as it is.
// CHECK-LABEL: func.func private @s.initial_state
// CHECK: pos.map_rows {{.+}} of query uses
// CHECK-SAME: #pos.use<@rope, "rope", {base = 5.000000e+02 : f32, factor = 2.000000e+00 : f32, scaling = "ntk"}>
// CHECK-SAME: tensor<1x?x8xf32> -> tensor<1x?x8xf32>
// INLINED-NOT: pos.encoding
// INLINED-LABEL: func.func @started
// INLINED: pos.map_rows {{.+}} of query :
// INLINED: pos.rows of [query, key] half
pos.encoding @starts attributes {extends = #pos.use<@rope, "rope", {base = @speed}>} {
  %speed = pos.option "speed" : f32 = 100.0 : f32
  %how = pos.option "how" : i32 = "none" of ["ntk", "none"]
  func.func @initial_state(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "z"}) {
    %y = pos.map_rows %x of query
      uses [#pos.use<@rope, "rope", {base = @speed, scaling = @how, factor = 2.0 : f32}>]
      : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
}
func.func private @s.initial_state(tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
  attributes {pos.use = #pos.use<@starts, "s", {speed = 500.0 : f32, how = "ntk"}>, pos.extents = {}}
func.func @started(%x: tensor<1x?x8xf32>) -> tensor<1x?x8xf32> {
  %y = func.call @s.initial_state(%x) : (tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
  return %y : tensor<1x?x8xf32>
}

// -----

// The rounds are counted, whatever would come after the last one; a size that no
// tensor has stays an operand.
// CHECK-LABEL: func.func private @far.produce
// CHECK: %[[Y0:.+]] = nn.exp %arg0
// CHECK-NOT: nn.exp
// CHECK: %[[Y1:.+]] = nn.exp %[[Y0]]
// CHECK-NOT: nn.exp
// CHECK: nn.reshape %[[Y1]] sizes(%{{.+}}) : tensor<?x?x8xf32> -> tensor<?x4x8xf32>
pos.encoding @far {
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "rows"}) {
    %first = arith.constant 0 : index
    %last = arith.constant 9223372036854775807 : index
    %step = arith.constant 4611686018427387904 : index
    %y = scf.for %i = %first to %last step %step iter_args(%z = %x) -> (tensor<?x?x?xf32>) {
      %next = nn.exp %z : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
      scf.yield %next : tensor<?x?x?xf32>
    }
    %heads = pos.extent heads
    %four = arith.index_cast %heads : i32 to index
    %eight = arith.constant 8 : index
    %open = arith.constant -1 : index
    %r = nn.reshape %y sizes(%open, %four, %eight) : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
    return %r : tensor<?x?x?xf32>
  }
}
func.func private @far.produce(tensor<?x?x8xf32>) -> tensor<?x4x8xf32>
  attributes {pos.use = #pos.use<@far, "far">, pos.extents = {heads = 4 : i32}}
