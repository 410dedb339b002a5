// Constraints of the dialect, one per section; C1 .. C10 are those of its text.
// RUN: sextant-opt %s --split-input-file --verify-diagnostics

// C1: a payload computes in the compute type.
pos.encoding @double {
  // expected-error @below {{payload must compute in f32, the compute type (C1)}}
  pos.score {
  ^bb0(%s: f32):
    // expected-note @below {{this value is 'f64'}}
    %x = arith.extf %s : f32 to f64
    %y = arith.truncf %x : f64 to f32
    pos.yield %y : f32
  }
}

// -----

// C1, at the payload's boundary.
pos.encoding @half {
  // expected-error @below {{payload argument must be f32 or tensor<?xf32> (C1) but is 'f16'}}
  pos.score {
  ^bb0(%s: f16):
    pos.yield %s : f16
  }
}

// -----

// C3: a score payload maps one score.
pos.encoding @two_scores {
  // expected-error @below {{payload must take 1 value, the score, but takes 2}}
  pos.score {
  ^bb0(%s: f32, %t: f32):
    pos.yield %s, %t : f32, f32
  }
}

// -----

// C4: a mask yields visible or not.
pos.encoding @soft_mask {
  // expected-error @below {{payload must yield ('i1') but yields ('i32')}}
  pos.mask {
    %o = pos.offset
    pos.yield %o : i32
  }
}

// -----

// C6: a group of two lanes has two values.
pos.encoding @one_of_two {
  // expected-error @below {{payload must take 2 value(s) of a group (C6) but takes 1}}
  pos.rows of [query] half {
  ^bb0(%x: f32):
    pos.yield %x : f32
  }
}

// -----

// C6: a group of one lane has one.
pos.encoding @two_of_one {
  // expected-error @below {{payload must take 1 value(s) of a group (C6) but takes 2}}
  pos.rows of [query] single {
  ^bb0(%x: f32, %y: f32):
    pos.yield %x, %y : f32, f32
  }
}

// -----

// C6: a whole row is a tensor.
pos.encoding @whole_scalar {
  // expected-error @below {{payload argument must be tensor<?xf32> (C1) but is 'f32'}}
  pos.rows of [query] whole {
  ^bb0(%x: f32):
    pos.yield %x : f32
  }
}

// -----

pos.encoding @grouping {
  pos.rows of [query]
  // expected-error @below {{expected one of [half, interleaved, single, whole] for how a row is cut into groups (C6), got: thirds}}
  thirds {
  ^bb0(%x: f32):
    pos.yield %x : f32
  }
}

// -----

pos.encoding @operand {
  // expected-error @below {{unknown operand 'keys'}}
  pos.rows of [keys] single {
  ^bb0(%x: f32):
    pos.yield %x : f32
  }
}

// -----

func.func @region_arguments(%q: tensor<1x1x?x8xf32>, %p: tensor<?xf32>) {
  // expected-error @below {{region must take one argument per parameter: expected 1 of their types, got 0}}
  %o, %lse = pos.attention %q, %q, (%q) params(%p : tensor<?xf32>)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32> {
    pos.mask {
      %true = arith.constant true
      pos.yield %true : i1
    }
  }
  return
}

// -----

func.func @uses_and_sites(%q: tensor<1x1x?x8xf32>) {
  // expected-error @below {{has uses of encodings and a region of sites: inlining makes one of the other}}
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@causal, "causal">]
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32> {
    pos.mask {
      %true = arith.constant true
      pos.yield %true : i1
    }
  }
  return
}

// -----

func.func @foreign_in_region(%q: tensor<1x1x?x8xf32>) {
  // expected-error @below {{region may only hold sites, hoists, hinges, a row term and constants}}
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32> {
    // expected-note @below {{'pos.head' is none}}
    %h = pos.head
  }
  return
}

// -----

pos.encoding @foreign_payload {
  %n = pos.extent heads
  %p = pos.param "p" : tensor<?xf32> dims(%n)
  // expected-error @below {{payload may only compute with scalars}}
  pos.score {
  ^bb0(%s: f32):
    %zero = arith.constant 0 : index
    // expected-note @below {{'tensor.extract' is neither elementwise, a context op nor a read}}
    %x = tensor.extract %p[%zero] : tensor<?xf32>
    pos.yield %x : f32
  }
}

// -----

pos.encoding @foreign {
  // expected-error @below {{may not stand in an encoding}}
  %t = tensor.empty() : tensor<4xf32>
}

