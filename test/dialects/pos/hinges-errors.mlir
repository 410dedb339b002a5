// Constraints of `pos.hinges` and `pos.hinge_sum`, one per section.
// RUN: sextant-opt %s --split-input-file --verify-diagnostics

// H1
func.func @units_of_a_key(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-error @below {{may vary with the unit, the batch and the head only (H1)}}
    %f = pos.hinges {
    ^bb0(%k: i32):
      // expected-note @below {{this varies with more}}
      %j = pos.index key
      %c = arith.sitofp %j : i32 to f32
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<4x5xf32>
  }
  return
}

// -----

func.func @too_few_coefficients(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-error @below {{body must yield five coefficients (f32)}}
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = arith.sitofp %k : i32 to f32
      pos.yield %c, %c : f32, f32
    } : tensor<4x5xf32>
  }
  return
}

// -----

func.func @no_units(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-error @below {{expected a result of five coefficients of one unit or more, got 'tensor<?x5xf32>'}}
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = arith.sitofp %k : i32 to f32
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<?x5xf32>
  }
  return
}

// -----

func.func @sum_of_no_units(%q: tensor<?x?x?x8xf32>, %w: tensor<4x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%w : tensor<4x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%f: tensor<4x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      // expected-error @below {{expected the units of a 'pos.hinges'}}
      %y = pos.hinge_sum %f at %s : tensor<4x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

// H2
func.func @sum_at_the_score(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = arith.sitofp %k : i32 to f32
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<4x5xf32>
    pos.score {
    ^bb0(%s: f32):
      // expected-note @below {{'arith.mulf' does}}
      %x = arith.mulf %s, %s : f32
      %u = math.absf %x : f32
      // expected-error @below {{argument must not need the score or the row (H2)}}
      %y = pos.hinge_sum %f at %u : tensor<4x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

func.func @sum_at_a_scan(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = arith.sitofp %k : i32 to f32
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<4x5xf32>
    pos.score {
    ^bb0(%s: f32):
      %one = arith.constant 1.0 : f32
      // expected-note @below {{'pos.scan' does}}
      %p = pos.scan %one rightward until %one : f32
      // expected-error @below {{argument must not need the score or the row (H2)}}
      %y = pos.hinge_sum %f at %p : tensor<4x5xf32>
      pos.yield %y : f32
    }
  }
  return
}

// -----

func.func @sum_at_an_input(%q: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>) -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = arith.sitofp %k : i32 to f32
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<4x5xf32>
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %t = pos.for_heads (%s) {
      ^bb0(%x: f32):
        // expected-note @below {{'math.absf' does}}
        %u = math.absf %x : f32
        // expected-error @below {{argument must not need the score or the row (H2)}}
        %y = pos.hinge_sum %f at %u : tensor<4x5xf32>
        pos.yield %y : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
  }
  return
}

// -----

// H3
func.func @sum_of_no_head(%q: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>) -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = arith.sitofp %k : i32 to f32
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<4x5xf32>
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %one = arith.constant 1.0 : f32
      // expected-error @below {{expected a score of one head, or 'pos.for_heads' in a score of all heads (H3)}}
      %y = pos.hinge_sum %f at %one : tensor<4x5xf32>
      %t = tensor.splat %y : tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
  }
  return
}

// -----

func.func @sum_of_a_hoist(%q: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>) -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = arith.sitofp %k : i32 to f32
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<4x5xf32>
    %b = pos.hoist [offset] {
      %t = pos.for_heads () {
        %one = arith.constant 1.0 : f32
        // expected-error @below {{expected a score of one head, or 'pos.for_heads' in a score of all heads (H3)}}
        %y = pos.hinge_sum %f at %one : tensor<4x5xf32>
        pos.yield %y : f32
      } : () -> tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    } : tensor<2xf32>
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %t = arith.addf %s, %b : tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
  }
  return
}
