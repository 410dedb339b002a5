// RUN: sextant-opt %s --sextant-encoding-pipeline --split-input-file | FileCheck %s

// Tables over row and lane, added to the embedding.
// CHECK-LABEL: func @interleaved
// CHECK: pos.hoist [self, lane] {
// CHECK:   math.sin
// CHECK: pos.hoist [self, lane] {
// CHECK:   math.cos
// CHECK: pos.rows of [embedding] interleaved {
func.func @interleaved(%x: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %y = pos.map_rows %x of embedding uses [#pos.use<@sinusoidal, "sinusoidal">]
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// -----

// Sines in the first half of the lanes.
// CHECK-LABEL: func @halves
// CHECK: pos.rows of [embedding] half {
func.func @halves(%x: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %y = pos.map_rows %x of embedding uses [#pos.use<@sinusoidal, "sinusoidal", {layout = "halves"}>]
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}
