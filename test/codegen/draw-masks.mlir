// RUN: sextant-opt %s --exec-draw-masks=target=cuda-emulated:sm_80 | FileCheck %s
// RUN: sextant-opt %s --exec-draw-masks=target=cuda:sm_80 --remarks-filter=exec-draw-masks -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT
// COUNT: remark: [Passed] drawn | Category:exec-draw-masks | Masks=2

// A mask is drawn by a launch that reads the numbers where they are. Those that are
// not constant are checked once; two masks of one type and rank share their kernel.
// CHECK-LABEL: func @two
// CHECK-SAME:  (%[[X:.+]]: tensor<?x8xbf16>, %[[SEED:.+]]: tensor<i64>, %[[STEP:.+]]: tensor<i64>)
// CHECK:       %[[FIRST:.+]] = arith.constant dense<3> : tensor<i64>
// CHECK:       %[[VIEW:.+]] = exec.view %[[STEP]] : tensor<i64> -> tensor<1xi64>
// CHECK:       exec.check_data %[[VIEW]][0] at_least %{{.+}}, "the step of a generator must be in 0 .. 2^32 - 1"
// CHECK:       exec.check_data %[[VIEW]][0] at_most %{{.+}}, "the step of a generator must be in 0 .. 2^32 - 1"
// CHECK:       %[[MASK:.+]] = exec.alloc(%{{.+}}) : tensor<?x8xbf16>
// CHECK:       exec.launch @kernels::@random_mask_bf16_2 reads(%[[SEED]], %[[STEP]], %[[FIRST]] :
// CHECK-SAME:  writes(%[[MASK]] : tensor<?x8xbf16>) scalars(
// CHECK-NOT:   exec.check_data
// CHECK:       exec.launch @kernels::@random_mask_bf16_2
// CHECK-NOT:   exec.dense
// CHECK:       return %[[MASK]],
// CHECK:       llvm.func @random_mask_bf16_2(
// CHECK:       llvm.func @random_mask_bf16_2_items(
// CHECK-NOT:   llvm.func @random_mask_bf16_2(
func.func @two(%x: tensor<?x8xbf16>, %seed: tensor<i64>, %step: tensor<i64>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %c3 = arith.constant dense<3> : tensor<i64>
  %c4 = arith.constant dense<4> : tensor<i64>
  %0 = exec.dense "aten::bernoulli.p"(%x, %seed, %step, %c3 : tensor<?x8xbf16>, tensor<i64>, tensor<i64>, tensor<i64>)
    arguments [#exec.tensor<0>, 0.75, #exec.tensors<[1, 2, 3]>] -> tensor<?x8xbf16>
  %1 = exec.dense "aten::bernoulli.p"(%x, %seed, %step, %c4 : tensor<?x8xbf16>, tensor<i64>, tensor<i64>, tensor<i64>)
    arguments [#exec.tensor<0>, 0.5, #exec.tensors<[1, 2, 3]>] -> tensor<?x8xbf16>
  return %0, %1 : tensor<?x8xbf16>, tensor<?x8xbf16>
}
