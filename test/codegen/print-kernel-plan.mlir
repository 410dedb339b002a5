// RUN: sextant-opt %s --pos-print-kernel-plan -o /dev/null | FileCheck %s --match-full-lines --strict-whitespace

// A table per head over offsets and a scalar of the head; the gradient of what
// the table is made of is made of the table's, that of what the payload reads
// is summed in tiles.
//      CHECK:plan of 'pos.attention_backward':
// CHECK-NEXT:  score: maps the product
// CHECK-NEXT:  mask
// CHECK-NEXT:  hoisted 0: offset table over [head, offset], f32, of query, per head, gradient
// CHECK-NEXT:  hoisted 1: head scalar over [], f32, of query, shared
// CHECK-NEXT:  gradient of parameter 0: summed outside tiles
// CHECK-NEXT:  gradient of parameter 1: summed in tiles
func.func @backward(%q: tensor<?x?x?x8xf32>, %stats: tensor<?x?x?x2xf32>, %lse: tensor<?x?x?xf32>, %a: tensor<?xf32>, %b: tensor<?xf32>) {
  %dq, %dk, %dv, %da, %db = pos.attention_backward %q, %q, (%q), (%q), %stats, (%q), %lse
    params(%a, %b : tensor<?xf32>, tensor<?xf32>) gradients [0, 1]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>), tensor<?xf32>, tensor<?xf32> {
  ^bb0(%slopes: tensor<?xf32>, %rates: tensor<?xf32>):
    %t = pos.hoist [head, offset] {
      %h = pos.head
      %o = pos.offset
      %f = arith.sitofp %o : i32 to f32
      %r = pos.read %slopes[%h] : tensor<?xf32>
      %y = arith.mulf %r, %f : f32
      pos.yield %y : f32
    } : f32
    %e = pos.hoist [] {
      %n = pos.extent key
      %f = arith.sitofp %n : i32 to f32
      %y = math.sqrt %f : f32
      pos.yield %y : f32
    } : f32
    pos.score {
    ^bb0(%s: f32):
      %i = pos.index query
      %j = pos.index key
      %p = arith.muli %i, %j : i32
      %r = pos.read %rates[%p] : tensor<?xf32>
      %x = arith.addf %s, %t : f32
      %m = arith.mulf %x, %r : f32
      %y = arith.divf %m, %e : f32
      pos.yield %y : f32
    }
    pos.mask {
      %i = pos.index query
      %j = pos.index key
      %v = arith.cmpi sle, %j, %i : i32
      pos.yield %v : i1
    }
  }
  return
}

// Vectors over rows, one of which shifts the log-sum-exp; under given positions
// a table over offsets may give way to values in tiles.
//      CHECK:plan of 'pos.attention_backward':
// CHECK-NEXT:  positions: given
// CHECK-NEXT:  score: adds to the product
// CHECK-NEXT:  row term: hoisted 0
// CHECK-NEXT:  hoisted 0: query vector over [batch, query], f32, of query, per batch
// CHECK-NEXT:  hoisted 1: key vector over [key], f32, of query, shared
// CHECK-NEXT:  hoisted 2: offset table over [offset], f32, of query, shared, gradient
// CHECK-NEXT:  gradient of parameter 0: summed outside tiles, or in them without a table
func.func @rows(%q: tensor<?x?x?x8xf32>, %stats: tensor<?x?x?x2xf32>, %lse: tensor<?x?x?xf32>, %a: tensor<?xf32>, %p: tensor<?x?x1xi32>) {
  %dq, %dk, %dv, %da = pos.attention_backward %q, %q, (%q), (%q), %stats, (%q), %lse
    params(%a : tensor<?xf32>) query_positions(%p : tensor<?x?x1xi32>)
    key_positions(%p : tensor<?x?x1xi32>) gradients [0]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>), tensor<?xf32> {
  ^bb0(%table: tensor<?xf32>):
    %r = pos.hoist [batch, query] {
      %i = pos.coord query
      %f = arith.sitofp %i : i32 to f32
      pos.yield %f : f32
    } : f32
    pos.row_term %r : f32
    %k = pos.hoist [key] {
      %j = pos.index key
      %f = arith.sitofp %j : i32 to f32
      pos.yield %f : f32
    } : f32
    %t = pos.hoist [offset] {
      %o = pos.offset
      %x = pos.read %table[%o] : tensor<?xf32>
      pos.yield %x : f32
    } : f32
    pos.score {
    ^bb0(%s: f32):
      %x = arith.addf %s, %k : f32
      %y = arith.subf %x, %t : f32
      pos.yield %y : f32
    }
  }
  return
}

