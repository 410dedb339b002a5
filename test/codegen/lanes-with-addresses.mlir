// Lanes of a warp have addresses of their own: a gather is a load, and nothing asks
// first whether all lanes read one entry or neighbouring ones, as for a register.
// RUN: sextant-compile %s --target=cuda:sm_80 --emit=kernel --o %t.warps
// RUN: FileCheck %s --input-file=%t.warps --check-prefix=WARPS
// RUN: sextant-compile %s --target=cpu:avx2 --emit=kernel --o %t.registers
// RUN: FileCheck %s --input-file=%t.registers --check-prefix=REGISTERS

// WARPS: func internal @attention_0_forward_range
// WARPS-NOT: vector.reduction <and>
// WARPS: llvm.intr.masked.gather
// WARPS-NOT: vector.reduction <and>
// WARPS: func @attention_0_forward_shared

// REGISTERS: func internal @attention_0_forward_range
// REGISTERS: vector.reduction <and>
// REGISTERS: scf.if
// REGISTERS: llvm.intr.masked.gather
func.func @f(%q: tensor<?x?x?x64xf32>, %k: tensor<?x?x?x64xf32>, %table: tensor<?x?xf32>) -> tensor<?x?x?x64xf32> {
  %o, %lse = pos.attention %q, %k, (%k) uses [#pos.use<@shaw, "shaw(value_side=false)", {value_side = false}>] params(%table : tensor<?x?xf32>)
    : tensor<?x?x?x64xf32>, tensor<?x?x?x64xf32>, (tensor<?x?x?x64xf32>) -> (tensor<?x?x?x64xf32>), tensor<?x?x?xf32>
  return %o : tensor<?x?x?x64xf32>
}
