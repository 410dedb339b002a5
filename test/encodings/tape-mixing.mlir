// RUN: sextant-opt %s --pos-specialize --split-input-file \
// RUN:   | FileCheck %s '--implicit-check-not={{nn.linear|nn.matmul|x5x8xf32|x5x2xf32}}'

// The cheap order of W2 diag(gate) W1 z: products of W1 and W2 are made once, for all
// tokens, the 5 gates of a token make its matrix of 3 x 3 heads, and one product per
// token applies it. In the order as it is written every gate of a token has a row of
// its lanes, [..., 5, 8].
// CHECK-LABEL: func.func private @released.after_mlp
// CHECK-SAME: %[[Z:[^:, (]+]]: tensor<?x3x?x8xf32>
// CHECK-SAME: %[[OUTPUT:[^:, ]+]]: tensor<?x?x24xf32>
// CHECK-SAME: %[[X:[^:, ]+]]: tensor<5x24xf32> {pos.role = "x"}
// CHECK-SAME: %[[W1:[^:, ]+]]: tensor<5x3xf32> {pos.role = "w1"}
// CHECK-SAME: %[[W2:[^:, ]+]]: tensor<3x5xf32> {pos.role = "w2"}
// CHECK: %[[OPEN:.+]] = nn.linear %[[OUTPUT]], %[[X]] : {{.+}} -> tensor<?x?x5xf32>
// CHECK: %[[GATE:.+]] = nn.silu %[[OPEN]]
// CHECK: %[[UP:.+]] = nn.reshape %[[W2]]
// CHECK: %[[DOWN:.+]] = nn.transpose %[[W1]] 0, 1
// CHECK: %[[PAIRS:.+]] = nn.mul %[[UP]], %[[DOWN]] : {{.+}} -> tensor<3x3x5xf32>
// CHECK: %[[MIXERS:.+]] = nn.reshape %[[PAIRS]] : tensor<3x3x5xf32> -> tensor<9x5xf32>
// CHECK: %[[FLAT:.+]] = nn.linear %[[GATE]], %[[MIXERS]] bias {{.+}} -> tensor<?x?x9xf32>
// CHECK: %[[MIXING:.+]] = nn.reshape %[[FLAT]] {{.+}} -> tensor<?x?x3x3xf32>
// CHECK: %[[ROWS:.+]] = nn.transpose %[[Z]] 1, 2
// CHECK: %[[MOVED:.+]] = nn.matmul %[[MIXING]], %[[ROWS]] : {{.+}} -> tensor<?x?x3x8xf32>
// CHECK: %[[NEXT:.+]] = nn.transpose %[[MOVED]] 1, 2
// CHECK: return %[[NEXT]]
func.func private @released.after_mlp(tensor<?x3x?x8xf32>, tensor<?x?x24xf32>, tensor<5x24xf32>, tensor<5x3xf32>,
                                      tensor<3x5xf32>) -> tensor<?x3x?x8xf32>
  attributes {pos.use = #pos.use<@tape, "released", {hidden = 5 : i32}>,
              pos.extents = {heads = 3 : i32, head_dim = 8 : i32, model = 24 : i32}}

// -----

// The same of the two rows of every pair in the paper's form.
// CHECK-LABEL: func.func private @paper.after_attention
// CHECK-SAME: %[[X:[^:, ]+]]: tensor<5x2xf32> {pos.role = "x"}
// CHECK: %[[OPEN:.+]] = nn.linear {{.+}}, %[[X]] : {{.+}} -> tensor<?x3x?x4x5xf32>
// CHECK: %[[GATE:.+]] = nn.silu %[[OPEN]]
// CHECK: nn.mul {{.+}} -> tensor<2x2x5xf32>
// CHECK: %[[MIXERS:.+]] = nn.reshape {{.+}} -> tensor<4x5xf32>
// CHECK: nn.linear %[[GATE]], %[[MIXERS]] : {{.+}} -> tensor<?x3x?x4x4xf32>
// CHECK: nn.matmul {{.+}} -> tensor<?x3x?x4x2x2xf32>
// CHECK: return
func.func private @paper.after_attention(tensor<?x3x?x16xf32>, tensor<?x3x?x16xf32>, tensor<?x?x24xf32>,
                                         tensor<5x2xf32>, tensor<5x2xf32>, tensor<2x5xf32>) -> tensor<?x3x?x16xf32>
  attributes {pos.use = #pos.use<@tape, "paper", {form = "paper", hidden = 5 : i32}>,
              pos.extents = {heads = 3 : i32, head_dim = 8 : i32, model = 24 : i32}}
