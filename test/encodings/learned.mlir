// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// One read where nothing is interpolated.
// CHECK-LABEL: func @direct
// CHECK: %[[ROW:.+]] = pos.hoist [self, lane] {
// CHECK:   pos.read
// CHECK-NOT:   pos.read
// CHECK: pos.rows of [embedding] single {
// CHECK: arith.addf %{{.+}}, %[[ROW]]
func.func @direct(%x: tensor<?x?x8xf32>, %p0: tensor<1024x8xf32>) -> tensor<?x?x8xf32> {
  %y = pos.map_rows %x of embedding uses [#pos.use<@learned, "learned">]
    params(%p0 : tensor<1024x8xf32>)
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// -----

// Longer sequences stretch the table.
// CHECK-LABEL: func @stretched
// CHECK: pos.hoist [self, lane] {
// CHECK:   pos.read
// CHECK:   pos.read
// CHECK:   pos.read
// CHECK:   arith.select
func.func @stretched(%x: tensor<?x?x8xf32>, %p0: tensor<1024x8xf32>) -> tensor<?x?x8xf32> {
  %y = pos.map_rows %x of embedding uses [#pos.use<@learned, "learned", {train_length = 128}>]
    params(%p0 : tensor<1024x8xf32>)
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}
