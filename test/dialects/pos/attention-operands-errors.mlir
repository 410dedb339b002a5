// Operands of an attention that do not fit each other, one per section.
// RUN: sextant-opt %s --split-input-file --verify-diagnostics

// C8: one dtype for query, key and value.
func.func @dtypes(%q: tensor<1x1x?x8xf32>, %v: tensor<1x1x?x8xbf16>) {
  // expected-error @below {{query and value must share a dtype (C8), got 'f32' and 'bf16'}}
  %o, %lse = pos.attention %q, %q, (%v)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xbf16>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32>
  return
}

// -----

func.func @key_dtype(%q: tensor<1x1x?x8xf32>, %k: tensor<1x1x?x8xbf16>) {
  // expected-error @below {{query and key must share a dtype (C8), got 'f32' and 'bf16'}}
  %o, %lse = pos.attention %q, %k, (%q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xbf16>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32>
  return
}

// -----

func.func @heads(%q: tensor<1x4x?x8xf32>, %k: tensor<1x3x?x8xf32>) {
  // expected-error @below {{query heads must be a multiple of key heads, got 4 and 3}}
  %o, %lse = pos.attention %q, %k, (%k)
    : tensor<1x4x?x8xf32>, tensor<1x3x?x8xf32>, (tensor<1x3x?x8xf32>)
    -> (tensor<1x4x?x8xf32>), tensor<1x4x?xf32>
  return
}

// -----

func.func @head_dim(%q: tensor<1x1x?x8xf32>, %k: tensor<1x1x?x16xf32>) {
  // expected-error @below {{head dims of query and key differ: 8 and 16}}
  %o, %lse = pos.attention %q, %k, (%k)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x16xf32>, (tensor<1x1x?x16xf32>)
    -> (tensor<1x1x?x16xf32>), tensor<1x1x?xf32>
  return
}

// -----

func.func @dynamic_head_dim(%q: tensor<1x1x?x?xf32>) {
  // expected-error @below {{head dim must be static, got 'tensor<1x1x?x?xf32>'}}
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x?x?xf32>, tensor<1x1x?x?xf32>, (tensor<1x1x?x?xf32>)
    -> (tensor<1x1x?x?xf32>), tensor<1x1x?xf32>
  return
}

// -----

// The scale, 1 / sqrt(0), times a product of no lanes is NaN.
func.func @no_head_dim(%q: tensor<1x1x?x0xf32>, %v: tensor<1x1x?x8xf32>) {
  // expected-error @below {{head dim must be at least 1, got 'tensor<1x1x?x0xf32>'}}
  %o, %lse = pos.attention %q, %q, (%v)
    : tensor<1x1x?x0xf32>, tensor<1x1x?x0xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32>
  return
}

// -----

func.func @wide_head_dim(%q: tensor<1x1x?x8193xf32>, %v: tensor<1x1x?x8xf32>) {
  // expected-error @below {{head dim 8193 of 'tensor<1x1x?x8193xf32>' is too large: it must be at most 8192}}
  %o, %lse = pos.attention %q, %q, (%v)
    : tensor<1x1x?x8193xf32>, tensor<1x1x?x8193xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32>
  return
}

// -----

func.func @wide_values(%q: tensor<1x1x?x8xf32>, %v: tensor<1x1x?x100000xf32>) {
  // expected-error @below {{head dim 100000 of 'tensor<1x1x?x100000xf32>' is too large: it must be at most 8192}}
  %o, %lse = pos.attention %q, %q, (%v)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x100000xf32>)
    -> (tensor<1x1x?x100000xf32>), tensor<1x1x?xf32>
  return
}

// -----

func.func @wide_rows(%x: tensor<1x?x100000xf32>) {
  // expected-error @below {{width 100000 of 'tensor<1x?x100000xf32>' is too large: it must be at most 16384}}
  %y = pos.map_rows %x of embedding : tensor<1x?x100000xf32> -> tensor<1x?x100000xf32>
  return
}

// -----

func.func @batch(%q: tensor<2x1x?x8xf32>, %k: tensor<3x1x?x8xf32>) {
  // expected-error @below {{batch sizes of query and key differ: 2 and 3}}
  %o, %lse = pos.attention %q, %k, (%k)
    : tensor<2x1x?x8xf32>, tensor<3x1x?x8xf32>, (tensor<3x1x?x8xf32>)
    -> (tensor<2x1x?x8xf32>), tensor<2x1x?xf32>
  return
}

// -----

