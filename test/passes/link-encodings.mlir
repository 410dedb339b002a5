// RUN: sextant-opt %s --pos-link-encodings=search-path=%S/Inputs/mine --split-input-file | FileCheck %s
// RUN: env SEXTANT_PATH=%S/Inputs/mine sextant-opt %s --pos-link-encodings --split-input-file | FileCheck %s
// RUN: sextant-opt %s --pos-link-encodings=search-path=%S/Inputs/shadow:%S/Inputs/mine --split-input-file | FileCheck %s --check-prefix=SHADOW

// A definition comes from a user's folder; equal uses share it, other options
// make another copy. Options are folded.
// CHECK-LABEL: func @options
// CHECK: uses [#pos.use<@[[A:.+]], "a">, #pos.use<@[[B:.+]], "b">, #pos.use<@[[A]], "c">]
// CHECK: pos.encoding @[[A]]
// CHECK-NEXT: arith.constant 5.000000e-01 : f32
// CHECK-NOT: pos.option
// CHECK: pos.encoding @[[B]]
// CHECK-NEXT: arith.constant 2.000000e+00 : f32
// CHECK-NOT: pos.encoding
func.func @options(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [
      #pos.use<@tilt, "a">, #pos.use<@tilt, "b", {slope = 2 : i32}>,
      #pos.use<@tilt, "c", {slope = 0.5 : f64}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// A choice is its place in the list.
// CHECK-LABEL: func @choice
// CHECK: pos.encoding @rope
// CHECK-NEXT: arith.constant 1 : i32
// CHECK-NEXT: arith.constant 1.000000e+02 : f32
func.func @choice(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [
      #pos.use<@rope, "rope", {pairing = "interleaved", base = 100.0}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// A definition of the module comes before any file.
// CHECK-LABEL: func @own
// CHECK: pos.encoding @causal
// CHECK: pos.coord key
pos.encoding @causal {
  pos.mask {
    %i = pos.coord query
    %j = pos.coord key
    %v = arith.cmpi slt, %j, %i : i32
    pos.yield %v : i1
  }
}
func.func @own(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// The first folder that has the file wins.
// CHECK-LABEL: func @order
// CHECK: arith.cmpi
// SHADOW-LABEL: func @order
// SHADOW: pos.mask
// SHADOW-NEXT: arith.constant true
func.func @order(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// The gradient and row maps link like attention.
// CHECK-LABEL: func @owners
// CHECK: pos.attention_backward {{.*}} uses [#pos.use<@causal, "causal">]
// CHECK: pos.map_rows {{.*}} uses [#pos.use<@sinusoidal, "s">]
// CHECK-DAG: pos.encoding @causal
// CHECK-DAG: pos.encoding @sinusoidal
func.func @owners(%x: tensor<?x?x?x8xf32>, %l: tensor<?x?x?xf32>, %e: tensor<?x?x8xf32>, %stats: tensor<?x?x?x2xf32>) {
  %g:3 = pos.attention_backward %x, %x, (%x), (%x), %stats, (%x), %l
    uses [#pos.use<@causal, "causal">] gradients []
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
  %y = pos.map_rows %e of embedding uses [#pos.use<@sinusoidal, "s">]
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return
}

// -----

// A function may be called like an encoding.
// CHECK-LABEL: func @causal
// CHECK: uses [#pos.use<@[[NAME:causal_.+]], "causal">]
// CHECK: pos.encoding @[[NAME]]
func.func @causal(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// Hosts are linked with the options of their own; hosts of two uses are shared.
// CHECK-LABEL: func @hosts
// CHECK: uses [#pos.use<@mixer, "m", {}, [#pos.use<@[[A:.+]], "near">, #pos.use<@[[B:.+]], "far">]>, #pos.use<@[[A]], "tilt">]
// CHECK: pos.encoding @mixer
// CHECK: pos.encoding @[[A]]
// CHECK-NEXT: arith.constant 5.000000e-01 : f32
// CHECK: pos.encoding @[[B]]
// CHECK-NEXT: arith.constant 2.000000e+00 : f32
pos.encoding @mixer {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %b = pos.host : tensor<?xf32>
    %t = arith.addf %s, %b : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
func.func @hosts(%x: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [
      #pos.use<@mixer, "m", {}, [#pos.use<@tilt, "near">, #pos.use<@tilt, "far", {slope = 2 : i32}>]>,
      #pos.use<@tilt, "tilt">]
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

// Parameters and sites that options leave unused are not there; those that the
// definition itself does not use stay.
// CHECK-LABEL: func @unused
// CHECK: pos.encoding @sides
// CHECK: pos.param "key"
// CHECK-NOT: pos.param
// CHECK-NOT: pos.weighted_rows
// CHECK: pos.encoding @sides_0
// CHECK: pos.param "key"
// CHECK: pos.param "value"
// CHECK: pos.param "spare"
// CHECK: pos.weighted_rows
pos.encoding @sides {
  %values = pos.option "values" : i1 = true
  %gain = pos.option "gain" : f32 = 1.0 : f32
  %n = arith.constant 4 : i32
  %width = pos.extent value_dim
  %key = pos.param "key" : tensor<?xf32> dims(%n)
  %value = pos.param "value" : tensor<?x?xf32> dims(%n, %width)
  %spare = pos.param "spare" : tensor<?xf32> dims(%n)
  pos.score {
  ^bb0(%s: f32):
    %zero = arith.constant 0 : i32
    %a = pos.read %key[%zero] : tensor<?xf32>
    %b = arith.mulf %a, %gain : f32
    %t = arith.addf %s, %b : f32
    pos.yield %t : f32
  }
  pos.weighted_rows %value when %values : tensor<?x?xf32> {
    %zero = arith.constant 0 : i32
    pos.yield %zero : i32
  }
}
func.func @unused(%x: tensor<?x?x?x8xf32>, %p: tensor<4xf32>, %v: tensor<4x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@sides, "a", {values = false}>]
    params(%p : tensor<4xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  %o2, %lse2 = pos.attention %x, %x, (%x) uses [#pos.use<@sides, "b">]
    params(%p, %v, %p : tensor<4xf32>, tensor<4x8xf32>, tensor<4xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// What an option is given is kept where f32 does not hold it.
// CHECK-LABEL: func @exact
// CHECK: arith.constant {pos.exact = 1.000000e-01 : f64} 1.000000e-01 : f32
func.func @exact(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@tilt, "t", {slope = 0.1}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}
