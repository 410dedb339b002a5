// RUN: sextant-opt %s --pos-form-addends --canonicalize --cse --split-input-file | FileCheck %s
// RUN: sextant-opt %s --pos-form-addends --split-input-file --remarks-filter=pos-form-addends -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// The first two lanes hold the position in the input of queries and of keys: both
// products run over the other lanes, and add what one sequence of positions
// gives, made once.
// REMARK: remark: [Passed] formed | Category:pos-form-addends | Lanes=2, Products=1
// REMARK: remark: [Passed] formed | Category:pos-form-addends | Lanes=2, Products=1
// CHECK-LABEL: func @projections
// CHECK-SAME:  (%[[X:.+]]: tensor<?x?x8xf32>, %[[WQ:.+]]: tensor<6x8xf32>, %[[WK:.+]]: tensor<6x8xf32>, %[[B:.+]]: tensor<6xf32>, %[[S:.+]]: tensor<f32>)
// CHECK:       %[[L:.+]] = tensor.dim %[[X]], %c1
// CHECK:       %[[ZEROS:.+]] = tensor.splat %{{.+}}[%[[L]]] : tensor<1x?x2xf32>
// CHECK:       %[[P:.+]] = pos.map_rows %[[ZEROS]] of query_input params(%[[S]] : tensor<f32>)
// CHECK:         pos.rows of [query_input, key_input] single {
// CHECK-NOT:   pos.map_rows
// CHECK:       %[[COLUMNS:.+]]:2 = nn.split %[[WQ]] dim 1 into [2, 6]
// CHECK:       %[[A:.+]] = nn.linear %[[P]], %[[COLUMNS]]#0 bias %[[B]]
// CHECK:       %[[KEPT:.+]] = nn.slice %[[X]] dim 2 start 2 length 6
// CHECK:       %[[Y:.+]] = nn.linear %[[KEPT]], %[[COLUMNS]]#1 : (tensor<?x?x6xf32>, tensor<6x6xf32>)
// CHECK:       nn.add %[[Y]], %[[A]] : (tensor<?x?x6xf32>, tensor<1x?x6xf32>) -> tensor<?x?x6xf32>
// CHECK:       %[[COLUMNSK:.+]]:2 = nn.split %[[WK]] dim 1 into [2, 6]
// CHECK:       nn.linear %[[P]], %[[COLUMNSK]]#0 : (tensor<1x?x2xf32>
// CHECK:       nn.linear %[[KEPT]], %{{.+}} : (tensor<?x?x6xf32>
func.func @projections(%x: tensor<?x?x8xf32>, %wq: tensor<6x8xf32>, %wk: tensor<6x8xf32>,
    %b: tensor<6xf32>, %s: tensor<f32>) -> (tensor<?x?x6xf32>, tensor<?x?x6xf32>) {
  %xq = pos.map_rows %x of query_input params(%s : tensor<f32>)
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
  ^bb0(%scale: tensor<f32>):
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [query_input, key_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %t = pos.lane
      %p = arith.addi %n, %t : i32
      %f = arith.sitofp %p : i32 to f32
      %k = pos.read %scale[] : tensor<f32>
      %y = arith.mulf %f, %k : f32
      pos.yield %y : f32
    }
  }
  %q = nn.linear %xq, %wq bias %b : (tensor<?x?x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<?x?x6xf32>
  %xk = pos.map_rows %x of key_input params(%s : tensor<f32>)
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
  ^bb0(%scale: tensor<f32>):
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [query_input, key_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %t = pos.lane
      %p = arith.addi %n, %t : i32
      %f = arith.sitofp %p : i32 to f32
      %k = pos.read %scale[] : tensor<f32>
      %y = arith.mulf %f, %k : f32
      pos.yield %y : f32
    }
  }
  %k = nn.linear %xk, %wk : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  return %q, %k : tensor<?x?x6xf32>, tensor<?x?x6xf32>
}

// -----

