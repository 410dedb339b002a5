// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Sine and cosine become tables over row and lane; the tile multiplies.
// CHECK-LABEL: func @half
// CHECK: %[[COS:.+]] = pos.hoist [self, lane] {
// CHECK:   math.powf
// CHECK:   math.cos
// CHECK: %[[SIN:.+]] = pos.hoist [self, lane] {
// CHECK:   math.powf
// CHECK:   math.sin
// CHECK: pos.rows of [query, key] half {
// CHECK-NEXT: ^bb0(%[[X:.+]]: f32, %[[Y:.+]]: f32):
// CHECK-NEXT: %[[XC:.+]] = arith.mulf %[[X]], %[[COS]]
// CHECK-NEXT: %[[YS:.+]] = arith.mulf %[[Y]], %[[SIN]]
// CHECK-NEXT: %[[U:.+]] = arith.subf %[[XC]], %[[YS]]
// CHECK-NEXT: %[[XS:.+]] = arith.mulf %[[X]], %[[SIN]]
// CHECK-NEXT: %[[YC:.+]] = arith.mulf %[[Y]], %[[COS]]
// CHECK-NEXT: %[[V:.+]] = arith.addf %[[XS]], %[[YC]]
// CHECK-NEXT: pos.yield %[[U]], %[[V]]
func.func @half(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "rope">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Half of the lanes, interleaved, with another base.
// CHECK-LABEL: func @part
// CHECK: %[[END:.+]] = arith.constant 4 : i32
// CHECK: arith.constant 5.000000e+05 : f32
// CHECK: pos.rows of [query, key] interleaved lanes(%{{.+}}, %[[END]]) {
func.func @part(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "rope", {pairing = "interleaved", base = 5.0e5, lanes = 4}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Linear interpolation divides the angle.
// CHECK-LABEL: func @linear
// CHECK: %[[FACTOR:.+]] = arith.constant 4.000000e+00 : f32
// CHECK: arith.divf %{{.+}}, %[[FACTOR]]
// CHECK: math.sin
func.func @linear(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "rope", {scaling = "linear", factor = 4.0}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}
