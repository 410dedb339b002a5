// Every op of the dialect, printed and parsed twice.
// RUN: sextant-opt %s | sextant-opt | FileCheck %s
// RUN: sextant-opt %s --mlir-print-op-generic | sextant-opt | FileCheck %s

// Options, parameters with each kind of initial value, inputs.
// CHECK-LABEL: pos.encoding @definition attributes {formula = "s", paper = "none"}
pos.encoding @definition attributes {formula = "s", paper = "none"} {
  // CHECK: %[[HEADS:.+]] = pos.extent heads
  %heads = pos.extent heads
  // CHECK: pos.option "size" : i32 = 256 : i32
  %size = pos.option "size" : i32 = 256 : i32
  // CHECK: %[[RATE:.+]] = pos.option "rate" : f32 = 5.000000e-01 : f32
  %rate = pos.option "rate" : f32 = 0.5 : f32
  // CHECK: pos.option "near" : i32 = 4 : i32 at_least -2 at_most 8 multiple_of 2
  %near = pos.option "near" : i32 = 4 : i32 at_least -2 at_most 8 multiple_of 2
  // CHECK: pos.option "base" : f32 = 1.000000e+04 : f32 above 0
  %base = pos.option "base" : f32 = 10000.0 : f32 above 0
  // CHECK: pos.option "causal" : i1 = true
  %causal = pos.option "causal" : i1 = true
  // CHECK: pos.option "pairing" : i32 = "half" of ["half", "interleaved"]
  %pairing = pos.option "pairing" : i32 = "half" of ["half", "interleaved"]
  // CHECK: %[[ZERO:.+]] = arith.constant 0.0
  %zero = arith.constant 0.0 : f32
  // CHECK: pos.param "a" : tensor<?xf32> dims(%[[HEADS]]) init constant(%[[ZERO]])
  %a = pos.param "a" : tensor<?xf32> dims(%heads) init constant(%zero)
  // CHECK: pos.param "b" : tensor<?x?xf32> dims(%{{[a-z0-9]+}}, %[[HEADS]]) init normal(%[[ZERO]], %[[RATE]]) floor 1.000000e-02 ceiling 2.000000e+00
  %b = pos.param "b" : tensor<?x?xf32> dims(%size, %heads) init normal(%zero, %rate) floor 0.01 ceiling 2.0
  // CHECK: pos.param "c" : tensor<?xf32> dims(%[[HEADS]]) init uniform(%[[ZERO]], %[[RATE]]) scope model
  %c = pos.param "c" : tensor<?xf32> dims(%heads) init uniform(%zero, %rate) scope model
  // CHECK: pos.param "slopes" : tensor<?xf32> dims(%[[HEADS]]) frozen by {
  // CHECK-NEXT: ^bb0(%{{[a-z0-9]+}}: i32):
  %slopes = pos.param "slopes" : tensor<?xf32> dims(%heads) frozen by {
  ^bb0(%h: i32):
    %one = arith.constant 1.0 : f32
    pos.yield %one : f32
  }
  // CHECK: pos.param "ids" : tensor<?xi32> dims(%[[HEADS]]){{$}}
  %ids = pos.param "ids" : tensor<?xi32> dims(%heads)
  // CHECK: pos.input "digits" : tensor<?x?xi32>
  %digits = pos.input "digits" : tensor<?x?xi32>
}

