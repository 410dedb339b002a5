// What row maps outside attention work on, one per section.
// RUN: sextant-opt %s --split-input-file --verify-diagnostics

func.func @rows_of_no_sequence(%x: tensor<9x8xf32>) -> tensor<?x?x8xf32> {
  // expected-error @below {{expected rows [B, L, C], or indices into the table, got 'tensor<9x8xf32>'}}
  %y = pos.map_rows %x of embedding : tensor<9x8xf32> -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// -----

func.func @indices_into_rows(%x: tensor<?x?x8xf32>, %i: tensor<?x?xi64>) -> tensor<?x?x8xf32> {
  // expected-error @below {{expected a table [V, C] of the rows that indices take, got 'tensor<?x?x8xf32>'}}
  %y = pos.map_rows %x[%i] of embedding : tensor<?x?x8xf32>[tensor<?x?xi64>] -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// -----

func.func @table_of_other_width(%x: tensor<9x4xf32>, %i: tensor<?x?xi64>) -> tensor<?x?x8xf32> {
  // expected-error @below {{widths of table and mapped rows differ: 'tensor<9x4xf32>' and 'tensor<?x?x8xf32>'}}
  %y = pos.map_rows %x[%i] of embedding : tensor<9x4xf32>[tensor<?x?xi64>] -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// -----

func.func @indices_of_other_length(%x: tensor<9x8xf32>, %i: tensor<?x5xi64>) -> tensor<?x4x8xf32> {
  // expected-error @below {{lengths of indices and mapped rows differ: 'tensor<?x5xi64>' and 'tensor<?x4x8xf32>'}}
  %y = pos.map_rows %x[%i] of embedding : tensor<9x8xf32>[tensor<?x5xi64>] -> tensor<?x4x8xf32>
  return %y : tensor<?x4x8xf32>
}

// -----

func.func @gradient_of_other_dtype(%x: tensor<?x?x8xf32>, %dy: tensor<?x?x8xbf16>) -> tensor<?x?x8xf32> {
  // expected-error @below {{rows and mapped rows must share a dtype, got 'f32' and 'bf16'}}
  %dx = pos.map_rows_backward %x, %dy of embedding gradients []
    : tensor<?x?x8xf32>, tensor<?x?x8xbf16> -> tensor<?x?x8xf32>
  return %dx : tensor<?x?x8xf32>
}
