// RUN: sextant-opt %s | sextant-opt | FileCheck %s

// Functions for the model around attention: arguments and results have roles, a
// helper has none.
// CHECK-LABEL: pos.encoding @counted
pos.encoding @counted {
  %heads = pos.extent heads
  %rate = pos.option "rate" : f32 = 0.5 : f32
  %zero = arith.constant 0.0 : f32
  %start = pos.param "start" : tensor<?xf32> dims(%heads) init constant(%zero) scope model
  %gate = pos.param "gate" : tensor<?x?x?xf32> dims(%heads, %heads, %heads)

  // CHECK: func.func @initial_state(%{{.+}}: tensor<?x?x?xf32> {pos.role = "input"}
  // CHECK-SAME: -> (tensor<?x?x?xf32> {pos.role = "count"})
  func.func @initial_state(%x: tensor<?x?x?xf32> {pos.role = "input"},
                           %s: tensor<?xf32> {pos.role = "start"})
      -> (tensor<?x?x?xf32> {pos.role = "count"}) {
    %y = nn.add %x, %s : (tensor<?x?x?xf32>, tensor<?xf32>) -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
  func.func @produce(%c: tensor<?x?x?xf32> {pos.role = "count"})
      -> (tensor<?x?x?xf32> {pos.role = "gate"}) {
    %y = func.call @turned(%c) : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
  // CHECK: func.func @after_attention(%{{.+}}: tensor<?x?x?xf32> {pos.weighted = "count"}
  func.func @after_attention(%y: tensor<?x?x?xf32> {pos.weighted = "count"},
                             %o: tensor<?x?x?xf32> {pos.role = "attention"},
                             %r: f32 {pos.role = "rate"})
      -> (tensor<?x?x?xf32> {pos.role = "count"}) {
    return %y : tensor<?x?x?xf32>
  }
  func.func @after_mlp(%c: tensor<?x?x?xf32> {pos.role = "count"},
                       %m: tensor<?x?x?xf32> {pos.role = "mlp"})
      -> (tensor<?x?x?xf32> {pos.role = "count"}) {
    return %c : tensor<?x?x?xf32>
  }
  // CHECK: func.func @auxiliary_loss
  func.func @auxiliary_loss(%g: tensor<?x?x?xf32> {pos.role = "gate"}) -> tensor<f32> {
    %c = nn.stop_gradient %g : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %l = nn.sum %c over [0, 1, 2] : (tensor<?x?x?xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
  // CHECK: func.func private @turned
  func.func private @turned(%c: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
    %y = nn.transpose %c 1, 2 : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
}