// The sites: rows in each grouping, turns, columns, scores, masks, weighted rows.
// CHECK-LABEL: pos.encoding @sites
pos.encoding @sites {
  %n = pos.option "n" : i32 = 4 : i32
  %pairing = pos.option "pairing" : i32 = "half" of ["half", "interleaved"]
  %table = pos.param "table" : tensor<?x?xf32> dims(%n, %n)
  // CHECK: pos.rows of [query, key] half {
  // CHECK-NEXT: ^bb0(%{{[a-z0-9]+}}: f32, %{{[a-z0-9]+}}: f32):
  pos.rows of [query, key] half {
  ^bb0(%x: f32, %y: f32):
    pos.yield %y, %x : f32, f32
  }
  // CHECK: pos.rows of [value] grouping(%{{[a-z0-9]+}}) lanes(%{{[a-z0-9]+}}, %{{[a-z0-9]+}}) {
  pos.rows of [value] grouping(%pairing) lanes(%pairing, %n) {
  ^bb0(%x: f32, %y: f32):
    pos.yield %x, %y : f32, f32
  }
  // CHECK: pos.rows of [embedding, query_input, key_input, value_input] single {
  pos.rows of [embedding, query_input, key_input, value_input] single {
  ^bb0(%x: f32):
    pos.yield %x : f32
  }
  // CHECK: pos.rows of [query] whole {
  pos.rows of [query] whole {
  ^bb0(%x: tensor<?xf32>):
    pos.yield %x : tensor<?xf32>
  }
  // CHECK: pos.turn_rows of [query, key] blocks %{{[a-z0-9]+}} {
  // CHECK-NEXT: ^bb0(%{{[a-z0-9]+}}: i32, %{{[a-z0-9]+}}: i32, %{{[a-z0-9]+}}: i32):
  pos.turn_rows of [query, key] blocks %n {
  ^bb0(%block: i32, %row: i32, %column: i32):
    %p = pos.coord self
    %f = arith.sitofp %p : i32 to f32
    pos.yield %f : f32
  }
  // CHECK: pos.columns %{{[a-z0-9]+}} {
  pos.columns %n {
    %t = pos.lane
    %i = pos.index query
    %j = pos.index key
    %a = pos.read %table[%i, %t] : tensor<?x?xf32>
    %b = pos.read %table[%j, %t] : tensor<?x?xf32>
    pos.yield %a, %b : f32, f32
  }
  // CHECK: pos.score {
  // CHECK-NEXT: ^bb0(%{{[a-z0-9]+}}: tensor<?xf32>):
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // CHECK: pos.contract %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    %t = pos.contract %table, %s : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
  // CHECK: pos.mask {
  pos.mask {
    %true = arith.constant true
    pos.yield %true : i1
  }
  // CHECK: pos.weighted_rows %{{[a-z0-9]+}} : tensor<?x?xf32> {
  pos.weighted_rows %table : tensor<?x?xf32> {
    %o = pos.offset
    pos.yield %o : i32
  }
}

// Everything that a payload can ask.
// CHECK-LABEL: pos.encoding @context
pos.encoding @context {
  %n = pos.option "n" : i32 = 4 : i32
  %table = pos.param "table" : tensor<?x?xf32> dims(%n, %n)
  // CHECK: pos.rows of [query] single
  pos.rows of [query] single {
  ^bb0(%x: f32):
    // CHECK: pos.index self
    %i = pos.index self
    // CHECK: pos.coord self axis 1
    %c = pos.coord self axis 1
    // CHECK: pos.lane
    %t = pos.lane
    pos.yield %x : f32
  }
  // CHECK: pos.score
  pos.score {
  ^bb0(%s: f32):
    // CHECK: pos.index query
    %i = pos.index query
    // CHECK: pos.tensor_row query
    %row = pos.tensor_row query
    // CHECK: pos.coord key{{$}}
    %c = pos.coord key
    // CHECK: pos.offset{{$}}
    %o = pos.offset
    // CHECK: pos.offset axis 1
    %o1 = pos.offset axis 1
    // CHECK: pos.head
    %h = pos.head
    // CHECK: pos.batch
    %b = pos.batch
    // CHECK: pos.extent kv_heads
    %e = pos.extent kv_heads
    // CHECK: %[[SCALE:.+]] = pos.scale
    %k = pos.scale
    // CHECK: pos.read %{{[a-z0-9]+}}[%{{[a-z0-9]+}}, %{{[a-z0-9]+}}] : tensor<?x?xf32>
    %r = pos.read %table[%h, %b] : tensor<?x?xf32>
    // CHECK: pos.host : f32
    %z = pos.host : f32
    // CHECK: pos.query_dot %{{[a-z0-9]+}}[%{{[a-z0-9]+}}] : tensor<?x?xf32>
    %d = pos.query_dot %table[%o] : tensor<?x?xf32>
    // CHECK: pos.query_dot %{{[a-z0-9]+}} columns[%{{[a-z0-9]+}}] : tensor<?x?xf32>
    %columns = pos.query_dot %table columns[%o] : tensor<?x?xf32>
    // CHECK: pos.query_dot %[[T:[a-z0-9]+]][%{{[a-z0-9]+}}] plus %[[T]] : tensor<?x?xf32>, tensor<?x?xf32>
    %plus = pos.query_dot %table[%o] plus %table : tensor<?x?xf32>, tensor<?x?xf32>
    // CHECK: pos.key_dot %{{[a-z0-9]+}}[%{{[a-z0-9]+}}] : tensor<?x?xf32>
    %of_key = pos.key_dot %table[%o] : tensor<?x?xf32>
    // CHECK: pos.key_dot %[[T]] columns[%{{[a-z0-9]+}}] plus %[[T]] : tensor<?x?xf32>, tensor<?x?xf32>
    %of_key_plus = pos.key_dot %table columns[%o] plus %table : tensor<?x?xf32>, tensor<?x?xf32>
    // CHECK: pos.scan %{{[a-z0-9]+}} leftward until %[[SCALE]] : f32
    %l = pos.scan %s leftward until %k : f32
    // CHECK: pos.sum to %{{[a-z0-9]+}} {
    // CHECK-NEXT: ^bb0(%{{[a-z0-9]+}}: i32):
    // CHECK: } : f32
    %y = pos.sum to %n {
    ^bb0(%m: i32):
      %x = arith.sitofp %m : i32 to f32
      pos.yield %x : f32
    } : f32
    %t = arith.addf %l, %y : f32
    pos.yield %t : f32
  }
}