// Row maps with a table over row and lane, one entry per operand; turns ahead of
// them; columns beside them.
//      CHECK:plan of 'pos.attention':
// CHECK-NEXT:  turn of query, key: 4 blocks of 2, per head
// CHECK-NEXT:  rows of query: half, lanes 0 to 8
// CHECK-NEXT:  rows of key: half, lanes 0 to 8
// CHECK-NEXT:  rows of value: single, lanes 0 to 8
// CHECK-NEXT:  columns: 3
// CHECK-NEXT:  hoisted 0: row-lane table over [self, lane], f32, of query, shared
// CHECK-NEXT:  hoisted 1: row-lane table over [self, lane], f32, of key, shared
// CHECK-NEXT:  hoisted 2: row-lane table over [query, lane], f32, of query, shared
// CHECK-NEXT:  hoisted 3: row-lane table over [key, lane], f32, of key, shared
func.func @row_maps(%q: tensor<?x?x?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    pos.turn_rows of [query, key] blocks %two {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %h = pos.head
      %d = arith.subi %row, %column : i32
      %p = arith.muli %d, %h : i32
      %f = arith.sitofp %p : i32 to f32
      pos.yield %f : f32
    }
    %c = pos.hoist [self, lane] {
      %p = pos.coord self
      %t = pos.lane
      %m = arith.muli %p, %t : i32
      %f = arith.sitofp %m : i32 to f32
      %y = math.cos %f : f32
      pos.yield %y : f32
    } : f32
    pos.rows of [query, key] half {
    ^bb0(%x: f32, %y: f32):
      %u = arith.mulf %x, %c : f32
      %v = arith.mulf %y, %c : f32
      pos.yield %u, %v : f32, f32
    }
    pos.rows of [value] single {
    ^bb0(%x: f32):
      %u = arith.negf %x : f32
      pos.yield %u : f32
    }
    %a = pos.hoist [query, lane] {
      %i = pos.index query
      %f = arith.sitofp %i : i32 to f32
      pos.yield %f : f32
    } : f32
    %b = pos.hoist [key, lane] {
      %j = pos.index key
      %f = arith.sitofp %j : i32 to f32
      pos.yield %f : f32
    } : f32
    pos.columns %three {
      pos.yield %a, %b : f32, f32
    }
  }
  return
}

// Products with the query row: with all rows of a table, with rows of offsets;
// scans, the first of which the second follows on; weighted rows.
//      CHECK:plan of 'pos.attention':
// CHECK-NEXT:  score: maps the product
// CHECK-NEXT:  products of the query: rows of parameter 0
// CHECK-NEXT:  product of the query with rows of offsets: columns of parameter 1, plus parameter 0, summed with factors
// CHECK-NEXT:  product of the query with rows of offsets: rows of parameter 0, taken at an index
// CHECK-NEXT:  scan: leftward, 1 follow on it
// CHECK-NEXT:  scan: leftward, 0 follow on it
// CHECK-NEXT:  weighted rows: parameter 0
func.func @contents(%q: tensor<?x?x?x8xf32>, %a: tensor<?x8xf32>, %b: tensor<8x5xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%a, %b : tensor<?x8xf32>, tensor<8x5xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<?x8xf32>, %w: tensor<8x5xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = arith.constant 5 : i32
      %limit = arith.constant 9.0 : f32
      %d = pos.offset
      %g = math.absf %s : f32
      %x = pos.scan %g leftward until %limit : f32
      %y = pos.scan %x leftward until %limit : f32
      %i = arith.fptosi %y : f32 to i32
      %z = pos.query_dot %table[%i] : tensor<?x8xf32>
      %u = pos.offset_dot %w columns plus %table to %n {
      ^bb0(%c: i32):
        %f = arith.sitofp %c : i32 to f32
        pos.yield %f : f32
      } : tensor<8x5xf32>, tensor<?x8xf32>
      %v = pos.offset_dot %table[%d] : tensor<?x8xf32>
      %r = arith.addf %z, %u : f32
      %t = arith.addf %r, %v : f32
      pos.yield %t : f32
    }
    pos.weighted_rows %table : tensor<?x8xf32> {
      %d = pos.offset
      pos.yield %d : i32
    }
  }
  return
}

