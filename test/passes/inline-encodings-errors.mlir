// RUN: sextant-opt %s --pos-inline-encodings --split-input-file --verify-diagnostics

pos.encoding @two {
  %h = pos.extent heads
  %one = arith.constant 1.0 : f32
  %a = pos.param "a" : tensor<?xf32> dims(%h) init constant(%one)
  // expected-note @below {{declared here}}
  %b = pos.param "b" : tensor<?xf32> dims(%h) init constant(%one)
}
func.func @f(%q: tensor<4x3x?x8xf32>, %p0: tensor<3xf32>) {
  // expected-error @below {{lacks parameter 't.b': got 1 parameter(s)}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@two, "t">]
    params(%p0 : tensor<3xf32>)
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

pos.encoding @two {
  %h = pos.extent heads
  %one = arith.constant 1.0 : f32
  %a = pos.param "a" : tensor<?xf32> dims(%h) init constant(%one)
  %b = pos.param "b" : tensor<?xf32> dims(%h) init constant(%one)
}
func.func @f(%q: tensor<4x3x?x8xf32>, %p0: tensor<3xf32>, %p1: tensor<3xf32>, %p2: tensor<3xf32>) {
  // expected-error @below {{has 3 parameters, but its uses declare 2}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@two, "t">]
    params(%p0, %p1, %p2 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

pos.encoding @two {
  %h = pos.extent heads
  %one = arith.constant 1.0 : f32
  // expected-note @below {{declared here}}
  %a = pos.param "a" : tensor<?xf32> dims(%h) init constant(%one)
  %b = pos.param "b" : tensor<?xf32> dims(%h) init constant(%one)
}
func.func @f(%q: tensor<4x3x?x8xf32>, %p0: tensor<3x3xf32>, %p1: tensor<3xf32>) {
  // expected-error @below {{parameter 't.a' must have rank 1, got 'tensor<3x3xf32>'}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@two, "t">]
    params(%p0, %p1 : tensor<3x3xf32>, tensor<3xf32>)
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

pos.encoding @two {
  %h = pos.extent heads
  %one = arith.constant 1.0 : f32
  %a = pos.param "a" : tensor<?xf32> dims(%h) init constant(%one)
  // expected-note @below {{declared here}}
  %b = pos.param "b" : tensor<?xf32> dims(%h) init constant(%one)
}
func.func @f(%q: tensor<4x3x?x8xf32>, %p0: tensor<3xf32>, %p1: tensor<3xi32>) {
  // expected-error @below {{parameter 't.b' must have elements of type 'f32', got 'tensor<3xi32>'}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@two, "t">]
    params(%p0, %p1 : tensor<3xf32>, tensor<3xi32>)
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

pos.encoding @two {
  %h = pos.extent heads
  %one = arith.constant 1.0 : f32
  %a = pos.param "a" : tensor<?xf32> dims(%h) init constant(%one)
  // expected-note @below {{declared here}}
  %b = pos.param "b" : tensor<?xf32> dims(%h) init constant(%one)
}
func.func @f(%q: tensor<4x3x?x8xf32>, %p0: tensor<3xf32>, %p1: tensor<4xf32>) {
  // expected-error @below {{parameter 't.b' must have size 3 in dimension 0, got 'tensor<4xf32>'}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@two, "t">]
    params(%p0, %p1 : tensor<3xf32>, tensor<4xf32>)
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

pos.encoding @ids {
  %b = pos.extent batch
  // expected-note @below {{declared here}}
  %x = pos.param "x" : tensor<?xi32> dims(%b)
}
func.func @f(%q: tensor<4x3x?x8xf32>, %p0: tensor<3xi32>) {
  // expected-error @below {{parameter 'i.x' must have size 1 or a divisor of 4 in dimension 0, got 'tensor<3xi32>'}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@ids, "i">]
    params(%p0 : tensor<3xi32>)
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

func.func @f(%q: tensor<4x3x?x8xf32>) {
  // expected-error @below {{uses @nobody, which is not linked}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@nobody, "n">]
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

pos.encoding @e {
  %b = arith.constant 2 : i32
  %e = arith.constant 10 : i32
  // expected-error @below {{lanes [2, 10) lie outside the 8 lanes of a row (C6)}}
  pos.rows of [query] half lanes(%b, %e) {
  ^bb0(%x: f32, %y: f32):
    pos.yield %y, %x : f32, f32
  }
}
func.func @f(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@e, "e">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @e {
  %b = arith.constant 2 : i32
  %e = arith.constant 5 : i32
  // expected-error @below {{maps pairs of lanes, got 3 lanes (C6)}}
  pos.rows of [query] half lanes(%b, %e) {
  ^bb0(%x: f32, %y: f32):
    pos.yield %y, %x : f32, f32
  }
}
func.func @f(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@e, "e">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @e {
  %b = arith.constant 2 : i32
  // expected-note @below {{'pos.extent' is not known here}}
  %e = pos.extent heads
  // expected-error @below {{operand must be known at compile time: an option, a constant or an extent that is static}}
  pos.rows of [query] half lanes(%b, %e) {
  ^bb0(%x: f32, %y: f32):
    pos.yield %y, %x : f32, f32
  }
}
func.func @f(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@e, "e">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @e {
  // expected-error @below {{acts around attention: @e cannot be inlined into one}}
  %d = pos.input "digits" : tensor<?xi32>
}
func.func @f(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@e, "e">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @empty {
  %n = arith.constant 0 : i32
  %one = arith.constant 1.0 : f32
  // expected-note @below {{declared here}}
  %p = pos.param "p" : tensor<?xf32> dims(%n) init constant(%one)
}
func.func @f(%q: tensor<?x?x?x8xf32>, %p: tensor<?xf32>) {
  // expected-error @below {{parameter 'e.p' would have size 0 in dimension 0}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@empty, "e">] params(%p : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

// A host adds to the score: softer things are no hosts.
pos.encoding @mixer {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %b = pos.host : tensor<?xf32>
    %t = arith.addf %s, %b : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
pos.encoding @host {
  // expected-error @below {{is not additive in the score: it cannot be a host}}
  pos.score {
  ^bb0(%s: f32):
    // expected-note @below {{'math.tanh' does more than add to it}}
    %t = math.tanh %s : f32
    pos.yield %t : f32
  }
}
func.func @f(%q: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m", {}, [#pos.use<@host, "h">]>]
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

pos.encoding @mixer {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %b = pos.host : tensor<?xf32>
    %t = arith.addf %s, %b : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
pos.encoding @host {
  // expected-error @below {{is no score: @host cannot be a host}}
  pos.mask {
    %true = arith.constant true
    pos.yield %true : i1
  }
}
func.func @f(%q: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m", {}, [#pos.use<@host, "h">]>]
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

pos.encoding @mixer {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %b = pos.host : tensor<?xf32>
    %t = arith.addf %s, %b : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
pos.encoding @host {
  // expected-error @below {{of all heads: @host cannot be a host}}
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    pos.yield %s : tensor<?xf32>
  }
}
func.func @f(%q: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m", {}, [#pos.use<@host, "h">]>]
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

pos.encoding @mixer {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %b = pos.host : tensor<?xf32>
    %t = arith.addf %s, %b : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
pos.encoding @host {
  %n = pos.extent heads
  // expected-note @below {{declared here}}
  %a = pos.param "a" : tensor<?xf32> dims(%n)
}
func.func @f(%q: tensor<?x2x?x8xf32>) {
  // expected-error @below {{lacks parameter 'm.h.a': got 0 parameter(s)}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m", {}, [#pos.use<@host, "h">]>]
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

// The number of heads is compiled in.
pos.encoding @mixer {
  // expected-error @below {{sees all heads at once: the number of heads is compiled in}}
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    pos.yield %s : tensor<?xf32>
  }
}
func.func @f(%q: tensor<?x?x?x8xf32>) {
  // expected-note @below {{the type of this query leaves its heads open}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m">]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
  return
}

// -----

pos.encoding @mixer {
  %n = arith.constant 3 : i32
  %w = pos.param "w" : tensor<?x?xf32> dims(%n, %n)
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // expected-error @below {{a vector of 2 elements does not fit a matrix of 3 columns from column 0 on (M2)}}
    %t = pos.contract %w, %s : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
func.func @f(%q: tensor<?x2x?x8xf32>, %p: tensor<?x?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m">]
    params(%p : tensor<?x?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

pos.encoding @mixer {
  %n = arith.constant 3 : i32
  %heads = pos.extent heads
  %w = pos.param "w" : tensor<?x?xf32> dims(%n, %heads)
  // expected-error @below {{payload yields 3 scores for 2 heads}}
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %t = pos.contract %w, %s : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
func.func @f(%q: tensor<?x2x?x8xf32>, %p: tensor<?x?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m">]
    params(%p : tensor<?x?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

pos.encoding @mixer {
  %n = arith.constant 3 : i32
  %b = pos.param "b" : tensor<?xf32> dims(%n)
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // expected-error @below {{combines vectors of 2 and 3 elements}}
    %t = arith.addf %s, %b : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
func.func @f(%q: tensor<?x2x?x8xf32>, %p: tensor<?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m">]
    params(%p : tensor<?xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

pos.encoding @mixer {
  %keys = pos.extent key
  %size = arith.index_cast %keys : i32 to index
  %zero = arith.constant 0.0 : f32
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // expected-error @below {{extent must be known at compile time}}
    %t = tensor.splat %zero[%size] : tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}
func.func @f(%q: tensor<?x2x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@mixer, "m">]
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return
}

// -----

// What an encoding requires of its options.
pos.encoding @long {
  %length = arith.constant 7 : i32
  %most = arith.constant 5 : i32
  // expected-note @below {{required here}}
  pos.require %length at_most %most, "too long"
}
func.func @f(%q: tensor<4x3x?x8xf32>) {
  // expected-error @below {{use 't' of @long: too long: got 7, but must be at most 5}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@long, "t">]
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

// The same from below, of a host.
pos.encoding @adds {
  pos.score {
  ^bb0(%s: f32):
    %b = pos.host : f32
    %t = arith.addf %s, %b : f32
    pos.yield %t : f32
  }
}
pos.encoding @short {
  %length = pos.extent heads
  %least = arith.constant 5 : i32
  // expected-note @below {{required here}}
  pos.require %length at_least %least, "too short"
  pos.score {
  ^bb0(%s: f32):
    pos.yield %s : f32
  }
}
func.func @f(%q: tensor<4x3x?x8xf32>) {
  // expected-error @below {{use 'a.t' of @short: too short: got 3, but must be at least 5}}
  %o, %lse = pos.attention %q, %q, (%q)
    uses [#pos.use<@adds, "a", {}, [#pos.use<@short, "t">]>]
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

// A value that only the call knows must be an extent itself.
pos.encoding @sum {
  %length = pos.extent key
  %more = arith.addi %length, %length : i32
  %most = arith.constant 5 : i32
  // expected-error @below {{must be known at compile time, but for an extent as its value}}
  pos.require %more at_most %most, "too long"
}
func.func @f(%q: tensor<4x3x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@sum, "t">]
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}

// -----

// How far apart coordinates may be is known when kernels are made.
pos.encoding @span {
  %length = pos.extent key
  // expected-error @below {{limit must be known at compile time}}
  pos.require_span at_most %length, "too far apart"
}
func.func @f(%q: tensor<4x3x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@span, "t">]
    : tensor<4x3x?x8xf32>, tensor<4x3x?x8xf32>, (tensor<4x3x?x8xf32>)
    -> (tensor<4x3x?x8xf32>), tensor<4x3x?xf32>
  return
}