// What a score of all heads computes with.
// CHECK-LABEL: pos.encoding @all_heads
pos.encoding @all_heads {
  %n = pos.option "n" : i32 = 4 : i32
  %heads = pos.extent heads
  %w = pos.param "w" : tensor<?x?xf32> dims(%heads, %n)
  %b = pos.param "b" : tensor<?xf32> dims(%heads)
  // CHECK: pos.score
  // CHECK-NEXT: ^bb0(%[[S:.+]]: tensor<?xf32>):
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // CHECK: pos.host : tensor<?xf32>
    %h = pos.host : tensor<?xf32>
    // CHECK: %[[X:.+]] = pos.contract %{{[a-z0-9]+}}, %[[S]] columns from %{{[a-z0-9]+}} : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    %x = pos.contract %w, %s columns from %n : tensor<?x?xf32>, tensor<?xf32> -> tensor<?xf32>
    // CHECK: arith.addf %[[X]], %{{[a-z0-9]+}} : tensor<?xf32>
    %y = arith.addf %x, %b : tensor<?xf32>
    // CHECK: %[[C:.+]] = arith.cmpf ogt, %[[S]], %{{.+}} : tensor<?xf32>
    %c = arith.cmpf ogt, %s, %y : tensor<?xf32>
    // CHECK: arith.select %[[C]], %{{.+}} : tensor<?xi1>, tensor<?xf32>
    %z = arith.select %c, %s, %y : tensor<?xi1>, tensor<?xf32>
    // CHECK: pos.for_heads(%[[S]], %{{.+}}) {
    // CHECK-NEXT: ^bb0(%{{.+}}: f32, %{{.+}}: f32):
    // CHECK: pos.head
    // CHECK: } : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    %t = pos.for_heads (%s, %z) {
    ^bb0(%p: f32, %q: f32):
      %head = pos.head
      %m = arith.sitofp %head : i32 to f32
      %u = arith.mulf %p, %m : f32
      %v = arith.addf %u, %q : f32
      pos.yield %v : f32
    } : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    // CHECK: pos.for_heads() {
    // CHECK: } : () -> tensor<?xf32>
    %o = pos.for_heads () {
      %one = arith.constant 1.0 : f32
      pos.yield %one : f32
    } : () -> tensor<?xf32>
    %r = arith.mulf %t, %o : tensor<?xf32>
    pos.yield %r : tensor<?xf32>
  }
}

