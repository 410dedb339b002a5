// RUN: sextant-opt %s --sextant-encoding-pipeline --pos-lower-attention="target=cpu:avx2 check-reads=true" | FileCheck %s
// RUN: sextant-opt %s --sextant-encoding-pipeline --pos-lower-attention=target=cpu:avx2 | FileCheck %s --check-prefix=OFF

pos.encoding @table {
  %n = arith.constant 4 : i32
  %table = pos.param "table" : tensor<?xf32> dims(%n)
  pos.score {
  ^bb0(%s: f32):
    %o = pos.offset
    %a = pos.read %table[%o] : tensor<?xf32>
    %t = arith.addf %s, %a : f32
    pos.yield %t : f32
  }
}

// The least and the greatest index of the read, ahead of the kernels; ops of one
// structure share the launch that finds them. The backward has nothing to add.
// CHECK-LABEL: func.func @forward
// CHECK: exec.launch @kernels::@attention_0_reads_forward {{.*}}writes({{.*}}%[[LOG:.+]] :
// CHECK: exec.check_data %[[LOG]][0] at_least %{{.+}}, "{{.*}}read-checks.mlir:10:10: 'pos.read' of parameter 0 of 'pos.attention' reads before dimension 0: the least index that is read and its first"
// CHECK: exec.check_data %[[LOG]][1] at_most %{{.+}}, "{{.*}} reads beyond dimension 0: one more than the greatest index that is read, and its size"
// CHECK: exec.launch @kernels::@attention_0_forward
// OFF-NOT: _reads_
func.func @forward(%q: tensor<2x2x?x8xf32>, %p: tensor<4xf32>) -> tensor<2x2x?x8xf32> {
  %o, %lse = pos.attention %q, %q, (%q) uses [#pos.use<@table, "t">] params(%p : tensor<4xf32>)
    : tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>, (tensor<2x2x?x8xf32>)
    -> (tensor<2x2x?x8xf32>), tensor<2x2x?xf32>
  return %o : tensor<2x2x?x8xf32>
}
