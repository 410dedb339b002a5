// RUN: sextant-opt %s --pos-place-dropouts --split-input-file --verify-diagnostics | FileCheck %s
// RUN: sextant-opt %s --cse --canonicalize --pos-place-dropouts --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=CSE

// A training has a seed and a step: each dropout gets a place that no other of the
// function has, written ones included.
// CHECK-LABEL: func.func @loss
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x8xf32>, %[[SEED:[^:]+]]: tensor<i64> {nn.random = "seed"}, %[[STEP:[^:]+]]: tensor<i64>
// CHECK: %[[A:.+]] = nn.dropout %[[X]] probability 5.000000e-01 seed(%[[SEED]]) step(%[[STEP]]) place 7
// CHECK: %[[B:.+]] = nn.dropout %[[A]] probability 2.500000e-01 seed(%[[SEED]]) step(%[[STEP]]) place 8
// CHECK: %[[C:.+]] = nn.dropout %[[B]] probability 2.500000e-01 seed(%[[SEED]]) step(%[[STEP]]) place 9
// CHECK: return %[[C]]
func.func @loss(%x: tensor<?x8xf32>, %seed: tensor<i64> {nn.random = "seed"},
                %step: tensor<i64> {nn.random = "step"}) -> tensor<?x8xf32> {
  %p = arith.constant 0.25 : f32
  %a = nn.dropout %x probability 0.5 seed(%seed) step(%step) place 7 : tensor<?x8xf32>
  %b = pos.dropout %a probability %p : tensor<?x8xf32>
  %c = pos.dropout %b probability %p : tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}

// Two of one input are two, also where common expressions were joined before; one
// that nothing uses is gone.
// CSE-LABEL: func.func @apart
// CSE:       nn.dropout %{{.+}} place 0
// CSE-NEXT:  nn.dropout %{{.+}} place 1
// CSE-NOT:   nn.dropout
// CSE:       return
func.func @apart(%x: tensor<?x8xf32>, %seed: tensor<i64> {nn.random = "seed"},
                 %step: tensor<i64> {nn.random = "step"}) -> tensor<?x8xf32> {
  %p = arith.constant 0.25 : f32
  %a = pos.dropout %x probability %p : tensor<?x8xf32>
  %b = pos.dropout %x probability %p : tensor<?x8xf32>
  %c = pos.dropout %x probability %p : tensor<?x8xf32>
  %d = nn.add %a, %b : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}

// An evaluation has none, and drops nothing.
// CHECK-LABEL: func.func @logits
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x8xf32>
// CHECK-NEXT: arith.constant
// CHECK-NEXT: return %[[X]]
func.func @logits(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %p = arith.constant 0.25 : f32
  %b = pos.dropout %x probability %p : tensor<?x8xf32>
  return %b : tensor<?x8xf32>
}

// -----

func.func @certain(%x: tensor<?x8xf32>, %seed: tensor<i64> {nn.random = "seed"},
                   %step: tensor<i64> {nn.random = "step"}) -> tensor<?x8xf32> {
  %p = arith.constant 1.0 : f32
  // expected-error @below {{expected a probability in [0, 1), got 1.0}}
  %b = pos.dropout %x probability %p : tensor<?x8xf32>
  return %b : tensor<?x8xf32>
}

// -----

func.func @open(%x: tensor<?x8xf32>, %p: f32, %seed: tensor<i64> {nn.random = "seed"},
                %step: tensor<i64> {nn.random = "step"}) -> tensor<?x8xf32> {
  // expected-error @below {{expected a probability that options decide}}
  %b = pos.dropout %x probability %p : tensor<?x8xf32>
  return %b : tensor<?x8xf32>
}