// Rows of bf16, of which the last lanes are overwritten, with given positions: the
// addend is made and added in f32.
// REMARK: remark: [Passed] formed | Category:pos-form-addends | Lanes=4, Products=1
// CHECK-LABEL: func @bf16
// CHECK-SAME:  (%[[X:.+]]: tensor<2x5x8xbf16>, %[[W:.+]]: tensor<6x8xbf16>, %[[B:.+]]: tensor<6xbf16>, %[[AT:.+]]: tensor<1x5x1xi32>)
// CHECK:       %[[P:.+]] = pos.map_rows %{{.+}} of key_input positions(%[[AT]] : tensor<1x5x1xi32>) : tensor<1x5x4xf32>
// CHECK:       %[[COLUMNS:.+]]:2 = nn.split %[[W]] dim 1 into [4, 4]
// CHECK:       %[[WIDE:.+]] = nn.cast %[[COLUMNS]]#1 : tensor<6x4xbf16> -> tensor<6x4xf32>
// CHECK:       %[[BIAS:.+]] = nn.cast %[[B]] : tensor<6xbf16> -> tensor<6xf32>
// CHECK:       %[[A:.+]] = nn.linear %[[P]], %[[WIDE]] bias %[[BIAS]]
// CHECK:       %[[KEPT:.+]] = nn.slice %[[X]] dim 2 start 0 length 4
// CHECK:       %[[Y:.+]] = nn.linear %[[KEPT]], %[[COLUMNS]]#0 : (tensor<2x5x4xbf16>
// CHECK:       %[[YF:.+]] = nn.cast %[[Y]] : tensor<2x5x6xbf16> -> tensor<2x5x6xf32>
// CHECK:       %[[SUM:.+]] = nn.add %[[YF]], %[[A]]
// CHECK:       nn.cast %[[SUM]] : tensor<2x5x6xf32> -> tensor<2x5x6xbf16>
func.func @bf16(%x: tensor<2x5x8xbf16>, %w: tensor<6x8xbf16>, %b: tensor<6xbf16>,
    %at: tensor<1x5x1xi32>) -> tensor<2x5x6xbf16> {
  %xk = pos.map_rows %x of key_input positions(%at : tensor<1x5x1xi32>)
    : tensor<2x5x8xbf16> -> tensor<2x5x8xbf16> {
    %begin = arith.constant 4 : i32
    %end = arith.constant 0 : i32
    pos.rows of [key_input] half lanes(%begin, %end) {
    ^bb0(%a: f32, %c: f32):
      %n = pos.coord self
      %f = arith.sitofp %n : i32 to f32
      pos.yield %f, %f : f32, f32
    }
  }
  %k = nn.linear %xk, %w bias %b : (tensor<2x5x8xbf16>, tensor<6x8xbf16>, tensor<6xbf16>) -> tensor<2x5x6xbf16>
  return %k : tensor<2x5x6xbf16>
}

// -----

// A map that reads the row stays, and nothing is said.
// REMARK-NOT: remark
// CHECK-LABEL: func @reads_the_row
// CHECK:       pos.map_rows
func.func @reads_the_row(%x: tensor<?x?x8xf32>, %w: tensor<6x8xf32>) -> tensor<?x?x6xf32> {
  %xq = pos.map_rows %x of query_input : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [query_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %y = math.exp %a : f32
      pos.yield %y : f32
    }
  }
  %q = nn.linear %xq, %w : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  return %q : tensor<?x?x6xf32>
}

// -----

// Lanes that differ between the elements of the batch, or that read its size.
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="its lanes vary with more than position and lane"
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="its lanes read the size of the batch or of the row"
// CHECK-LABEL: func @of_the_batch
// CHECK-NOT:   nn.slice
func.func @of_the_batch(%x: tensor<?x?x8xf32>, %w: tensor<6x8xf32>, %s: tensor<?xf32>)
    -> (tensor<?x?x6xf32>, tensor<?x?x6xf32>) {
  %xq = pos.map_rows %x of query_input params(%s : tensor<?xf32>)
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
  ^bb0(%of_each: tensor<?xf32>):
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [query_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %b = pos.batch
      %y = pos.read %of_each[%b] : tensor<?xf32>
      pos.yield %y : f32
    }
  }
  %q = nn.linear %xq, %w : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  %xk = pos.map_rows %x of key_input : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [key_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %b = pos.extent batch
      %y = arith.sitofp %b : i32 to f32
      pos.yield %y : f32
    }
  }
  %k = nn.linear %xk, %w : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  return %q, %k : tensor<?x?x6xf32>, tensor<?x?x6xf32>
}

// -----