// -----

pos.encoding @taken {
  // expected-note @below {{first declared here}}
  %a = pos.option "size" : i32 = 4 : i32
  // expected-error @below {{name "size" is taken in this encoding}}
  %b = pos.option "size" : i32 = 8 : i32
}

// -----

pos.encoding @choice {
  // expected-error @below {{default "third" is not among the choices}}
  %a = pos.option "pairing" : i32 = "third" of ["half", "interleaved"]
}

// -----

pos.encoding @choice_type {
  // expected-error @below {{an option with choices has type i32, got 'f32'}}
  %a = pos.option "pairing" : f32 = "half" of ["half", "interleaved"]
}

// -----

pos.encoding @choice_number {
  // expected-error @below {{an option with choices has a string as its default}}
  %a = pos.option "pairing" : i32 = 1 : i32 of ["half", "interleaved"]
}

// -----

pos.encoding @option_type {
  // expected-error @below {{default of type 'f32' for an option of type 'i32'}}
  %a = pos.option "size" : i32 = 1.0 : f32
}

// -----

pos.encoding @dims {
  %n = pos.extent heads
  // expected-error @below {{expected one extent per dimension: 2, got 1}}
  %a = pos.param "a" : tensor<?x?xf32> dims(%n)
}

// -----

pos.encoding @init_arguments {
  %n = pos.extent heads
  %z = arith.constant 0.0 : f32
  // expected-error @below {{initial value uniform takes 2 number(s), got 1}}
  %a = pos.param "a" : tensor<?xf32> dims(%n) init uniform(%z)
}

// -----

pos.encoding @init_twice {
  %n = pos.extent heads
  %z = arith.constant 0.0 : f32
  // expected-error @below {{expected either a distribution or a region as initial value, got both}}
  %a = pos.param "a" : tensor<?xf32> dims(%n) init constant(%z) by {
  ^bb0(%h: i32):
    pos.yield %z : f32
  }
}

// -----

pos.encoding @init_indices {
  %n = pos.extent heads
  // expected-error @below {{initial value takes 1 indices of type i32}}
  %a = pos.param "a" : tensor<?xf32> dims(%n) by {
    %z = arith.constant 0.0 : f32
    pos.yield %z : f32
  }
}

// -----

pos.encoding @init_empty {
  %n = pos.extent heads
  // expected-error @below {{initial value must yield ('f32')}}
  %a = pos.param "a" : tensor<?xf32> dims(%n) by {
  ^bb0(%h: i32):
  }
}

// -----

pos.encoding @bounds {
  %n = pos.extent heads
  // expected-error @below {{floor is above ceiling}}
  %a = pos.param "a" : tensor<?xf32> dims(%n) floor 1.0 ceiling 0.0
}

// -----

pos.encoding @integer {
  %n = pos.extent heads
  // expected-error @below {{an integer parameter is given by the caller}}
  %a = pos.param "a" : tensor<?xi32> dims(%n) floor 1.0
}

// -----

pos.encoding @read_rank {
  %n = pos.extent heads
  %a = pos.param "a" : tensor<?x?xf32> dims(%n, %n)
  pos.score {
  ^bb0(%s: f32):
    %h = pos.head
    // expected-error @below {{expected one index per dimension: 2, got 1}}
    %x = pos.read %a[%h] : tensor<?x?xf32>
    pos.yield %x : f32
  }
}

// -----

pos.encoding @sum_argument {
  %n = pos.option "n" : i32 = 4 : i32
  pos.score {
  ^bb0(%s: f32):
    // expected-error @below {{expected one block argument of type i32}}
    %x = pos.sum to %n {
      pos.yield %s : f32
    } : f32
    pos.yield %x : f32
  }
}

// -----

func.func @hoist(%q: tensor<1x1x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32> {
    // expected-error @below {{body must yield ('f32')}}
    %t = pos.hoist [offset] {
      %h = pos.offset
      pos.yield %h : i32
    } : f32
  }
  return
}

// -----

func.func @row_term_of_keys(%q: tensor<1x1x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32> {
    // expected-note @below {{this one is over other axes}}
    %t = pos.hoist [query, key] {
      %c = arith.constant 1.0 : f32
      pos.yield %c : f32
    } : f32
    // expected-error @below {{expected a hoist over the query and, at most, batch and head}}
    pos.row_term %t : f32
  }
  return
}

// -----

