// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// A table over row and lane takes the place of an eighth of the lanes.
// CHECK-LABEL: func @exact
// CHECK: %[[END:.+]] = arith.constant 3 : i32
// CHECK: %[[VALUE:.+]] = pos.hoist [self, lane] {
// CHECK-NOT: pos.read
// CHECK: pos.rows of [query_input, key_input] single lanes(%{{.+}}, %[[END]]) {
// CHECK: pos.yield %[[VALUE]]
func.func @exact(%x: tensor<?x?x24xf32>) -> tensor<?x?x24xf32> {
  %y = pos.map_rows %x of query_input uses [#pos.use<@expe, "expe">]
    : tensor<?x?x24xf32> -> tensor<?x?x24xf32>
  return %y : tensor<?x?x24xf32>
}

// -----

// Equal values do not vary with the lane.
// CHECK-LABEL: func @equal
// CHECK: arith.constant 5 : i32
// CHECK: pos.hoist [self] {
// CHECK:   arith.constant 5.000000e-01
func.func @equal(%x: tensor<?x?x24xf32>) -> tensor<?x?x24xf32> {
  %y = pos.map_rows %x of key_input uses [#pos.use<@expe, "expe", {values = "equal", channels = 5 : i32, scaled = 0.5 : f64}>]
    : tensor<?x?x24xf32> -> tensor<?x?x24xf32>
  return %y : tensor<?x?x24xf32>
}

// -----

// Learned ones read both parameters.
// CHECK-LABEL: func @learned
// CHECK: pos.hoist [self, lane] {
// CHECK:   pos.read
// CHECK:   pos.read
func.func @learned(%x: tensor<?x?x24xf32>, %s: tensor<f32>, %theta: tensor<f32>) -> tensor<?x?x24xf32> {
  %y = pos.map_rows %x of key_input uses [#pos.use<@expe, "expe", {values = "learned"}>]
    params(%s, %theta : tensor<f32>, tensor<f32>)
    : tensor<?x?x24xf32> -> tensor<?x?x24xf32>
  return %y : tensor<?x?x24xf32>
}
