// RUN: split-file %s %t
// RUN: sextant-compile %t/forward.mlir --target=cpu:avx2 --emit kernel --no-cache --o=- | FileCheck %t/forward.mlir
// RUN: sextant-compile %t/backward.mlir --target=cpu:avx2 --emit kernel --no-cache --o=- | FileCheck %t/backward.mlir
// RUN: sextant-compile %t/heads.mlir --target=cpu:avx2 --emit kernel --no-cache --o=- | FileCheck %t/heads.mlir

// Rows of the next block are asked for only where those of a head do not stay in
// the second cache, half of which is 512 KiB. For shorter sequences the questions
// are work that nobody waits for.

//--- forward.mlir
// K and V have 512 bytes a key.
// CHECK: %[[KEYS:.+]] = arith.constant 1024 : i64
// CHECK: %[[LONG:.+]] = arith.cmpi sgt, %{{.+}}, %[[KEYS]] : i64
// CHECK-NOT: prefetch
// CHECK: scf.if %[[LONG]] {
// CHECK-NOT: scf.if
// CHECK: "llvm.intr.prefetch"

!rows = tensor<?x?x?x64xf32>
!lse = tensor<?x?x?xf32>

func.func @forward(%q: !rows, %k: !rows, %v: !rows) -> (!rows, !lse) {
  %o, %lse = pos.attention %q, %k, (%v) : !rows, !rows, (!rows) -> (!rows), !lse
  return %o, %lse : !rows, !lse
}

//--- backward.mlir
// Q, dO and dQ have 768 bytes a query.
// CHECK: %[[QUERIES:.+]] = arith.constant 682 : i64
// CHECK: %[[LONG:.+]] = arith.cmpi sgt, %{{.+}}, %[[QUERIES]] : i64
// CHECK-NOT: prefetch
// CHECK: scf.if %[[LONG]] {
// CHECK-NOT: scf.if
// CHECK: "llvm.intr.prefetch"

!rows = tensor<?x?x?x64xf32>
!lse = tensor<?x?x?xf32>
!stats = tensor<?x?x?x2xf32>

func.func @backward(%q: !rows, %k: !rows, %v: !rows, %o: !rows, %stats: !stats,
                    %do: !rows, %dlse: !lse) -> (!rows, !rows, !rows) {
  %dq, %dk, %dv = pos.attention_backward %q, %k, (%v), (%o), %stats, (%do), %dlse
    uses [] gradients []
    : !rows, !rows, (!rows), (!rows), !stats, (!rows), !lse -> !rows, !rows, (!rows)
  return %dq, %dk, %dv : !rows, !rows, !rows
}

//--- heads.mlir
// Four heads pass together.
// CHECK: %[[KEYS:.+]] = arith.constant 256 : i64
// CHECK: %[[LONG:.+]] = arith.cmpi sgt, %{{.+}}, %[[KEYS]] : i64
// CHECK-NOT: prefetch
// CHECK: scf.if %[[LONG]] {
// CHECK-NOT: scf.if
// CHECK: "llvm.intr.prefetch"

!rows = tensor<?x4x?x64xf32>
!lse = tensor<?x4x?xf32>

func.func @heads(%q: !rows, %k: !rows, %v: !rows, %pre: tensor<4x4xf32>) -> (!rows, !lse) {
  %o, %lse = pos.attention %q, %k, (%v) uses [#pos.use<@talking_heads, "talking_heads">]
    params(%pre : tensor<4x4xf32>)
    : !rows, !rows, (!rows) -> (!rows), !lse
  return %o, %lse : !rows, !lse
}
