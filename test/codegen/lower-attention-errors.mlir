// RUN: sextant-opt %s --pos-lower-attention=target=cpu:avx512 --split-input-file --verify-diagnostics
// RUN: not sextant-opt %s --pos-lower-attention=target=gpu --split-input-file 2>&1 | FileCheck %s

// CHECK: unknown target 'gpu', expected one of cpu, reference, cpu:amx, cpu:avx512bf16, cpu:avx512, cpu:avx2

// C8: f64 is for the reference.
func.func @double(%x: tensor<?x?x?x8xf64>) -> tensor<?x?x?x8xf64> {
  // expected-error @below {{'pos.attention' op target cpu:avx512 computes f32 and bf16, not 'f64'; the target 'reference' computes f64}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf64>, tensor<?x?x?x8xf64>, (tensor<?x?x?x8xf64>)
    -> (tensor<?x?x?x8xf64>), tensor<?x?x?xf64>
  return %o : tensor<?x?x?x8xf64>
}

// -----

func.func @half(%x: tensor<?x?x?x8xf16>) -> tensor<?x?x?x8xf16> {
  // expected-error @below {{target cpu:avx512 computes f32 and bf16, not 'f16'; targets of GPUs compute f16, such as cuda:sm_80}}
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf16>, tensor<?x?x?x8xf16>, (tensor<?x?x?x8xf16>)
    -> (tensor<?x?x?x8xf16>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf16>
}

// -----

// Encodings come in before.
func.func @uses(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  // expected-error @below {{has uses of encodings after inlining}}
  // expected-note @below {{pos-lower-attention comes after pos-inline-encodings}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "causal">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Sums per bucket have no room in the kernels of all heads.
func.func @buckets(%x: tensor<?x2x?x8xf32>, %t: tensor<?x8xf32>) -> tensor<?x2x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) params(%t : tensor<?x8xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%table: tensor<?x8xf32>):
    // expected-note @below {{this score sees all heads}}
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      pos.yield %s : tensor<2xf32>
    }
    // expected-error @below {{'pos.weighted_rows' op has no kernel beside a score of all heads}}
    pos.weighted_rows %table : tensor<?x8xf32> {
      %d = pos.offset
      pos.yield %d : i32
    }
  }
  return %o : tensor<?x2x?x8xf32>
}

// -----

// Positions of an axis more than kernels keep at hand.
func.func @axes(%x: tensor<?x?x?x8xf32>, %p: tensor<?x?x5xi32>) -> tensor<?x?x?x8xf32> {
  // expected-error @below {{kernels of the CPU take positions of up to 4 axes, got 5}}
  %o, %lse = pos.attention %x, %x, (%x)
    query_positions(%p : tensor<?x?x5xi32>) key_positions(%p : tensor<?x?x5xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x8xf32>
}

// -----

// The gradient of hidden units of hidden units.
func.func @deep(%x: tensor<?x2x?x8xf32>, %l: tensor<?x2x?xf32>, %a: tensor<3x2xf32>, %b: tensor<3x3xf32>, %c: tensor<2x3xf32>, %stats: tensor<?x2x?x2xf32>) {
  %dq, %dk, %dv = pos.attention_backward %x, %x, (%x), (%x), %stats, (%x), %l
    params(%a, %b, %c : tensor<3x2xf32>, tensor<3x3xf32>, tensor<2x3xf32>) gradients []
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>), (tensor<?x2x?x8xf32>), tensor<?x2x?x2xf32>,
      (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
    -> tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>) {
  ^bb0(%w1: tensor<3x2xf32>, %w2: tensor<3x3xf32>, %w3: tensor<2x3xf32>):
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %y = pos.contract %w1, %s : tensor<3x2xf32>, tensor<2xf32> -> tensor<3xf32>
      // expected-error @below {{of hidden units to hidden units has no gradient on this target}}
      %z = pos.contract %w2, %y : tensor<3x3xf32>, tensor<3xf32> -> tensor<3xf32>
      %t = pos.contract %w3, %z : tensor<2x3xf32>, tensor<3xf32> -> tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
  }
  return
}

// -----