func.func @row_term_of_a_constant(%q: tensor<1x1x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32> {
    %c = arith.constant 1.0 : f32
    // expected-error @below {{expected the value of a 'pos.hoist'}}
    pos.row_term %c : f32
  }
  return
}

// -----

func.func @statistics(%q: tensor<1x1x?x8xf32>) {
  // expected-error @below {{statistics must fit 'tensor<1x1x?x2xf32>', got 'tensor<1x1x?x3xf32>'}}
  %o, %lse, %stats = pos.attention %q, %q, (%q)
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>)
    -> (tensor<1x1x?x8xf32>), tensor<1x1x?xf32>, tensor<1x1x?x3xf32>
  return
}

// -----

func.func @gradients(%q: tensor<1x1x?x8xf32>, %lse: tensor<1x1x?xf32>, %stats: tensor<1x1x?x2xf32>) {
  // expected-error @below {{has no parameter 2}}
  %dq, %dk, %dv, %dp = pos.attention_backward %q, %q, (%q), (%q), %stats, (%q), %lse gradients [2]
    : tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>),
      (tensor<1x1x?x8xf32>), tensor<1x1x?x2xf32>, (tensor<1x1x?x8xf32>), tensor<1x1x?xf32>
    -> tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, (tensor<1x1x?x8xf32>), tensor<?xf32>
  return
}

// -----

pos.encoding @vector_of_one_head {
  %n = pos.extent heads
  %w = pos.param "w" : tensor<?xf32> dims(%n)
  // expected-error @below {{payload may only compute with scalars}}
  pos.score {
  ^bb0(%s: f32):
    // expected-note @below {{'arith.addf' computes with vectors}}
    %x = arith.addf %w, %w : tensor<?xf32>
    pos.yield %s : f32
  }
}

// -----

pos.encoding @head_of_all {
  // expected-error @below {{payload asks for what there is not at this place}}
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // expected-note @below {{'pos.head' outside 'pos.for_heads'}}
    %h = pos.head
    pos.yield %s : tensor<?xf32>
  }
}

// -----

pos.encoding @mask_of_all {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // expected-error @below {{'pos.mask' op expects parent op to be one of}}
    pos.mask {
      %true = arith.constant true
      pos.yield %true : i1
    }
    pos.yield %s : tensor<?xf32>
  }
}

// -----

pos.encoding @scan_of_all {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %t = pos.for_heads (%s) {
    ^bb0(%x: f32):
      // expected-error @below {{expects parent op 'pos.score'}}
      %y = pos.scan %x leftward until %x : f32
      pos.yield %y : f32
    } : (tensor<?xf32>) -> tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}

// -----

pos.encoding @query_dot_of_all {
  %n = pos.extent heads
  %w = pos.param "w" : tensor<?x?xf32> dims(%n, %n)
  // expected-error @below {{payload of all heads can neither scan nor read a row}}
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %o = pos.offset
    // expected-note @below {{'pos.query_dot' is of one head}}
    %y = pos.query_dot %w[%o] : tensor<?x?xf32>
    pos.yield %s : tensor<?xf32>
  }
}

// -----

pos.encoding @for_one_head {
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %y = pos.sum to %o {
    ^bb0(%k: i32):
      // expected-error @below {{'pos.for_heads' op expects parent op to be one of 'pos.score, pos.hoist'}}
      %t = pos.for_heads () {
        pos.yield %s : f32
      } : () -> tensor<?xf32>
      pos.yield %s : f32
    } : f32
    pos.yield %y : f32
  }
}

// -----

pos.encoding @for_heads_arguments {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // expected-error @below {{body must take one f32 per input: 1}}
    %t = pos.for_heads (%s) {
      %one = arith.constant 1.0 : f32
      pos.yield %one : f32
    } : (tensor<?xf32>) -> tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}

// -----

pos.encoding @for_heads_yield {
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    // expected-error @below {{body must yield ('f32')}}
    %t = pos.for_heads (%s) {
    ^bb0(%x: f32):
      %h = pos.head
      pos.yield %h : i32
    } : (tensor<?xf32>) -> tensor<?xf32>
    pos.yield %t : tensor<?xf32>
  }
}

// -----

pos.encoding @host_type {
  pos.score {
  ^bb0(%s: f32):
    // expected-error @below {{must have the type of the score's argument: 'f32', got 'tensor<?xf32>'}}
    %h = pos.host : tensor<?xf32>
    pos.yield %s : f32
  }
}

// -----