// All heads at once: a vector over offsets, a piecewise-linear function.
//      CHECK:plan of 'pos.attention':
// CHECK-NEXT:  score: of 2 heads at once
// CHECK-NEXT:  hinges: 4 units, used 1 times
// CHECK-NEXT:  hoisted 0: offset table over [offset], tensor<2xf32>, of query, shared
func.func @heads(%q: tensor<?x2x?x8xf32>, %a: tensor<4xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%a : tensor<4xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>) -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32> {
  ^bb0(%w: tensor<4xf32>):
    %t = pos.hoist [offset] {
      %b = pos.for_heads () {
        %d = pos.offset
        %f = arith.sitofp %d : i32 to f32
        pos.yield %f : f32
      } : () -> tensor<2xf32>
      pos.yield %b : tensor<2xf32>
    } : tensor<2xf32>
    %f = pos.hinges {
    ^bb0(%k: i32):
      %c = pos.read %w[%k] : tensor<4xf32>
      pos.yield %c, %c, %c, %c, %c : f32, f32, f32, f32, f32
    } : tensor<4x5xf32>
    pos.score {
    ^bb0(%s: tensor<2xf32>):
      %x = arith.addf %s, %t : tensor<2xf32>
      %y = pos.for_heads (%x) {
      ^bb0(%e: f32):
        %j = pos.index key
        %g = arith.sitofp %j : i32 to f32
        %h = pos.hinge_sum %f at %g : tensor<4x5xf32>
        %u = arith.addf %e, %h : f32
        pos.yield %u : f32
      } : (tensor<2xf32>) -> tensor<2xf32>
      pos.yield %y : tensor<2xf32>
    }
  }
  return
}

// A table is looked up at functions of the offset alone if each of its lookups is.
//      CHECK:plan of 'pos.attention':
// CHECK-NEXT:  score: adds to the product
// CHECK-NEXT:  products of the key: rows of parameter 0, at functions of the offset
// CHECK-NEXT:  products of the query: rows of parameter 0
func.func @clipped(%q: tensor<?x?x?x8xf32>, %a: tensor<?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%a : tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %last = arith.constant 4 : i32
      %d = pos.offset
      %c = arith.minsi %d, %last : i32
      %j = pos.index key
      %x = pos.key_dot %table[%c] : tensor<?x8xf32>
      %y = pos.query_dot %table[%c] : tensor<?x8xf32>
      %z = pos.query_dot %table[%j] : tensor<?x8xf32>
      %r = arith.addf %x, %y : f32
      %t = arith.addf %r, %z : f32
      %u = arith.addf %s, %t : f32
      pos.yield %u : f32
    }
  }
  return
}

// Products with rows of offsets, of the query and of the key.
//      CHECK:plan of 'pos.attention':
// CHECK-NEXT:  score: adds to the product
// CHECK-NEXT:  product of the query with rows of offsets: rows of parameter 0, taken at an index
// CHECK-NEXT:  product of the key with rows of offsets: rows of parameter 0, taken at a clipped index
func.func @sides(%q: tensor<?x?x?x8xf32>, %a: tensor<?x8xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%a : tensor<?x8xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%table: tensor<?x8xf32>):
    pos.score {
    ^bb0(%s: f32):
      %last = arith.constant 400 : i32
      %d = pos.offset
      %c = arith.minsi %d, %last : i32
      %x = pos.offset_dot %table[%d] : tensor<?x8xf32>
      %y = pos.offset_dot key %table[%c] : tensor<?x8xf32>
      %r = arith.addf %x, %y : f32
      %u = arith.addf %s, %r : f32
      pos.yield %u : f32
    }
  }
  return
}

// A row map outside attention has what its operand needs.
//      CHECK:plan of 'pos.map_rows':
// CHECK-NEXT:  rows of input: single, lanes 0 to 8
func.func @map(%x: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %y = pos.map_rows %x of embedding : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    pos.rows of [embedding] single {
    ^bb0(%e: f32):
      %u = arith.negf %e : f32
      pos.yield %u : f32
    }
    pos.rows of [query] single {
    ^bb0(%e: f32):
      pos.yield %e : f32
    }
  }
  return %y : tensor<?x?x8xf32>
}

