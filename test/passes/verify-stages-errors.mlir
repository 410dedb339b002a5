// RUN: sextant-opt %s --split-input-file --verify-diagnostics --pos-verify-hoisted

pos.encoding @late {} // expected-error {{is left after inlining}}

// -----

func.func @pending(%x: tensor<?x?x?x8xf32>) {
  // expected-error @below {{has uses of encodings after inlining}}
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@causal, "c">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

func.func @masks(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-note @below {{it belongs to this one}}
    pos.mask {
      %v = arith.constant true
      pos.yield %v : i1
    }
    // expected-error @below {{is left after fusing}}
    pos.mask {
      %v = arith.constant true
      pos.yield %v : i1
    }
  }
  return
}

// -----

func.func @scores(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-note @below {{it belongs to this one}}
    pos.score {
    ^bb0(%s: f32):
      pos.yield %s : f32
    }
    // expected-error @below {{is left after fusing}}
    pos.score {
    ^bb0(%s: f32):
      pos.yield %s : f32
    }
  }
  return
}

// -----

func.func @axes(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-error @below {{varies with more than its axes}}
    %h = pos.hoist [offset] {
      %i = pos.head
      pos.yield %i : i32
    } : i32
  }
  return
}

// -----

func.func @tile(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // expected-error @below {{has axes that no kernel keeps outside its tiles}}
    %h = pos.hoist [query, key] {
      %i = pos.index query
      pos.yield %i : i32
    } : i32
  }
  return
}

// -----

func.func @forgotten(%x: tensor<?x?x?x8xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%p : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%r: tensor<?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %h = pos.head
      // expected-error @below {{is left in a payload, though it needs neither score nor row}}
      %a = pos.read %r[%h] : tensor<?xf32>
      %t = arith.addf %s, %a : f32
      pos.yield %t : f32
    }
  }
  return
}

// -----

func.func @kinds(%x: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    // expected-note @below {{it belongs to this one}}
    pos.score {
    ^bb0(%s: f32):
      pos.yield %s : f32
    }
    // expected-error @below {{is left after fusing}}
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      pos.yield %s : tensor<2xf32>
    }
  }
  return
}

// -----

func.func @forgotten_at_heads(%x: tensor<?x2x?x8xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%p : tensor<?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%r: tensor<?xf32>):
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %t = pos.for_heads (%s) {
      ^bb0(%y: f32):
        %h = pos.head
        // expected-error @below {{is left in a payload, though it needs neither score nor row}}
        %a = pos.read %r[%h] : tensor<?xf32>
        %z = arith.addf %y, %a : f32
        pos.yield %z : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      pos.yield %t : tensor<2xf32>
    }
  }
  return
}

// -----

func.func @vector_axes(%x: tensor<?x2x?x8xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %x, %x, (%x) params(%p : tensor<?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%r: tensor<?xf32>):
    // expected-error @below {{of a vector is a table over offsets of a static extent}}
    %t = pos.hoist [query] {
      %e = pos.elements %r : tensor<?xf32> -> tensor<2xf32>
      pos.yield %e : tensor<2xf32>
    } : tensor<2xf32>
  }
  return
}

// -----

func.func @row_terms(%x: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %t = pos.hoist [query] {
      %c = arith.constant 1.0 : f32
      pos.yield %c : f32
    } : f32
    // expected-note @below {{it belongs to this one}}
    pos.row_term %t : f32
    // expected-error @below {{is left after fusing}}
    pos.row_term %t : f32
  }
  return
}

// -----

// Offsets have gaps under given positions: a vector has no table over them.
func.func @vector_of_positions(%x: tensor<?x2x?x8xf32>, %p: tensor<1x?x1xi32>) {
  %o, %lse = pos.attention %x, %x, (%x)
    query_positions(%p : tensor<1x?x1xi32>) key_positions(%p : tensor<1x?x1xi32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
    // expected-error @below {{of a vector has a row per offset, but positions are given}}
    %t = pos.hoist [offset] {
      %b = pos.for_heads () {
        %d = pos.offset
        %f = arith.sitofp %d : i32 to f32
        pos.yield %f : f32
      } : () -> tensor<2xf32>
      pos.yield %b : tensor<2xf32>
    } : tensor<2xf32>
  }
  return
}
