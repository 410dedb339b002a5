// What carries the name of a gradient function, but has no backward in one
// block, is left as it is.
// RUN: sextant-opt %s --nn-recompute-activations --split-input-file | FileCheck %s
// RUN: %python %S/../runtime/Inputs/code.py 1 sextant-opt %s --nn-recompute-activations=least-columns=-1 --split-input-file 2>&1 | FileCheck %s --check-prefix=COLUMNS
// COLUMNS: error: nn-recompute-activations: least-columns must be at least 1, got -1

// CHECK-LABEL: func private @declared() -> tensor<f32>
func.func private @declared() -> tensor<f32>
func.func @loss(%w: tensor<f32>) -> tensor<f32> attributes {nn.gradients = @declared} {
  return %w : tensor<f32>
}

// -----

// CHECK-LABEL: func @nothing()
// CHECK-NEXT:    return
func.func @nothing() {
  return
}
func.func @loss(%w: tensor<f32>) -> tensor<f32> attributes {nn.gradients = @nothing} {
  return %w : tensor<f32>
}

// -----

// CHECK-LABEL: func @blocks
// CHECK-COUNT-1: nn.exp
// CHECK-NOT:     nn.exp
func.func @blocks(%c: i1, %w: tensor<f32>) -> tensor<f32> {
  %e = nn.exp %w : (tensor<f32>) -> tensor<f32>
  cf.cond_br %c, ^left, ^right
^left:
  return %e : tensor<f32>
^right:
  return %w : tensor<f32>
}
func.func @loss(%w: tensor<f32>) -> tensor<f32> attributes {nn.gradients = @blocks} {
  return %w : tensor<f32>
}
