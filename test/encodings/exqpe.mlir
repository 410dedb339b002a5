// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// A table over row and lane; positions are divided by the number of lanes.
// CHECK-LABEL: func @exact
// CHECK: %[[END:.+]] = arith.constant 3 : i32
// CHECK: %[[VALUE:.+]] = pos.hoist [self, lane] {
// CHECK:   arith.floordivsi %{{.+}}, %[[END]]
// CHECK: pos.rows of [query_input, key_input] single lanes(%{{.+}}, %[[END]]) {
// CHECK: pos.yield %[[VALUE]]
func.func @exact(%x: tensor<?x?x24xf32>) -> tensor<?x?x24xf32> {
  %y = pos.map_rows %x of query_input uses [#pos.use<@exqpe, "exqpe">]
    : tensor<?x?x24xf32> -> tensor<?x?x24xf32>
  return %y : tensor<?x?x24xf32>
}

// -----

// Learned values are three parameters.
// CHECK-LABEL: func @learned
// CHECK: pos.hoist [self, lane] {
// CHECK-COUNT-3: pos.read
func.func @learned(%x: tensor<?x?x24xf32>, %s: tensor<f32>, %one: tensor<f32>, %two: tensor<f32>) -> tensor<?x?x24xf32> {
  %y = pos.map_rows %x of key_input uses [#pos.use<@exqpe, "exqpe", {values = "learned"}>]
    params(%s, %one, %two : tensor<f32>, tensor<f32>, tensor<f32>)
    : tensor<?x?x24xf32> -> tensor<?x?x24xf32>
  return %y : tensor<?x?x24xf32>
}
