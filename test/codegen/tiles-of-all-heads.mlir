// Scores of all heads on a matrix unit, of bf16: of each head the products of 32
// queries and 32 keys. Two steps of S, and backward of S and of dP, of 32
// elements of a row each, are written out; those that add to the output, to dV
// and to dK are loops over what is seen; dQ has one step for each 32 columns.
// RUN: sextant-compile %s --no-cache --target=cpu:amx --emit=asm | FileCheck %s

// CHECK-LABEL: attention_0_forward_range:
// CHECK-COUNT-8: tdpbf16ps
// CHECK: tilestored
// CHECK-COUNT-4: tdpbf16ps
// CHECK-NOT: tdpbf16ps
// CHECK-LABEL: attention_0_forward:
// CHECK: ldtilecfg

// CHECK-LABEL: attention_backward_1_main_range:
// CHECK-COUNT-16: tdpbf16ps
// CHECK: tilestored
// CHECK-COUNT-12: tdpbf16ps
// CHECK-NOT: tdpbf16ps
// CHECK-LABEL: attention_backward_1_main:
// CHECK: ldtilecfg

// Of f32 they stay on vectors: with terms, what is kept of many heads is more
// than a second cache.
// RUN: sed s/bf16/f32/g %s | sextant-compile - --no-cache --target=cpu:amx --emit=asm | FileCheck %s --check-prefix=VECTORS
// VECTORS-NOT: tdpbf16ps

!rows = tensor<?x4x?x64xbf16>
!lse = tensor<?x4x?xf32>
!statistics = tensor<?x4x?x2xf32>
!matrix = tensor<4x4xf32>

func.func @forward(%q: !rows, %k: !rows, %v: !rows, %pre: !matrix) -> !rows {
  %o, %lse = pos.attention %q, %k, (%v) uses [#pos.use<@talking_heads, "talking_heads">]
    params(%pre : !matrix) : !rows, !rows, (!rows) -> (!rows), !lse
  return %o : !rows
}

func.func @backward(%q: !rows, %k: !rows, %v: !rows, %o: !rows, %statistics: !statistics,
                    %do: !rows, %dlse: !lse, %pre: !matrix) -> (!rows, !rows, !rows, !matrix) {
  %dq, %dk, %dv, %dpre = pos.attention_backward %q, %k, (%v), (%o), %statistics, (%do), %dlse
    uses [#pos.use<@talking_heads, "talking_heads">] params(%pre : !matrix) gradients [0]
    : !rows, !rows, (!rows), (!rows), !statistics, (!rows), !lse -> !rows, !rows, (!rows), !matrix
  return %dq, %dk, %dv, %dpre : !rows, !rows, !rows, !matrix
}