// A vector that has no kernel is told of once, whatever is made of it.
func.func @differ(%x: tensor<?x2x?x8xf32>) -> tensor<?x2x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      // expected-error @below {{is a vector of different constants, which has no kernel on this target}}
      %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %y = arith.mulf %s, %c : tensor<2xf32>
      %z = pos.for_heads (%y) {
      ^bb0(%h: f32):
        %t = math.tanh %h : f32
        pos.yield %t : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      %r = arith.addf %z, %y : tensor<2xf32>
      pos.yield %r : tensor<2xf32>
    }
  }
  return %o : tensor<?x2x?x8xf32>
}

// -----

// C10: what has no derivative rule is named where a gradient needs one.
func.func @noRule(%x: tensor<?x?x?x8xf32>, %l: tensor<?x?x?xf32>, %stats: tensor<?x?x?x2xf32>) -> tensor<?x?x?x8xf32> {
  %g:3 = pos.attention_backward %x, %x, (%x), (%x), %stats, (%x), %l gradients []
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) {
    pos.score {
    ^bb0(%s: f32):
      // expected-error @below {{'math.sincos' op has no derivative rule}}
      %sin, %cos = math.sincos %s : f32
      %t = arith.addf %s, %cos : f32
      pos.yield %t : f32
    }
  }
  return %g#0 : tensor<?x?x?x8xf32>
}

// -----

// A number made of the bits of another follows it; integers carry no gradient.
func.func @bits(%x: tensor<?x?x?x8xf32>, %l: tensor<?x?x?xf32>, %stats: tensor<?x?x?x2xf32>) -> tensor<?x?x?x8xf32> {
  %g:3 = pos.attention_backward %x, %x, (%x), (%x), %stats, (%x), %l gradients []
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) {
    pos.score {
    ^bb0(%s: f32):
      %one = arith.constant 8388608 : i32
      // expected-note @below {{the bits are taken here}}
      %b = arith.bitcast %s : f32 to i32
      %c = arith.addi %b, %one : i32
      // expected-error @below {{'arith.bitcast' op has no derivative rule for an integer that holds the bits of a value with a gradient}}
      %t = arith.bitcast %c : i32 to f32
      pos.yield %t : f32
    }
  }
  return %g#0 : tensor<?x?x?x8xf32>
}

// -----

// So it does behind a hoist; a number made of a parameter that is not trained
// has no gradient to lose.
func.func @hoistedBits(%x: tensor<?x?x?x8xf32>, %l: tensor<?x?x?xf32>, %p: tensor<?xf32>, %stats: tensor<?x?x?x2xf32>) -> tensor<?x?x?x8xf32> {
  %g:4 = pos.attention_backward %x, %x, (%x), (%x), %stats, (%x), %l params(%p, %p : tensor<?xf32>, tensor<?xf32>) gradients [1]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>), tensor<?xf32> {
  ^bb0(%fixed: tensor<?xf32>, %trained: tensor<?xf32>):
    %a = pos.hoist [head] {
      %h = pos.head
      %v = pos.read %fixed[%h] : tensor<?xf32>
      %b = arith.bitcast %v : f32 to i32
      pos.yield %b : i32
    } : i32
    %b = pos.hoist [head] {
      %h = pos.head
      %v = pos.read %trained[%h] : tensor<?xf32>
      // expected-note @below {{the bits are taken here}}
      %b = arith.bitcast %v : f32 to i32
      pos.yield %b : i32
    } : i32
    pos.score {
    ^bb0(%s: f32):
      %f = arith.bitcast %a : i32 to f32
      // expected-error @below {{'arith.sitofp' op has no derivative rule for an integer}}
      %t = arith.sitofp %b : i32 to f32
      %u = arith.addf %s, %f : f32
      %w = arith.addf %u, %t : f32
      pos.yield %w : f32
    }
  }
  return %g#0 : tensor<?x?x?x8xf32>
}

// -----

