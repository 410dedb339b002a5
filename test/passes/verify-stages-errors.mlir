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
