// RUN: sextant-opt %s --sextant-encoding-pipeline --pos-lower-attention=target=cpu:avx2 | FileCheck %s
// RUN: sextant-opt %s --sextant-encoding-pipeline --pos-lower-attention=target=reference | FileCheck %s --check-prefix=REFERENCE
// RUN: sextant-opt %s --sextant-encoding-pipeline --pos-lower-attention=target=cpu:avx2 --remarks-filter=pos-lower-attention -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

// COUNT: remark: [Passed] lowered | Category:pos-lower-attention | Ops=10, Structures=9

!rows = tensor<?x?x?x32xf32>
!lse = tensor<?x?x?xf32>

// Two layers of the same structure share the kernels; a third with a mask has
// its own.
// CHECK-LABEL: func.func @layers
// CHECK-NOT: pos.attention
// CHECK: exec.launch @kernels::@attention_0_forward reads(%arg0, %arg0, %arg0
// CHECK: exec.launch @kernels::@attention_0_forward
// CHECK: exec.launch @kernels::@attention_1_forward
// REFERENCE-LABEL: func.func @layers
// REFERENCE-NOT: pos.attention
// REFERENCE: exec.launch @kernels::@attention_0
func.func @layers(%x: !rows) -> !rows {
  %a, %l0 = pos.attention %x, %x, (%x) : !rows, !rows, (!rows) -> (!rows), !lse
  %b, %l1 = pos.attention %a, %a, (%a) : !rows, !rows, (!rows) -> (!rows), !lse
  %c, %l2 = pos.attention %b, %b, (%b) uses [#pos.use<@causal, "causal">]
    : !rows, !rows, (!rows) -> (!rows), !lse
  return %c : !rows
}

// The table of offsets is filled before it is used.
// CHECK-LABEL: func.func @table
// CHECK: exec.launch @kernels::@attention_2_hoist0 {{.*}}writes(%[[TABLE:.+]] :
// CHECK: exec.launch @kernels::@attention_2_forward reads({{.*}}%[[TABLE]]
func.func @table(%x: !rows, %slopes: tensor<?xf32>) -> !rows {
  %a, %l0 = pos.attention %x, %x, (%x) uses [#pos.use<@alibi, "alibi">]
    params(%slopes : tensor<?xf32>) : !rows, !rows, (!rows) -> (!rows), !lse
  return %a : !rows
}

// Both tables of appended columns are filled before rows are read with them.
// CHECK-LABEL: func.func @columns
// CHECK: exec.launch @kernels::@attention_3_hoist0 {{.*}}writes(%[[A:.+]] : tensor<1x?x?x5xf32>
// CHECK: exec.launch @kernels::@attention_3_hoist1 {{.*}}writes(%[[B:.+]] : tensor<1x1x?x5xf32>
// CHECK: exec.launch @kernels::@attention_3_forward reads({{.*}}%[[A]], %[[B]]
func.func @columns(%x: !rows, %w: tensor<?x?xf32>) -> !rows {
  %a, %l0 = pos.attention %x, %x, (%x) params(%w : tensor<?x?xf32>)
    : !rows, !rows, (!rows) -> (!rows), !lse {
  ^bb0(%p: tensor<?x?xf32>):
    %n = arith.constant 5 : i32
    pos.columns %n {
      %h = pos.head
      %t = pos.lane
      %i = pos.index query
      %j = pos.index key
      %f = arith.sitofp %i : i32 to f32
      %g = pos.read %p[%h, %t] : tensor<?x?xf32>
      %y = arith.mulf %f, %g : f32
      %z = arith.sitofp %j : i32 to f32
      pos.yield %y, %z : f32, f32
    }
  }
  return %a : !rows
}

// Rows turn before the kernel reads them, on every target.
// CHECK-LABEL: func.func @turns
// CHECK: exec.launch @kernels::@attention_4_turn0 reads(%arg0 {{.*}}writes(%[[Q:.+]] :
// CHECK: exec.launch @kernels::@attention_4_forward reads(%[[Q]], %arg0, %arg0
// REFERENCE-LABEL: func.func @turns
// REFERENCE: exec.launch @kernels::@attention_4_turn0 reads(%arg0 {{.*}}writes(%[[Q:.+]] :
// REFERENCE: exec.launch @kernels::@attention_4_forward reads(%[[Q]], %arg0, %arg0
func.func @turns(%x: !rows) -> !rows {
  %a, %l0 = pos.attention %x, %x, (%x) : !rows, !rows, (!rows) -> (!rows), !lse {
    %n = arith.constant 5 : i32
    pos.turn_rows of [query] blocks %n {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %p = pos.coord self
      %f = arith.sitofp %p : i32 to f32
      pos.yield %f : f32
    }
  }
  return %a : !rows
}

// Cosine and sine of an angle are filled by one launch per operand.
// CHECK-LABEL: func.func @shared
// CHECK: exec.launch @kernels::@attention_5_hoist0 {{.*}}writes(%[[C:[0-9a-z_]+]], %[[S:[0-9a-z_]+]] : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
// CHECK: exec.launch @kernels::@attention_5_hoist1 {{.*}}writes(%{{[0-9a-z_]+}}, %{{[0-9a-z_]+}} : tensor<?x?x?x16xf32>, tensor<?x?x?x16xf32>
// CHECK-NOT: hoist
// CHECK: exec.launch @kernels::@attention_5_forward reads({{.*}}%[[C]], {{.*}}%[[S]],
func.func @shared(%x: !rows, %f: tensor<?x?x?xf32>, %p: tensor<?x?x2xi32>) -> !rows {
  %a, %l0 = pos.attention %x, %x, (%x) uses [#pos.use<@rope_2d_mixed, "rope">]
    params(%f : tensor<?x?x?xf32>)
    query_positions(%p : tensor<?x?x2xi32>) key_positions(%p : tensor<?x?x2xi32>)
    : !rows, !rows, (!rows) -> (!rows), !lse
  return %a : !rows
}

// One launch turns the rows of both operands.
// CHECK-LABEL: func.func @turns_of_both
// CHECK: exec.launch @kernels::@attention_6_turn0 reads(%arg0, %arg0 {{.*}}writes(%[[Q:[0-9a-z_]+]], %[[K:[0-9a-z_]+]] :
// CHECK-NOT: turn1
// CHECK: exec.launch @kernels::@attention_6_forward reads(%[[Q]], %[[K]], %arg0
func.func @turns_of_both(%x: !rows) -> !rows {
  %a, %l0 = pos.attention %x, %x, (%x) : !rows, !rows, (!rows) -> (!rows), !lse {
    %n = arith.constant 5 : i32
    pos.turn_rows of [query, key] blocks %n {
    ^bb0(%block: i32, %row: i32, %column: i32):
      %p = pos.coord self
      %f = arith.sitofp %p : i32 to f32
      pos.yield %f : f32
    }
  }
  return %a : !rows
}

// Positions that both sides share are looked at once, so that the kernels are
// others than those for positions of each side.
// CHECK-LABEL: func.func @positions
// CHECK: exec.launch @kernels::@attention_7_spans reads(%arg2, %arg2, %[[BOTH:[0-9a-z_]+]] : {{.*}}) writes(
// CHECK: exec.launch @kernels::@attention_8_spans reads(%arg2, %arg3, %[[QUERIES:[0-9a-z_]+]], %[[KEYS:[0-9a-z_]+]] : {{.*}}) writes(
func.func @positions(%x: !rows, %slopes: tensor<?xf32>, %p: tensor<?x?x1xi32>, %r: tensor<?x?x1xi32>) -> !rows {
  %a, %l0 = pos.attention %x, %x, (%x) uses [#pos.use<@alibi, "alibi">]
    params(%slopes : tensor<?xf32>)
    query_positions(%p : tensor<?x?x1xi32>) key_positions(%p : tensor<?x?x1xi32>)
    : !rows, !rows, (!rows) -> (!rows), !lse
  %b, %l1 = pos.attention %a, %a, (%a) uses [#pos.use<@alibi, "alibi">]
    params(%slopes : tensor<?xf32>)
    query_positions(%p : tensor<?x?x1xi32>) key_positions(%r : tensor<?x?x1xi32>)
    : !rows, !rows, (!rows) -> (!rows), !lse
  return %b : !rows
}

// The items run in a mode of their own, which the caller does not see; the
// reference runs in that of its caller.
// CHECK: module @kernels {
// CHECK: llvm.func internal @attention_0_forward_range(
// CHECK-SAME: no_inline
// CHECK: llvm.func @attention_0_forward(
// CHECK: llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%[[BEFORE:.+]])
// CHECK-NEXT: llvm.store %c40896_i32, %[[DURING:.+]] {
// CHECK-NEXT: llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%[[DURING]])
// CHECK-NEXT: llvm.call @attention_0_forward_range(
// CHECK-NEXT: llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%[[BEFORE]])
// CHECK-NEXT: llvm.return
// REFERENCE: module @kernels {
// REFERENCE-NOT: mxcsr
// CHECK: llvm.func @attention_0_forward_items(
// CHECK: llvm.func @attention_0_forward_scratch(