// Positions of which each sequence may have its own, one sequence, and lanes in the
// middle.
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="each sequence may have positions of its own"
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="there is one sequence: an addend of one costs what it saves"
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="its lanes are in the middle of the row"
// CHECK-LABEL: func @no_gain
// CHECK-NOT:   nn.slice
func.func @no_gain(%x: tensor<?x?x8xf32>, %one: tensor<1x?x8xf32>, %w: tensor<6x8xf32>,
    %at: tensor<?x?x1xi32>) -> (tensor<?x?x6xf32>, tensor<1x?x6xf32>, tensor<?x?x6xf32>) {
  %xa = pos.map_rows %x of query_input positions(%at : tensor<?x?x1xi32>)
    : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [query_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %y = arith.sitofp %n : i32 to f32
      pos.yield %y : f32
    }
  }
  %ya = nn.linear %xa, %w : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  %xb = pos.map_rows %one of query_input : tensor<1x?x8xf32> -> tensor<1x?x8xf32> {
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [query_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %y = arith.sitofp %n : i32 to f32
      pos.yield %y : f32
    }
  }
  %yb = nn.linear %xb, %w : (tensor<1x?x8xf32>, tensor<6x8xf32>) -> tensor<1x?x6xf32>
  %xc = pos.map_rows %x of query_input : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    %begin = arith.constant 1 : i32
    %end = arith.constant 3 : i32
    pos.rows of [query_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %y = arith.sitofp %n : i32 to f32
      pos.yield %y : f32
    }
  }
  %yc = nn.linear %xc, %w : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  return %ya, %yb, %yc : tensor<?x?x6xf32>, tensor<1x?x6xf32>, tensor<?x?x6xf32>
}

// -----

// No lane left, another use of the rows, another map of them.
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="no lane of the row is left to multiply"
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="something else than a product reads the mapped rows"
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="more than one row map is of the same rows"
// CHECK-LABEL: func @no_form
// CHECK-NOT:   nn.slice
func.func @no_form(%x: tensor<?x?x8xf32>, %w: tensor<6x8xf32>)
    -> (tensor<?x?x6xf32>, tensor<?x?x8xf32>, tensor<?x?x6xf32>) {
  %xa = pos.map_rows %x of query_input : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    pos.rows of [query_input] single {
    ^bb0(%a: f32):
      %n = pos.coord self
      %y = arith.sitofp %n : i32 to f32
      pos.yield %y : f32
    }
  }
  %ya = nn.linear %xa, %w : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  %xb = pos.map_rows %x of query_input : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [query_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %y = arith.sitofp %n : i32 to f32
      pos.yield %y : f32
    }
  }
  %yb = nn.add %xb, %xb : (tensor<?x?x8xf32>, tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %xc = pos.map_rows %x of query_input : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    %begin = arith.constant 0 : i32
    %end = arith.constant 2 : i32
    pos.rows of [query_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %y = arith.sitofp %n : i32 to f32
      pos.yield %y : f32
    }
    pos.rows of [query_input] single {
    ^bb0(%a: f32):
      %y = math.exp %a : f32
      pos.yield %y : f32
    }
  }
  %yc = nn.linear %xc, %w : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  return %ya, %yb, %yc : tensor<?x?x6xf32>, tensor<?x?x8xf32>, tensor<?x?x6xf32>
}

// -----

// A turn of the same rows, and rows of a width that the call says: what the lanes
// leave of them is not the input.
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="a turn is of the same rows"
// REMARK: remark: [Missed] declined | Category:pos-form-addends | Reason="the width of its rows is not known"
// CHECK-LABEL: func @no_rest
// CHECK-NOT:   nn.slice
func.func @no_rest(%x: tensor<?x?x8xf32>, %w: tensor<6x8xf32>, %z: tensor<?x?x?xf32>, %v: tensor<6x?xf32>)
    -> (tensor<?x?x6xf32>, tensor<?x?x6xf32>) {
  %xa = pos.map_rows %x of query : tensor<?x?x8xf32> -> tensor<?x?x8xf32> {
    %two = arith.constant 2 : i32
    %begin = arith.constant 0 : i32
    pos.turn_rows of [query] blocks %two {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %o = arith.subi %row, %column : i32
      %a = arith.sitofp %o : i32 to f32
      pos.yield %a : f32
    }
    pos.rows of [query] single lanes(%begin, %two) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %y = arith.sitofp %n : i32 to f32
      pos.yield %y : f32
    }
  }
  %ya = nn.linear %xa, %w : (tensor<?x?x8xf32>, tensor<6x8xf32>) -> tensor<?x?x6xf32>
  %xb = pos.map_rows %z of query_input : tensor<?x?x?xf32> -> tensor<?x?x?xf32> {
    %begin = arith.constant 2 : i32
    %end = arith.constant 0 : i32
    pos.rows of [query_input] single lanes(%begin, %end) {
    ^bb0(%a: f32):
      %n = pos.coord self
      %y = arith.sitofp %n : i32 to f32
      pos.yield %y : f32
    }
  }
  %yb = nn.linear %xb, %v : (tensor<?x?x?xf32>, tensor<6x?xf32>) -> tensor<?x?x6xf32>
  return %ya, %yb : tensor<?x?x6xf32>, tensor<?x?x6xf32>
}
