// RUN: sextant-opt %s | sextant-opt | FileCheck %s
// RUN: sextant-opt %s --mlir-print-op-generic | sextant-opt | FileCheck %s

// CHECK: exec.parameter "h.0.r1" : tensor<4xf32> init uniform [0.000000e+00, 2.000000e+00] floor 1.000000e-02
exec.parameter "h.0.r1" : tensor<4xf32> init uniform [0.0, 2.0] floor 0.01
// CHECK: exec.parameter "slopes" : tensor<2xf32> init given values dense<{{.*}}> : tensor<2xf32> frozen shared
exec.parameter "slopes" : tensor<2xf32> init given values dense<[0.25, 0.0625]> : tensor<2xf32> frozen shared
// CHECK: exec.parameter "w" : tensor<2x3xbf16> init normal {{.*}} {decay = false}
exec.parameter "w" : tensor<2x3xbf16> init normal [0.0, 0.02] {decay = false}

// Every instruction that a program has.
// CHECK-LABEL: func.func @all
// CHECK-SAME: exec.dims = ["n", ""], exec.name = "input"
func.func @all(%a: tensor<?x64xf32> {exec.name = "input", exec.dims = ["n", ""]},
               %w: tensor<64x64xf32>) -> tensor<64x?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x64xf32>
  // CHECK: exec.distance %{{.*}} over [0, 1] : tensor<?x64xf32>
  %apart = exec.distance %a over [0, 1] : tensor<?x64xf32>
  // CHECK: exec.check %{{.*}} at_most %{{.*}}, "length is too long"
  exec.check %apart at_most %n, "length is too long"
  // CHECK: exec.check_data %{{.*}}[1] at_least %{{.*}}, "five are too few" : tensor<2xi64>
  %counts = arith.constant dense<[4, 5]> : tensor<2xi64>
  exec.check_data %counts[1] at_least %n, "five are too few" : tensor<2xi64>
  // CHECK: %[[T:.+]] = exec.alloc(%[[N:.+]]) zero : tensor<?x64xf32>
  %t = exec.alloc(%n) zero : tensor<?x64xf32>
  // CHECK: exec.launch @kernels::@k reads(%{{.*}} : tensor<?x64xf32>) writes(%[[T]] : tensor<?x64xf32>) scalars(%[[N]]) flops(%[[N]])
  exec.launch @kernels::@k reads(%a : tensor<?x64xf32>) writes(%t : tensor<?x64xf32>) scalars(%n) flops(%n)
  // CHECK: exec.dense "aten::linear"(%[[T]], %{{.*}} : tensor<?x64xf32>, tensor<64x64xf32>) arguments [#exec.tensor<0>, #exec.tensor<1>, unit]
  %d = exec.dense "aten::linear"(%t, %w : tensor<?x64xf32>, tensor<64x64xf32>)
    arguments [#exec.tensor<0>, #exec.tensor<1>, unit] -> tensor<?x64xf32>
  // CHECK: arguments [#exec.tensors<[0, 0]>, #exec.tensors<[]>]
  exec.dense "aten::foreach"(%t : tensor<?x64xf32>) arguments [#exec.tensors<[0, 0]>, #exec.tensors<[]>]
  // CHECK: exec.release %[[T]]
  exec.release %t : tensor<?x64xf32>
  // CHECK: exec.dense "aten::reshape"(%{{.*}}, %[[N]] : tensor<?x64xf32>, index) arguments [#exec.tensor<0>, #exec.integers<[1]>]
  %r = exec.dense "aten::reshape"(%d, %n : tensor<?x64xf32>, index)
    arguments [#exec.tensor<0>, #exec.integers<[1]>] -> tensor<?xf32>
  // CHECK: exec.view %{{.*}} permuted [1, 0] sizes(%[[N]]) : tensor<?x64xf32> -> tensor<64x?xf32>
  %v = exec.view %d permuted [1, 0] sizes(%n) : tensor<?x64xf32> -> tensor<64x?xf32>
  return %v : tensor<64x?xf32>
}