func.func @missingAxis(%x: tensor<?x?x?x8xf32>, %p: tensor<1x?x1xi32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) query_positions(%p : tensor<1x?x1xi32>)
    key_positions(%p : tensor<1x?x1xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.mask {
      // expected-error @below {{asks for axis 1, but the positions given have 1}}
      %o1 = pos.offset axis 1
      %zero = arith.constant 0 : i32
      %v = arith.cmpi sle, %o1, %zero : i32
      pos.yield %v : i1
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Without positions the index is the coordinate of axis 0 alone.
func.func @missingPositions(%x: tensor<?x?x?x8xf32>, %p: tensor<1x?x2xi32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) query_positions(%p : tensor<1x?x2xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.mask {
      %own = pos.coord query axis 1
      // expected-error @below {{asks for axis 1 of positions, but no positions of key are given: the index has one axis}}
      %other = pos.coord key axis 1
      %v = arith.cmpi sle, %other, %own : i32
      pos.yield %v : i1
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

func.func @missingAxisOfBound(%x: tensor<?x?x?x8xf32>, %p: tensor<1x?x1xi32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) query_positions(%p : tensor<1x?x1xi32>)
    key_positions(%p : tensor<1x?x1xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.mask {
      // expected-error @below {{asks for axis 1, but the positions given have 1}}
      %last = pos.bound greatest key axis 1
      %zero = arith.constant 0 : i32
      %v = arith.cmpi sle, %last, %zero : i32
      pos.yield %v : i1
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

// Columns are tables, which hoisting makes.
func.func @columns(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %n = arith.constant 2 : i32
    // expected-error @below {{'pos.columns' op values are no 'pos.hoist': hoist first}}
    pos.columns %n {
      %a = arith.constant 1.0 : f32
      pos.yield %a, %a : f32, f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

func.func @negative(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %n = arith.constant -2 : i32
    // expected-error @below {{'pos.columns' op appends -2 columns}}
    pos.columns %n {
      %a = arith.constant 1.0 : f32
      pos.yield %a, %a : f32, f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

func.func @wide_turn(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %n = arith.constant 9 : i32
    // expected-error @below {{'pos.turn_rows' op blocks of 9 lanes do not fit rows of 8 (T3)}}
    pos.turn_rows of [query] blocks %n {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %z = arith.constant 0.0 : f32
      pos.yield %z : f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

func.func @late_turn(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %n = arith.constant 4 : i32
    // expected-note @below {{this map is named earlier}}
    pos.rows of [query, key] single {
    ^bb0(%v: f32):
      pos.yield %v : f32
    }
    // expected-error @below {{'pos.turn_rows' op comes before other row maps of the same rows: name its encoding first (T2)}}
    pos.turn_rows of [query] blocks %n {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %z = arith.constant 0.0 : f32
      pos.yield %z : f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

func.func @turned_query(%x: tensor<?x?x?x8xf32>, %t: tensor<?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) params(%t : tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<?x8xf32>):
    %n = arith.constant 4 : i32
    // expected-note @below {{it turns here}}
    pos.turn_rows of [query] blocks %n {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %z = arith.constant 0.0 : f32
      pos.yield %z : f32
    }
    pos.score {
    ^bb0(%s: f32):
      %j = pos.index key
      // expected-error @below {{'pos.query_dot' op reads a query row that turns (T2)}}
      %d = pos.query_dot %table[%j] : tensor<?x8xf32>
      %u = arith.addf %s, %d : f32
      pos.yield %u : f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

// A key that turns is no row of `pos.key_dot`; the query may turn.
func.func @turned_key(%x: tensor<?x?x?x8xf32>, %t: tensor<?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) params(%t : tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<?x8xf32>):
    %n = arith.constant 4 : i32
    // expected-note @below {{it turns here}}
    pos.turn_rows of [query, key] blocks %n {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %z = arith.constant 0.0 : f32
      pos.yield %z : f32
    }
    pos.score {
    ^bb0(%s: f32):
      %j = pos.index query
      // expected-error @below {{'pos.key_dot' op reads a key row that turns (T2)}}
      %d = pos.key_dot %table[%j] : tensor<?x8xf32>
      %u = arith.addf %s, %d : f32
      pos.yield %u : f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// -----

func.func @noAxis(%x: tensor<?x?x?x8xf32>, %p: tensor<1x?x0xi32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x) key_positions(%p : tensor<1x?x0xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    pos.mask {
      %own = pos.coord query
      // expected-error @below {{asks for axis 0, but the positions given have 0}}
      %other = pos.coord key
      %v = arith.cmpi sle, %other, %own : i32
      pos.yield %v : i1
    }
  }
  return %o : tensor<?x?x?x8xf32>
}
