// Products of bf16 on a matrix unit: its tiles are shaped before the items of a
// kernel run and given back behind them, and only where a kernel has products.
// RUN: sextant-compile %s --no-cache --target=cpu:amx --emit=asm | FileCheck %s

// Two steps of S, of 32 elements of a row each, are written out; those of the
// output are a loop over the keys that some query sees.
// CHECK-LABEL: attention_0_forward_range:
// CHECK-NOT: {{ldtilecfg|tilerelease}}
// CHECK: tilezero
// CHECK-COUNT-8: tdpbf16ps
// CHECK: tilestored
// CHECK-COUNT-4: tdpbf16ps
// CHECK-NOT: {{tdpbf16ps|ldtilecfg|tilerelease}}
// CHECK-LABEL: attention_0_forward:
// CHECK: ldtilecfg
// CHECK: callq attention_0_forward_range
// CHECK: tilerelease

// Of f32 each of these is six, of the terms of both operands.
// RUN: sed s/bf16/f32/g %s | sextant-compile - --no-cache --target=cpu:amx --emit=asm | FileCheck %s --check-prefix=TERMS
// TERMS-LABEL: attention_0_forward_range:
// TERMS: tilezero
// TERMS-COUNT-48: tdpbf16ps
// TERMS: tilestored
// TERMS-COUNT-24: tdpbf16ps
// TERMS-NOT: tdpbf16ps
// TERMS-LABEL: attention_0_forward:

func.func @forward(%q: tensor<1x1x?x64xbf16>, %v: tensor<1x1x?x40xbf16>)
    -> tensor<1x1x?x40xbf16> {
  %o, %lse = pos.attention %q, %q, (%v)
    : tensor<1x1x?x64xbf16>, tensor<1x1x?x64xbf16>, (tensor<1x1x?x40xbf16>)
    -> (tensor<1x1x?x40xbf16>), tensor<1x1x?xf32>
  return %o : tensor<1x1x?x40xbf16>
}