func.func @lengths(%k: tensor<1x1x5x8xf32>, %v: tensor<1x1x6x8xf32>) {
  // expected-error @below {{lengths of key and value differ: 5 and 6}}
  %o, %lse = pos.attention %k, %k, (%v)
    : tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>, (tensor<1x1x6x8xf32>)
    -> (tensor<1x1x5x8xf32>), tensor<1x1x5xf32>
  return
}

// -----

func.func @no_value(%q: tensor<1x1x?x8xf32>) {
  // expected-error @below {{expected at least one value operand}}
  %lse = "pos.attention"(%q, %q) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0>, resultSegmentSizes = array<i32: 0, 1, 0>}> ({
  }) : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> tensor<1x1x?xf32>
  return
}

// -----

func.func @outputs(%q: tensor<1x1x?x8xf32>) {
  // expected-error @below {{expected one output per value: 2, got 1}}
  %o, %lse = pos.attention %q, %q, (%q, %q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32>
  return
}

// -----

// Kernels write as much as the query and the values hold.
func.func @short_output(%q: tensor<2x4x?x8xf32>) {
  // expected-error @below {{output must fit 'tensor<2x4x?x8xf32>', got 'tensor<2x1x?x8xf32>'}}
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<2x4x?x8xf32>, tensor<2x4x?x8xf32>, (tensor<2x4x?x8xf32>)
    -> (tensor<2x1x?x8xf32>), tensor<2x4x?xf32>
  return
}

// -----

func.func @output_dtype(%q: tensor<1x1x?x8xf32>) {
  // expected-error @below {{output must fit 'tensor<1x1x?x8xf32>', got 'tensor<1x1x?x8xbf16>'}}
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xbf16>), tensor<1x1x?xf32>
  return
}

// -----

func.func @open_output(%q: tensor<1x1x?x8xf32>) {
  // expected-error @below {{head dim must be static, got 'tensor<1x1x?x?xf32>'}}
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x?xf32>), tensor<1x1x?xf32>
  return
}

// -----

func.func @short_lse(%q: tensor<1x1x5x8xf32>) {
  // expected-error @below {{log-sum-exp must fit 'tensor<1x1x5xf32>', got 'tensor<1x1x4xf32>'}}
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>, (tensor<1x1x5x8xf32>)
    -> (tensor<1x1x5x8xf32>), tensor<1x1x4xf32>
  return
}

// -----

// C8: statistics of f32 for rows of bf16.
func.func @lse_dtype(%q: tensor<1x1x?x8xbf16>) {
  // expected-error @below {{log-sum-exp must fit 'tensor<1x1x?xf32>', got 'tensor<1x1x?xf64>'}}
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>, (tensor<1x1x?x8xbf16>)
    -> (tensor<1x1x?x8xbf16>), tensor<1x1x?xf64>
  return
}

// -----

func.func @short_gradient(%q: tensor<1x1x?x8xf32>, %k: tensor<1x1x7x8xf32>, %lse: tensor<1x1x?xf32>, %stats: tensor<1x1x?x2xf32>) {
  // expected-error @below {{gradient of key must fit 'tensor<1x1x7x8xf32>', got 'tensor<1x1x6x8xf32>'}}
  %dq, %dk, %dv = pos.attention_backward %q, %k, (%k), (%q), %stats, (%q), %lse gradients []
    : tensor<1x1x?x8xf32>, tensor<1x1x7x8xf32>, (tensor<1x1x7x8xf32>),
      (tensor<1x1x?x8xf32>), tensor<1x1x?x2xf32>, (tensor<1x1x?x8xf32>), tensor<1x1x?xf32>
    -> tensor<1x1x?x8xf32>, tensor<1x1x6x8xf32>, (tensor<1x1x7x8xf32>)
  return
}

// -----

func.func @gradient_of_output(%q: tensor<1x1x?x8xf32>, %g: tensor<1x1x?x4xf32>, %lse: tensor<1x1x?xf32>, %stats: tensor<1x1x?x2xf32>) {
  // expected-error @below {{gradient of output must fit 'tensor<1x1x?x8xf32>', got 'tensor<1x1x?x4xf32>'}}
  %dq, %dk, %dv = pos.attention_backward %q, %q, (%q), (%q), %stats, (%g), %lse gradients []
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>),
      (tensor<1x1x?x8xf32>), tensor<1x1x?x2xf32>, (tensor<1x1x?x4xf32>), tensor<1x1x?xf32>
    -> tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
  return
}