// What a row map reads at its own place of a parameter is read there; a table
// that other lanes make is made before.
//      CHECK:plan of 'pos.attention':
// CHECK-NEXT:  rows of query: single, lanes 0 to 8
// CHECK-NEXT:  hoisted 0: row-lane table over [batch, head, self, lane], f32, of query, per batch and head, parameter 0 in place
// CHECK-NEXT:  hoisted 1: row-lane table over [batch, self, lane], f32, of query, per batch
func.func @in_place(%q: tensor<?x?x?x8xf32>, %e: tensor<?x?x?x?xf32>) {
  %o, %lse, %stats = pos.attention %q, %q, (%q) params(%e : tensor<?x?x?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>, tensor<?x?x?x2xf32> {
  ^bb0(%p: tensor<?x?x?x?xf32>):
    %a = pos.hoist [batch, head, self, lane] {
      %b = pos.batch
      %h = pos.head
      %r = pos.tensor_row self
      %l = pos.lane
      %x = pos.read %p[%b, %h, %r, %l] : tensor<?x?x?x?xf32>
      pos.yield %x : f32
    } : f32
    %c = pos.hoist [batch, self, lane] {
      %b = pos.batch
      %h = arith.constant 1 : i32
      %r = pos.tensor_row self
      %l = pos.lane
      %x = pos.read %p[%b, %h, %r, %l] : tensor<?x?x?x?xf32>
      pos.yield %x : f32
    } : f32
    pos.rows of [query] single {
    ^bb0(%x: f32):
      %y = arith.mulf %x, %a : f32
      %z = arith.addf %y, %c : f32
      pos.yield %z : f32
    }
  }
  return
}

// Queries may read at their index, not their number, where the rows before the
// first key read its row; keys alike. At another index a table is made.
//      CHECK:plan of 'pos.attention':
// CHECK-NEXT:  rows of query: single, lanes 0 to 8
// CHECK-NEXT:  rows of key: single, lanes 0 to 8
// CHECK-NEXT:  hoisted 0: row-lane table over [batch, head, self, lane], f32, of query, per batch and head, parameter 0 in place at the index
// CHECK-NEXT:  hoisted 1: row-lane table over [batch, head, self, lane], f32, of key, per batch and head, parameter 0 in place at the index
// CHECK-NEXT:  hoisted 2: row-lane table over [batch, head, self, lane], f32, of query, per batch and head
// CHECK-NEXT:  hoisted 3: row-lane table over [batch, head, self, lane], f32, of key, per batch and head
func.func @in_place_at_the_index(%q: tensor<?x?x?x8xf32>, %e: tensor<?x?x?x?xf32>) {
  %o, %lse, %stats = pos.attention %q, %q, (%q) params(%e : tensor<?x?x?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>, tensor<?x?x?x2xf32> {
  ^bb0(%p: tensor<?x?x?x?xf32>):
    %a = pos.hoist [batch, head, self, lane] {
      %b = pos.batch
      %h = pos.head
      %i = pos.index self
      %zero = arith.constant 0 : i32
      %r = arith.maxsi %i, %zero : i32
      %l = pos.lane
      %x = pos.read %p[%b, %h, %r, %l] : tensor<?x?x?x?xf32>
      pos.yield %x : f32
    } : f32
    %c = pos.hoist [batch, head, self, lane] {
      %b = pos.batch
      %h = pos.head
      %i = pos.index self
      %one = arith.constant 1 : i32
      %r = arith.maxsi %i, %one : i32
      %l = pos.lane
      %x = pos.read %p[%b, %h, %r, %l] : tensor<?x?x?x?xf32>
      pos.yield %x : f32
    } : f32
    pos.rows of [query, key] single {
    ^bb0(%x: f32):
      %y = arith.mulf %x, %a : f32
      %z = arith.addf %y, %c : f32
      pos.yield %z : f32
    }
  }
  return
}

// Columns are read in place, too, and their gradients belong to the parameters: no copy of
// either is made.
//      CHECK:plan of 'pos.attention_backward':
// CHECK-NEXT:  columns: 3
// CHECK-NEXT:  hoisted 0: row-lane table over [batch, head, query, lane], f32, of query, per batch and head, parameter 0 in place, gradient
// CHECK-NEXT:  hoisted 1: row-lane table over [batch, head, key, lane], f32, of key, per batch and head, parameter 1 in place, gradient
// CHECK-NEXT:  gradient of parameter 0: summed outside tiles
// CHECK-NEXT:  gradient of parameter 1: summed outside tiles
func.func @columns_in_place(%q: tensor<?x?x?x8xf32>, %stats: tensor<?x?x?x2xf32>, %lse: tensor<?x?x?xf32>,
                            %a: tensor<?x?x?x?xf32>, %b: tensor<?x?x?x?xf32>) {
  %dq, %dk, %dv, %da, %db = pos.attention_backward %q, %q, (%q), (%q), %stats, (%q), %lse
    params(%a, %b : tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32>) gradients [0, 1]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?x?xf32>, tensor<?x?x?x?xf32> {
  ^bb0(%of_queries: tensor<?x?x?x?xf32>, %of_keys: tensor<?x?x?x?xf32>):
    %three = arith.constant 3 : i32
    %x = pos.hoist [batch, head, query, lane] {
      %n = pos.batch
      %h = pos.head
      %r = pos.tensor_row query
      %l = pos.lane
      %e = pos.read %of_queries[%n, %h, %r, %l] : tensor<?x?x?x?xf32>
      pos.yield %e : f32
    } : f32
    %y = pos.hoist [batch, head, key, lane] {
      %n = pos.batch
      %h = pos.head
      %r = pos.tensor_row key
      %l = pos.lane
      %e = pos.read %of_keys[%n, %h, %r, %l] : tensor<?x?x?x?xf32>
      pos.yield %e : f32
    } : f32
    pos.columns %three {
      pos.yield %x, %y : f32, f32
    }
  }
  return
}

// An integer that only a table needs has no table of its own.
//      CHECK:plan of 'pos.attention':
//      CHECK:  hoisted 0: offset table over [offset], i32, of query, shared, computed where it is used
// CHECK-NEXT:  hoisted 1: offset table over [head, offset], f32, of query, per head
func.func @bucket(%q: tensor<?x?x?x8xf32>, %a: tensor<?x?xf32>) {
  %o, %lse = pos.attention %q, %q, (%q) params(%a : tensor<?x?xf32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>) -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32> {
  ^bb0(%w: tensor<?x?xf32>):
    %b = pos.hoist [offset] {
      %d = pos.offset
      %n = math.absi %d : i32
      pos.yield %n : i32
    } : i32
    %t = pos.hoist [head, offset] {
      %h = pos.head
      %r = pos.read %w[%b, %h] : tensor<?x?xf32>
      pos.yield %r : f32
    } : f32
    pos.score {
    ^bb0(%s: f32):
      %y = arith.addf %s, %t : f32
      pos.yield %y : f32
    }
  }
  return
}

// Elements of a parameter that scores of separate batches, heads and pairs read
// are separate, so that items share one sum of its gradient; those of one that
// is read at both (query, key) and (key, query) are not.
//      CHECK:plan of 'pos.attention_backward':
// CHECK-NEXT:  score: adds to the product
// CHECK-NEXT:  gradient of parameter 0: summed in tiles, apart by batch, apart by head, apart by query and key, keys in a row
// CHECK-NEXT:  gradient of parameter 1: summed in tiles
func.func @biases_of_pairs(%q: tensor<?x?x?x8xf32>, %stats: tensor<?x?x?x2xf32>, %lse: tensor<?x?x?xf32>, %a: tensor<?x?x?x?xf32>, %b: tensor<?x?xf32>) {
  %dq, %dk, %dv, %da, %db = pos.attention_backward %q, %q, (%q), (%q), %stats, (%q), %lse
    params(%a, %b : tensor<?x?x?x?xf32>, tensor<?x?xf32>) gradients [0, 1]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?x?xf32>, tensor<?x?xf32> {
  ^bb0(%biases: tensor<?x?x?x?xf32>, %turned: tensor<?x?xf32>):
    pos.score {
    ^bb0(%s: f32):
      %n = pos.batch
      %h = pos.head
      %i = pos.index query
      %row = pos.tensor_row query
      %j = pos.index key
      %r = pos.read %biases[%n, %h, %row, %j] : tensor<?x?x?x?xf32>
      %t = pos.read %turned[%i, %j] : tensor<?x?xf32>
      %u = pos.read %turned[%j, %i] : tensor<?x?xf32>
      %x = arith.addf %s, %r : f32
      %y = arith.addf %x, %t : f32
      %z = arith.addf %y, %u : f32
      pos.yield %z : f32
    }
  }
  return
}
