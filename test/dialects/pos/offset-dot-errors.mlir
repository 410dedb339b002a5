// Constraints of `pos.offset_dot`, one per section.
// RUN: sextant-opt %s --split-input-file --verify-diagnostics

// O1: neither an index nor columns.
func.func @nothing(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %r: tensor<5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %r : tensor<8x5xf32>, tensor<5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      // expected-error @below {{expected either an index or a number of columns and a body (i32) -> f32 (O1)}}
      %y = pos.offset_dot %table : tensor<8x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

// O1: a sum is over columns.
func.func @rows(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %r: tensor<5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %r : tensor<8x5xf32>, tensor<5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      // expected-error @below {{expected either an index or a number of columns and a body (i32) -> f32 (O1)}}
      %y = pos.offset_dot %table to %n {
      ^bb0(%c: i32):
        %x = arith.sitofp %c : i32 to f32
        pos.yield %x : f32
      } : tensor<8x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

// O1: a factor is a float.
func.func @integer(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %r: tensor<5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %r : tensor<8x5xf32>, tensor<5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      // expected-error @below {{expected either an index or a number of columns and a body (i32) -> f32 (O1)}}
      %y = pos.offset_dot %table columns to %n {
      ^bb0(%c: i32):
        pos.yield %c : i32
      } : tensor<8x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

// O2: the row of a key.
func.func @key_row(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %r: tensor<5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %r : tensor<8x5xf32>, tensor<5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      // expected-note @below {{this varies with more}}
      %j = pos.index key
      // expected-error @below {{the index may vary with the offset only (O2)}}
      %y = pos.offset_dot %table columns[%j] : tensor<8x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

// O2: a factor of the head.
func.func @head_factor(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %r: tensor<5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %r : tensor<8x5xf32>, tensor<5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      // expected-error @below {{the factor may vary with the offset only (O2)}}
      %y = pos.offset_dot %table columns to %n {
      ^bb0(%c: i32):
        // expected-note @below {{this varies with more}}
        %h = pos.head
        %p = arith.muli %c, %h : i32
        %x = arith.sitofp %p : i32 to f32
        pos.yield %x : f32
      } : tensor<8x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

// O2: a factor that is trained.
func.func @trained_factor(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %r: tensor<5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %r : tensor<8x5xf32>, tensor<5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      // expected-error @below {{the factor may vary with the offset only (O2)}}
      %y = pos.offset_dot %table columns to %n {
      ^bb0(%c: i32):
        // expected-note @below {{a parameter stands behind this}}
        %x = pos.read %rates[%c] : tensor<5xf32>
        pos.yield %x : f32
      } : tensor<8x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

// O2: a number of columns that differs.
func.func @count_of_offsets(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %r: tensor<5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %r : tensor<8x5xf32>, tensor<5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      // expected-note @below {{this varies with more}}
      %n = pos.offset
      // expected-error @below {{the number of columns may vary with nothing (O2)}}
      %y = pos.offset_dot %table columns to %n {
      ^bb0(%c: i32):
        %x = arith.sitofp %c : i32 to f32
        pos.yield %x : f32
      } : tensor<8x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

// O3: positions have gaps.
func.func @positions(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %r: tensor<5xf32>, %p: tensor<1x?x1xi32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %r : tensor<8x5xf32>, tensor<5xf32>)
    query_positions(%p : tensor<1x?x1xi32>) key_positions(%p : tensor<1x?x1xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<8x5xf32>, %rates: tensor<5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %f = pos.offset
      // expected-error @below {{has a row per offset, but positions are given (O3)}}
      %y = pos.offset_dot %table columns[%f] : tensor<8x5xf32>
      pos.yield %y : f32
    }
  }
  return
}