// The same, once inlined: extents are static, a parameter is asked for its
// elements.
// CHECK-LABEL: func.func @vectors
func.func @vectors(%q: tensor<?x2x?x8xf64>, %p: tensor<?xf64>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p : tensor<?xf64>)
    : tensor<?x2x?x8xf64>, tensor<?x2x?x8xf64>, (tensor<?x2x?x8xf64>)
    -> (tensor<?x2x?x8xf64>), tensor<?x2x?xf64> {
  ^bb0(%b: tensor<?xf64>):
    // CHECK: %[[TABLE:.+]] = pos.hoist [offset] {
    // CHECK: pos.elements %{{.+}} : tensor<?xf64> -> tensor<2xf32>
    // CHECK: } : tensor<2xf32>
    %t = pos.hoist [offset] {
      %e = pos.elements %b : tensor<?xf64> -> tensor<2xf32>
      pos.yield %e : tensor<2xf32>
    } : tensor<2xf32>
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      // CHECK: arith.addf %{{.+}}, %[[TABLE]] : tensor<2xf32>
      %u = arith.addf %s, %t : tensor<2xf32>
      pos.yield %u : tensor<2xf32>
    }
  }
  return
}

// Attention with uses: options, hosts, positions, several values, a scale.
// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<?x?x?x64xbf16>, %k: tensor<?x?x?x64xbf16>,
    %v: tensor<?x?x?x64xbf16>, %z: tensor<?x?x?x32xbf16>, %p: tensor<?xf32>,
    %at: tensor<?x?x1xi32>, %tail: tensor<?xi32>) -> tensor<?x?x?x64xbf16> {
  // CHECK: pos.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, (%{{[a-z0-9]+}}, %{{[a-z0-9]+}})
  // CHECK-SAME: uses [#pos.use<@context, "near", {n = 2 : i32}, [#pos.use<@sites, "sites">]>]
  // CHECK-SAME: params(%{{[a-z0-9]+}} : tensor<?xf32>)
  // CHECK-SAME: query_positions(%{{[a-z0-9]+}} : tensor<?x?x1xi32>)
  // CHECK-SAME: key_positions(%{{[a-z0-9]+}} : tensor<?x?x1xi32>)
  // CHECK-SAME: query_tail(%{{[a-z0-9]+}} : tensor<?xi32>)
  // CHECK-SAME: scale 1.250000e-01 unordered : tensor<?x?x?x64xbf16>
  %o, %w, %lse = pos.attention %q, %k, (%v, %z)
    uses [#pos.use<@context, "near", {n = 2 : i32}, [#pos.use<@sites, "sites">]>]
    params(%p : tensor<?xf32>) query_positions(%at : tensor<?x?x1xi32>)
    key_positions(%at : tensor<?x?x1xi32>) query_tail(%tail : tensor<?xi32>)
    scale 0.125 unordered
    : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>,
      (tensor<?x?x?x64xbf16>, tensor<?x?x?x32xbf16>)
    -> (tensor<?x?x?x64xbf16>, tensor<?x?x?x32xbf16>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x64xbf16>
}

// Attention whose sites are inlined and hoisted.
// CHECK-LABEL: func.func @inlined
func.func @inlined(%q: tensor<?x?x?x8xf32>, %p: tensor<?xf32>) -> tensor<?x?x?x8xf32> {
  // CHECK: pos.attention
  // CHECK-SAME: {
  // CHECK-NEXT: ^bb0(%[[SLOPE:.+]]: tensor<?xf32>):
  %o, %lse = pos.attention %q, %q, (%q) params(%p : tensor<?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%slope: tensor<?xf32>):
    // CHECK: %[[TABLE:.+]] = pos.hoist [head, offset] {
    %t = pos.hoist [head, offset] {
      %h = pos.head
      %b = pos.read %slope[%h] : tensor<?xf32>
      pos.yield %b : f32
    } : f32
    // CHECK: %[[ROW:.+]] = pos.hoist [query] {
    %w = pos.hoist [query] {
      %i = pos.index query
      %f = arith.sitofp %i : i32 to f32
      pos.yield %f : f32
    } : f32
    // CHECK: pos.row_term %[[ROW]] : f32
    pos.row_term %w : f32
    pos.score {
    ^bb0(%s: f32):
      // CHECK: arith.addf %{{[a-z0-9]+}}, %[[TABLE]]
      %u = arith.addf %s, %t : f32
      pos.yield %u : f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// The statistics of the softmax, for a gradient.
// CHECK-LABEL: func.func @statistics
func.func @statistics(%q: tensor<?x?x?x8xf32>) -> tensor<?x?x?x2xf32> {
  // CHECK: -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>, tensor<?x?x?x2xf32>
  %o, %lse, %stats = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>, tensor<?x?x?x2xf32>
  return %stats : tensor<?x?x?x2xf32>
}

// CHECK-LABEL: func.func @backward
func.func @backward(%q: tensor<?x?x?x8xf32>, %lse: tensor<?x?x?xf32>, %p: tensor<?xf32>, %stats: tensor<?x?x?x2xf32>)
    -> tensor<?xf32> {
  // CHECK: pos.attention_backward %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, (%{{[a-z0-9]+}}), (%{{[a-z0-9]+}}), %{{[a-z0-9]+}}, (%{{[a-z0-9]+}}), %{{[a-z0-9]+}} uses [#pos.use<@context, "context">]
  // CHECK-SAME: params(%{{[a-z0-9]+}} : tensor<?xf32>) gradients [0] unordered :
  %dq, %dk, %dv, %dp = pos.attention_backward %q, %q, (%q), (%q), %stats, (%q), %lse
    uses [#pos.use<@context, "context">] params(%p : tensor<?xf32>) gradients [0] unordered
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>), tensor<?xf32>
  return %dp : tensor<?xf32>
}

// CHECK-LABEL: func.func @map_rows
func.func @map_rows(%x: tensor<?x?x128xf32>, %at: tensor<?x?x1xi32>) -> tensor<?x?x128xf32> {
  // CHECK: pos.map_rows %{{[a-z0-9]+}} of embedding uses [#pos.use<@sites, "sites">] positions(%{{[a-z0-9]+}} : tensor<?x?x1xi32>) :
  %y = pos.map_rows %x of embedding uses [#pos.use<@sites, "sites">]
    positions(%at : tensor<?x?x1xi32>) : tensor<?x?x128xf32> -> tensor<?x?x128xf32>
  // CHECK: pos.map_rows_backward %{{[a-z0-9]+}}, %{{[a-z0-9]+}} of embedding uses [#pos.use<@sites, "sites">] gradients []
  %d = pos.map_rows_backward %x, %y of embedding uses [#pos.use<@sites, "sites">] gradients []
    : tensor<?x?x128xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
  return %d : tensor<?x?x128xf32>
}

// Rows that indices take from a table.
// CHECK-LABEL: func.func @map_taken_rows
func.func @map_taken_rows(%table: tensor<?x128xbf16>, %i: tensor<2x?xi32>) -> tensor<2x?x128xbf16> {
  // CHECK: pos.map_rows %{{[a-z0-9]+}}[%{{[a-z0-9]+}}] of embedding : tensor<?x128xbf16>[tensor<2x?xi32>] -> tensor<2x?x128xbf16>
  %y = pos.map_rows %table[%i] of embedding
    : tensor<?x128xbf16>[tensor<2x?xi32>] -> tensor<2x?x128xbf16>
  // CHECK: pos.map_rows_backward %{{[a-z0-9]+}}[%{{[a-z0-9]+}}], %{{[a-z0-9]+}} of embedding gradients [] : tensor<?x128xbf16>[tensor<2x?xi32>], tensor<2x?x128xbf16> -> tensor<2x?x128xbf16>
  %d = pos.map_rows_backward %table[%i], %y of embedding gradients []
    : tensor<?x128xbf16>[tensor<2x?xi32>], tensor<2x?x128xbf16> -> tensor<2x?x128xbf16>
  return %d : tensor<2x?x128xbf16>
}

// Requirements, bounds of coordinates, running sums.
// CHECK-LABEL: pos.encoding @along_keys
pos.encoding @along_keys {
  %keys = pos.extent key
  %most = arith.constant 9 : i32
  // CHECK: pos.require %{{[a-z0-9]+}} at_most %{{[a-z0-9_]+}}, "too many keys"
  pos.require %keys at_most %most, "too many keys"
  // CHECK: pos.require %{{[a-z0-9]+}} at_least %{{[a-z0-9_]+}}, "too few keys"
  pos.require %keys at_least %most, "too few keys"
  // CHECK: pos.require_past "later keys"
  pos.require_past "later keys"
  pos.score {
  ^bb0(%s: f32):
    // CHECK: pos.bound least query
    %first = pos.bound least query
    // CHECK: pos.bound greatest key axis 1
    %last = pos.bound greatest key axis 1
    // CHECK: pos.running_sum to key {
    // CHECK-NEXT: ^bb0(%{{[a-z0-9]+}}: i32):
    // CHECK: } : f32
    %y = pos.running_sum to key {
    ^bb0(%t: i32):
      %x = arith.sitofp %t : i32 to f32
      pos.yield %x : f32
    } : f32
    pos.yield %y : f32
  }
}

// CHECK-LABEL: func.func @require_extent
func.func @require_extent(%x: tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %x, %x, (%x)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    // CHECK: pos.require_span axis 1 at_most %{{.+}}, "too far apart"
    %most = arith.constant 9 : i32
    pos.require_span axis 1 at_most %most, "too far apart"
    // CHECK: pos.require_extent key at_most 9, "too many keys"
    pos.require_extent key at_most 9, "too many keys"
    // CHECK: pos.require_extent batch at_least 2, "too few"
    pos.require_extent batch at_least 2, "too few"
  }
  return %o : tensor<?x?x?x8xf32>
}

// CHECK-LABEL: func.func @hinges
func.func @hinges(%q: tensor<?x?x?x8xf32>, %w: tensor<4xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) params(%w : tensor<4xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%a: tensor<4xf32>):
    // CHECK: %[[F:.+]] = pos.hinges {
    // CHECK: } : tensor<4x5xf32>
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = pos.read %a[%k] : tensor<4xf32>
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<4x5xf32>
    pos.score {
    ^bb0(%s: f32):
      %j = pos.index key
      %x = arith.sitofp %j : i32 to f32
      // CHECK: pos.hinge_sum %[[F]] at %{{.+}} : tensor<4x5xf32>
      %y = pos.hinge_sum %f at %x : tensor<4x5xf32>
      %t = arith.addf %s, %y : f32
      pos.yield %t : f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}

// CHECK-LABEL: func.func @offset_dot
func.func @offset_dot(%q: tensor<?x?x?x8xf32>, %w: tensor<8x5xf32>, %u: tensor<?x8xf32>) -> tensor<?x?x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) params(%w, %u : tensor<8x5xf32>, tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  // CHECK: ^bb0(%[[W:.+]]: tensor<8x5xf32>, %[[U:.+]]: tensor<?x8xf32>):
  ^bb0(%table: tensor<8x5xf32>, %v: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %f = pos.offset
      // CHECK: %[[N:.+]] = arith.constant 5
      %n = arith.constant 5 : i32
      // CHECK: pos.offset_dot %[[U]][%{{.+}}] : tensor<?x8xf32>
      %y = pos.offset_dot %v[%f] : tensor<?x8xf32>
      // CHECK: pos.offset_dot key %[[U]][%{{.+}}] : tensor<?x8xf32>
      %k = pos.offset_dot key %v[%f] : tensor<?x8xf32>
      // CHECK: pos.offset_dot %[[W]] columns plus %[[U]] to %[[N]] {
      // CHECK-NEXT: ^bb0(%{{[a-z0-9]+}}: i32):
      // CHECK: } : tensor<8x5xf32>, tensor<?x8xf32>
      %z = pos.offset_dot %table columns plus %v to %n {
      ^bb0(%c: i32):
        %p = arith.muli %c, %f : i32
        %x = arith.sitofp %p : i32 to f32
        pos.yield %x : f32
      } : tensor<8x5xf32>, tensor<?x8xf32>
      %t = arith.addf %y, %z : f32
      pos.yield %t : f32
    }
  }
  return %o : tensor<?x?x?x8xf32>
}