pos.encoding @host_place {
  pos.mask {
    // expected-error @below {{may only stand in a score payload}}
    %h = pos.host : f32
    %true = arith.constant true
    pos.yield %true : i1
  }
}

// -----

// M1: one element of the result per row.
func.func @contract_rows(%q: tensor<1x2x?x8xf32>, %p: tensor<3x2xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p : tensor<3x2xf32>)
    : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, (tensor<1x2x?x8xf32>)
    -> (tensor<1x2x?x8xf32>), tensor<1x2x?xf32> {
  ^bb0(%w: tensor<3x2xf32>):
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      // expected-error @below {{result must have one element per row of the matrix (M1): 3, got 2}}
      %x = pos.contract %w, %s : tensor<3x2xf32>, tensor<2xf32> -> tensor<2xf32>
      pos.yield %x : tensor<2xf32>
    }
  }
  return
}

// -----

// M2: one column per element of the vector.
func.func @contract_columns(%q: tensor<1x2x?x8xf32>, %p: tensor<2x4xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p : tensor<2x4xf32>)
    : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, (tensor<1x2x?x8xf32>)
    -> (tensor<1x2x?x8xf32>), tensor<1x2x?xf32> {
  ^bb0(%w: tensor<2x4xf32>):
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      // expected-error @below {{matrix must have one column per element of the vector (M2): 2, got 4}}
      %x = pos.contract %w, %s : tensor<2x4xf32>, tensor<2xf32> -> tensor<2xf32>
      pos.yield %x : tensor<2xf32>
    }
  }
  return
}

// -----

// M2, from a column on.
func.func @contract_from(%q: tensor<1x2x?x8xf32>, %p: tensor<2x4xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%p : tensor<2x4xf32>)
    : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, (tensor<1x2x?x8xf32>)
    -> (tensor<1x2x?x8xf32>), tensor<1x2x?xf32> {
  ^bb0(%w: tensor<2x4xf32>):
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %three = arith.constant 3 : i32
      // expected-error @below {{columns from 3 to 4 are not inside the matrix (M2): 'tensor<2x4xf32>'}}
      %x = pos.contract %w, %s columns from %three : tensor<2x4xf32>, tensor<2xf32> -> tensor<2xf32>
      pos.yield %x : tensor<2xf32>
    }
  }
  return
}

// -----

pos.encoding @scan_of_rows {
  %c = arith.constant 1.0 : f32
  pos.rows of [query] single {
  ^bb0(%x: f32):
    // expected-error @below {{expects parent op 'pos.score'}}
    %y = pos.scan %x leftward until %c : f32
    pos.yield %y : f32
  }
}

// -----

pos.encoding @key_dot_of_all {
  %n = pos.extent heads
  %w = pos.param "w" : tensor<?x?xf32> dims(%n, %n)
  // expected-error @below {{payload of all heads can neither scan nor read a row}}
  pos.score {
  ^bb0(%s: tensor<?xf32>):
    %o = pos.offset
    // expected-note @below {{'pos.key_dot' is of one head}}
    %y = pos.key_dot %w[%o] : tensor<?x?xf32>
    pos.yield %s : tensor<?xf32>
  }
}

// -----

pos.encoding @key_dot_in_a_sum_of_a_mask {
  %n = pos.extent head_dim
  %w = pos.param "w" : tensor<?x?xf32> dims(%n, %n)
  pos.mask {
    %z = pos.sum to %n {
    ^bb0(%k: i32):
      // expected-error @below {{'pos.key_dot' op stands in a score payload only}}
      %y = pos.key_dot %w[%k] : tensor<?x?xf32>
      pos.yield %y : f32
    } : f32
    %v = arith.cmpf oge, %z, %z : f32
    pos.yield %v : i1
  }
}

// -----

pos.encoding @query_dot_of_a_mask {
  %n = pos.extent head_dim
  %w = pos.param "w" : tensor<?x?xf32> dims(%n, %n)
  pos.mask {
    %o = pos.offset
    // expected-error @below {{expects parent op to be one of 'pos.score, pos.sum'}}
    %y = pos.query_dot %w[%o] : tensor<?x?xf32>
    %z = arith.cmpf oge, %y, %y : f32
    pos.yield %z : i1
  }
}

// -----

