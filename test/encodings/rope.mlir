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

// -----

// The base grows with the factor; the frequency is still a function of the lane.
// CHECK-LABEL: func @ntk
// CHECK: pos.hoist [self, lane] {
// CHECK: %[[POWER:.+]] = arith.divf
// CHECK: %[[MORE:.+]] = math.powf %{{.+}}, %[[POWER]]
// CHECK: %[[BASE:.+]] = arith.mulf %[[MORE]], %{{.+}}
// CHECK: math.powf %[[BASE]], %{{.+}}
func.func @ntk(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "rope", {scaling = "ntk", factor = 4.0}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// The length in use is the largest coordinate of a key plus 1.
// CHECK-LABEL: func @ntk_dynamic
// CHECK: pos.hoist [self, lane] {
// CHECK: pos.bound greatest key
func.func @ntk_dynamic(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "rope", {scaling = "ntk_dynamic", factor = 2.0, train_length = 512}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Cosine and sine carry the temperature 0.1 log(4) + 1.
// CHECK-LABEL: func @yarn
// CHECK: %[[M:.+]] = arith.constant {{.*}}1.13862944 : f32
// CHECK: %[[COS:.+]] = math.cos
// CHECK: arith.mulf %[[COS]], %[[M]]
func.func @yarn(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@rope, "rope", {scaling = "yarn", factor = 4.0, train_length = 512}>]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}
