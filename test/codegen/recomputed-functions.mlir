// Beside a product of 768 columns a CPU evaluates a gelu of the forward again in
// the backward. Tensor cores are done with the product too soon: the target keeps
// the function's results, as it would not those that 1024 columns are made of.
// RUN: sextant-opt %s --sextant-pipeline=target=cpu:avx2 | FileCheck %s --check-prefixes=CHECK,AGAIN
// RUN: sextant-opt %s --sextant-pipeline=target=cuda:sm_80 | FileCheck %s --check-prefixes=CHECK,KEPT
// RUN: sed s/768/1024/g %s | sextant-opt --sextant-pipeline=target=cuda:sm_80 | FileCheck %s --check-prefixes=CHECK,AGAIN

// CHECK-LABEL: func.func @gradients
// AGAIN-COUNT-2: "aten::gelu"
// KEPT:          "aten::gelu"
// CHECK-NOT:     "aten::gelu"
// CHECK:         "aten::gelu_backward
nn.parameter "up" : tensor<64x768xbf16> init normal [0.0, 0.02]
nn.parameter "down" : tensor<768x64xbf16> init normal [0.0, 0.02]
func.func @loss(%x: tensor<?x768xbf16>, %up: tensor<64x768xbf16> {nn.parameter = "up"},
                %down: tensor<768x64xbf16> {nn.parameter = "down"})
    -> tensor<bf16> attributes {nn.gradients = @gradients} {
  %u = nn.linear %x, %up : (tensor<?x768xbf16>, tensor<64x768xbf16>) -> tensor<?x64xbf16>
  %h = nn.gelu %u form tanh : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %y = nn.linear %h, %down : (tensor<?x64xbf16>, tensor<768x64xbf16>) -> tensor<?x768xbf16>
  %loss = nn.sum %y over [0, 1] : (tensor<?x768xbf16>) -> tensor<bf16>
  return %loss : tensor<bf16>
}