pos.encoding @query_dot_in_a_sum_of_a_mask {
  %n = pos.extent head_dim
  %w = pos.param "w" : tensor<?x?xf32> dims(%n, %n)
  pos.mask {
    %z = pos.sum to %n {
    ^bb0(%k: i32):
      // expected-error @below {{stands in a score payload only}}
      %y = pos.query_dot %w[%k] : tensor<?x?xf32>
      pos.yield %y : f32
    } : f32
    %v = arith.cmpf oge, %z, %z : f32
    pos.yield %v : i1
  }
}

// -----

// B1: a bound is that of a side.
pos.encoding @bound_of_self {
  pos.rows of [query] single {
  ^bb0(%x: f32):
    // expected-error @below {{is of query or key, not of self (B1)}}
    %last = pos.bound greatest self
    pos.yield %x : f32
  }
}

// -----

// R1: a running sum runs to a query or a key.
pos.encoding @sum_to_self {
  pos.score {
  ^bb0(%s: f32):
    // expected-error @below {{runs to query or key, not to self (R1)}}
    %y = pos.running_sum to self {
    ^bb0(%t: i32):
      %x = arith.sitofp %t : i32 to f32
      pos.yield %x : f32
    } : f32
    pos.yield %y : f32
  }
}

// -----

// R2: its terms do not vary with the row.
pos.encoding @sum_of_rows {
  pos.score {
  ^bb0(%s: f32):
    %i = pos.index query
    // expected-error @below {{body must vary with its argument, batch and head only (R2)}}
    %y = pos.running_sum to query {
    ^bb0(%t: i32):
      // expected-note @below {{'arith.addi' does not}}
      %d = arith.addi %t, %i : i32
      %x = arith.sitofp %d : i32 to f32
      pos.yield %x : f32
    } : f32
    pos.yield %y : f32
  }
}

// -----

pos.encoding @sum_in_rows {
  pos.rows of [query] single {
  ^bb0(%x: f32):
    // expected-error @below {{needs a place that has queries and keys}}
    %y = pos.running_sum to query {
    ^bb0(%t: i32):
      %a = arith.sitofp %t : i32 to f32
      pos.yield %a : f32
    } : f32
    pos.yield %y : f32
  }
}

// -----

// A column belongs to one side.
pos.encoding @column_of_both_sides {
  %n = pos.option "n" : i32 = 4 : i32
  // expected-error @below {{the query's column must not vary with the key}}
  pos.columns %n {
    %i = pos.index query
    // expected-note @below {{it does so by this value}}
    %j = pos.index key
    %s = arith.addi %i, %j : i32
    %a = arith.sitofp %s : i32 to f32
    %b = arith.sitofp %j : i32 to f32
    pos.yield %a, %b : f32, f32
  }
}

// -----

pos.encoding @column_of_the_other_side {
  %n = pos.option "n" : i32 = 4 : i32
  // expected-error @below {{the key's column must not vary with the query}}
  pos.columns %n {
    %a = arith.constant 1.0 : f32
    %b = pos.sum to %n {
    ^bb0(%k: i32):
      // expected-note @below {{it does so by this value}}
      %i = pos.coord query
      %f = arith.sitofp %i : i32 to f32
      pos.yield %f : f32
    } : f32
    pos.yield %a, %b : f32, f32
  }
}

// -----

pos.encoding @column_of_an_offset {
  %n = pos.option "n" : i32 = 4 : i32
  // expected-error @below {{payload asks for what there is not at this place}}
  pos.columns %n {
    // expected-note @below {{'pos.offset' of another side}}
    %o = pos.offset
    %a = arith.sitofp %o : i32 to f32
    pos.yield %a, %a : f32, f32
  }
}

// -----

// A mask sees no score, so it cannot be of all heads.
pos.encoding @mask_of_scores {
  // expected-error @below {{'pos.mask' op payload must take no values but takes 1}}
  pos.mask {
  ^bb0(%s: tensor<?xf32>):
    %v = arith.constant true
    pos.yield %v : i1
  }
}

// -----

pos.encoding @columns_of_rows {
  %n = arith.constant 2 : i32
  // expected-error @below {{'pos.columns' op payload must take no values but takes 2}}
  pos.columns %n {
  ^bb0(%x: f32, %y: f32):
    pos.yield %x, %y : f32, f32
  }
}

// -----

pos.encoding @before_all_axes {
  pos.mask {
    // expected-error @below {{attribute 'axis' failed to satisfy constraint: 32-bit signless integer attribute whose value is non-negative}}
    %p = pos.coord query axis -1
    %q = pos.coord key
    %v = arith.cmpi sle, %q, %p : i32
    pos.yield %v : i1
  }
}
