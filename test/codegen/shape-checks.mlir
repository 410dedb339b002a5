// RUN: sextant-opt %s --sextant-encoding-pipeline --pos-lower-attention=target=cpu:avx2 | FileCheck %s

// What a program checks of its tensors before a kernel indexes them.

!rows = tensor<?x?x?x16xf32>
!lse = tensor<?x?x?xf32>

// Lanes count in 32 bits along what differs between them: not along the batch
// and the heads, nor where there is no other dimension.
pos.encoding @bias {
  %n = pos.extent batch
  %h = pos.extent heads
  %q = pos.extent query
  %k = pos.extent key
  %bias = pos.param "bias" : tensor<?x?x?x?xf32> dims(%n, %h, %q, %k)
  %slope = pos.param "slope" : tensor<?xf32> dims(%h)
  pos.score {
  ^bb0(%s: f32):
    %b = pos.batch
    %head = pos.head
    %i = pos.tensor_row query
    %j = pos.index key
    %x = pos.read %bias[%b, %head, %i, %j] : tensor<?x?x?x?xf32>
    %y = pos.read %slope[%head] : tensor<?xf32>
    %z = arith.mulf %x, %y : f32
    %t = arith.addf %s, %z : f32
    pos.yield %t : f32
  }
}

// CHECK-LABEL: func.func @biased
// CHECK-SAME: %[[BIAS:[a-z0-9]+]]: tensor<?x?x?x?xf32>
// CHECK: %[[APART:.+]] = exec.distance %[[BIAS]] over [2, 3] : tensor<?x?x?x?xf32>
// CHECK-NEXT: %[[MOST:.+]] = arith.constant 2147483647 : index
// CHECK: exec.check %[[APART]] at_most %[[MOST]], "parameter 0 of 'pos.attention' has elements farther from each other than kernels count"
// CHECK-NOT: exec.distance
// CHECK: exec.launch
func.func @biased(%x: !rows, %bias: tensor<?x?x?x?xf32>, %slope: tensor<?xf32>) -> !rows {
  %a, %l = pos.attention %x, %x, (%x) uses [#pos.use<@bias, "bias">]
    params(%bias, %slope : tensor<?x?x?x?xf32>, tensor<?xf32>)
    : !rows, !rows, (!rows) -> (!rows), !lse
  return %a : !rows
}

// The same of positions, of which an element of the batch has its own.
// CHECK-LABEL: func.func @positions
// CHECK-SAME: %[[AT:[a-z0-9]+]]: tensor<?x?x1xi32>
// CHECK: exec.distance %[[AT]] over [1, 2] : tensor<?x?x1xi32>
// CHECK: "a tensor of query positions has elements farther from each other than kernels count"
func.func @positions(%x: !rows, %at: tensor<?x?x1xi32>, %slopes: tensor<?xf32>) -> !rows {
  %a, %l = pos.attention %x, %x, (%x) uses [#pos.use<@alibi, "alibi">]
    params(%slopes : tensor<?xf32>)
    query_positions(%at : tensor<?x?x1xi32>) key_positions(%at : tensor<?x?x1xi32>)
    : !rows, !rows, (!rows) -> (!rows), !lse
  return %a : !rows
}
