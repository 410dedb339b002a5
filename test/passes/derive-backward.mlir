// RUN: sextant-opt %s --nn-derive-backward --split-input-file | FileCheck %s
// RUN: sextant-opt %s --nn-derive-backward --split-input-file --remarks-filter=nn-derive-backward -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT

nn.parameter "w" : tensor<4x8xf32> init normal [0.0, 0.02] decay
nn.parameter "b" : tensor<4xf32> init constant [0.0]
nn.parameter "unused" : tensor<3xf32> init constant [0.0]
nn.parameter "slopes" : tensor<4xf32> init constant [1.0] frozen

// The loss stays; the gradient function takes and gives the same, then the
// gradients of the trained parameters. Two uses of a value add up; what the
// loss does not depend on has a gradient of zeros; frozen ones have none.
// COUNT: remark: [Passed] derived | Category:nn-derive-backward | Gradients=3, Ops=4
// CHECK-LABEL: func @loss
// CHECK-LABEL: func @gradients
// CHECK-SAME:  (%[[X:.+]]: tensor<?x8xf32>, %[[W:.+]]: tensor<4x8xf32> {nn.parameter = "w"}
// CHECK-SAME:  -> (tensor<f32>, tensor<4x8xf32> {nn.gradient = "w"}, tensor<4xf32> {nn.gradient = "b"}, tensor<3xf32> {nn.gradient = "unused"})
// CHECK:       %[[L:.+]] = nn.linear
// CHECK:       %[[Y:.+]] = nn.mul %[[L]],
// CHECK:       %[[SQUARE:.+]] = nn.mul %[[Y]], %[[Y]]
// CHECK:       %[[LOSS:.+]] = nn.sum %[[SQUARE]] over [0, 1]
// CHECK:       %[[SEED:.+]] = tensor.splat
// CHECK:       nn.broadcast
// CHECK:       %[[A:.+]] = nn.mul %{{.*}}, %[[Y]]
// CHECK:       %[[B:.+]] = nn.mul %{{.*}}, %[[Y]]
// CHECK:       %[[DY:.+]] = nn.add %[[A]], %[[B]]
// CHECK:       %[[TURNED:.+]] = nn.transpose %[[DSCALED:.+]] 0, 1
// CHECK:       %[[DW:.+]] = nn.matmul %[[TURNED]], %[[X]]
// CHECK:       %[[DB:.+]] = nn.sum %[[DSCALED]] over [0]
// CHECK:       %[[ZEROS:.+]] = tensor.splat %{{.*}} : tensor<3xf32>
// CHECK:       return %[[LOSS]], %[[DW]], %[[DB]], %[[ZEROS]]
func.func @loss(%x: tensor<?x8xf32>, %w: tensor<4x8xf32> {nn.parameter = "w"},
                %b: tensor<4xf32> {nn.parameter = "b"}, %u: tensor<3xf32> {nn.parameter = "unused"},
                %s: tensor<4xf32> {nn.parameter = "slopes"})
    -> tensor<f32> attributes {nn.gradients = @gradients} {
  %l = nn.linear %x, %w bias %b : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %y = nn.mul %l, %s : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %q = nn.mul %y, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  %r = nn.sum %q over [0, 1] : (tensor<?x4xf32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

nn.parameter "t" : tensor<4xf32> init constant [0.0]
nn.parameter "s" : tensor<4xf32> init constant [0.0]

// No gradient passes through what is stopped, nor needs a derivative before it;
// a dropout is derived by the same dropout, ranges of a joined tensor begin where
// the parts before them end.
// CHECK-LABEL: func @stopped
// CHECK-LABEL: func @gradients
// CHECK:       %[[T:.+]] = nn.stop_gradient
// CHECK:       %[[M:.+]] = nn.maximum %[[T]], %[[T]]
// CHECK:       %[[S:.+]] = nn.dropout %{{.*}} probability 5.000000e-01 seed(%[[N:.+]]) step(%[[N]]) place 7
// CHECK:       %[[U:.+]] = nn.reshape %[[S]] sizes(%{{.*}}) : tensor<4xf32> -> tensor<?xf32>
// CHECK:       nn.concat %[[U]], %[[M]], %[[U]] dim 0
// CHECK-NOT:   nn.slice %{{.*}} length 4
// CHECK:       %[[LENGTH:.+]] = tensor.dim %[[U]]
// CHECK:       nn.slice %{{.*}} dim 0 start 0 length %[[LENGTH]]
// CHECK:       %[[FIRST:.+]] = arith.addi %{{.*}}, %[[LENGTH]]
// CHECK:       %[[SECOND:.+]] = arith.addi %[[FIRST]], %{{.*}}
// CHECK:       nn.slice %{{.*}} dim 0 start %[[SECOND]] length %{{.*}}
// CHECK:       nn.dropout %{{.*}} probability 5.000000e-01 seed(%[[N]]) step(%[[N]]) place 7
// CHECK-NOT:   nn.stop_gradient
// CHECK:       return
func.func @stopped(%n: tensor<i64>, %four: index, %t: tensor<4xf32> {nn.parameter = "t"},
                   %s: tensor<4xf32> {nn.parameter = "s"})
    -> tensor<f32> attributes {nn.gradients = @gradients} {
  %teacher = nn.stop_gradient %t : (tensor<4xf32>) -> tensor<4xf32>
  %m = nn.maximum %teacher, %teacher : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = nn.dropout %s probability 0.5 seed(%n) step(%n) place 7 : tensor<4xf32>
  %u = nn.reshape %d sizes(%four) : tensor<4xf32> -> tensor<?xf32>
  %c = nn.concat %u, %m, %u dim 0 : (tensor<?xf32>, tensor<4xf32>, tensor<?xf32>) -> tensor<?xf32>
  %e = nn.exp %c : (tensor<?xf32>) -> tensor<?xf32>
  %r = nn.sum %e over [0] : (tensor<?xf32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

nn.parameter "w" : tensor<8xf32> init constant [1.0] decay
nn.parameter "r" : tensor<8xf32> init constant [1.0] floor 0.01

// The training step clips by the norm of all gradients, updates decayed and
// other parameters apart and keeps bounds.
// CHECK-LABEL: func @update
// CHECK-SAME:  (%[[W:.+]]: tensor<8xf32> {nn.parameter = "w"}, %[[R:.+]]: tensor<8xf32> {nn.parameter = "r"},
// CHECK-SAME:  %[[DW:.+]]: tensor<8xf32> {nn.gradient = "w"}, %[[DR:.+]]: tensor<8xf32> {nn.gradient = "r"},
// CHECK-SAME:  %[[RATE:.+]]: tensor<f32> {nn.learning_rate}, %[[STEP:.+]]: tensor<f32> {nn.step},
// CHECK-SAME:  %[[MW:.+]]: tensor<8xf32> {nn.first_moment = "w"}, %[[MR:.+]]: tensor<8xf32> {nn.first_moment = "r"},
// CHECK-SAME:  %[[VW:.+]]: tensor<8xf32> {nn.second_moment = "w"}, %[[VR:.+]]: tensor<8xf32> {nn.second_moment = "r"})
// CHECK-SAME:  -> (tensor<f32> {nn.gradient_norm}, tensor<f32> {nn.step}, tensor<8xf32> {nn.parameter = "w"}
// CHECK:       %[[NORM:.+]] = nn.global_norm %[[DW]], %[[DR]]
// CHECK:       %[[SCALE:.+]] = nn.maximum
// CHECK:       %[[NEW:.+]]:3 = nn.adamw(%[[W]]) gradients(%[[DW]]) moments(%[[MW]]), (%[[VW]]) step %[[STEP]] rate %[[RATE]] gradient_scale %[[SCALE]] decay 1.000000e-01
// CHECK:       %[[OTHER:.+]]:3 = nn.adamw(%[[R]]) gradients(%[[DR]]) moments(%[[MR]]), (%[[VR]]) step %[[STEP]] rate %[[RATE]] gradient_scale %[[SCALE]] decay 0.000000e+00
// CHECK:       %[[BOUNDED:.+]] = nn.clamp %[[OTHER]]#0 floor 1.000000e-02
// CHECK:       %[[NEXT:.+]] = nn.add %[[STEP]]
// CHECK:       return %[[NORM]], %[[NEXT]], %[[NEW]]#0, %[[BOUNDED]], %[[NEW]]#1, %[[OTHER]]#1, %[[NEW]]#2, %[[OTHER]]#2
// CHECK-LABEL: func @train_step
// CHECK-SAME:  -> (tensor<f32> {exec.name = "loss"}, tensor<f32> {nn.gradient_norm}, tensor<f32> {nn.step}, tensor<8xf32> {nn.parameter = "w"}
// CHECK:       nn.global_norm
// CHECK:       nn.adamw
func.func @loss(%x: tensor<8xf32>, %w: tensor<8xf32> {nn.parameter = "w"},
                %s: tensor<8xf32> {nn.parameter = "r"}) -> (tensor<f32> {exec.name = "loss"})
    attributes {nn.gradients = @gradients,
                nn.optimizer = #nn.adamw<beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.1,
                                         clip = 1.0, update = @update, train_step = @train_step>} {
  %y = nn.mul %x, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %z = nn.mul %y, %s : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r = nn.sum %z over [0] : (tensor<8xf32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

nn.parameter "r1" : tensor<4xf32> init constant [1.0]
nn.parameter "table" : tensor<8x16xf32> init constant [1.0]

// Attention's gradient carries the same uses, params and positions; integer
// and frozen parameters have no gradient, and the order of sums is as free. The cotangent of lse is zero; the forward
// keeps the statistics of its softmax.
// CHECK-LABEL: func @gradients
// CHECK:       %[[MAPPED:.+]] = pos.map_rows %{{.*}} of embedding uses [#pos.use<@learned, "learned">] params(%[[TABLE:.+]] : tensor<8x16xf32>)
// CHECK:       %[[O:.+]], %{{.+}}, %[[STATISTICS:.+]] = pos.attention
// CHECK:       %[[DLSE:.+]] = tensor.splat
// CHECK:       %[[DQ:.+]], %[[DK:.+]], %[[DV:.+]], %[[DR:.+]] = pos.attention_backward %{{.*}}, %{{.*}}, (%{{.*}}), (%[[O]]), %[[STATISTICS]], (%{{.*}}), %[[DLSE]]
// CHECK-SAME:  uses [#pos.use<@document, "document">, #pos.use<@kerple_log, "kerple_log">] params(%[[IDS:.+]], %[[R1:.+]] : tensor<1x?xi32>, tensor<4xf32>)
// CHECK-SAME:  query_positions(%[[P:.+]] : tensor<1x?x1xi32>) gradients [1] unordered :
// CHECK:       %[[DX:.+]], %[[DT:.+]] = pos.map_rows_backward
// CHECK-SAME:  uses [#pos.use<@learned, "learned">] params(%[[TABLE]] : tensor<8x16xf32>) gradients [0]
// CHECK:       return %{{.*}}, %[[DR]], %[[DT]]
func.func @loss(%x: tensor<?x?x16xf32>, %ids: tensor<1x?xi32>, %p: tensor<1x?x1xi32>,
                %r1: tensor<4xf32> {nn.parameter = "r1"},
                %table: tensor<8x16xf32> {nn.parameter = "table"}) -> tensor<f32>
    attributes {nn.gradients = @gradients} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x16xf32>
  %l = tensor.dim %x, %c1 : tensor<?x?x16xf32>
  %e = pos.map_rows %x of embedding uses [#pos.use<@learned, "learned">]
    params(%table : tensor<8x16xf32>) : tensor<?x?x16xf32> -> tensor<?x?x16xf32>
  %h = nn.reshape %e sizes(%b, %l) : tensor<?x?x16xf32> -> tensor<?x?x4x4xf32>
  %q = nn.transpose %h 1, 2 : (tensor<?x?x4x4xf32>) -> tensor<?x4x?x4xf32>
  %o, %lse = pos.attention %q, %q, (%q)
    uses [#pos.use<@document, "document">, #pos.use<@kerple_log, "kerple_log">]
    params(%ids, %r1 : tensor<1x?xi32>, tensor<4xf32>) query_positions(%p : tensor<1x?x1xi32>) unordered
    : tensor<?x4x?x4xf32>, tensor<?x4x?x4xf32>, (tensor<?x4x?x4xf32>)
    -> (tensor<?x4x?x4xf32>), tensor<?x4x?xf32>
  %r = nn.sum %o over [0, 1, 2, 3] : (tensor<?x4x?x4xf32>) -> tensor<f32>
  return %r : tensor<f32>
}
