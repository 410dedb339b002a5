// RUN: sextant-opt %s --nn-derive-backward --split-input-file --verify-diagnostics

nn.parameter "w" : tensor<4xf32> init constant [1.0]
func.func @loss(%w: tensor<4xf32> {nn.parameter = "w"}) -> tensor<f32>
    attributes {nn.gradients = @gradients} {
  // expected-error @+1 {{'nn.maximum' op has no derivative, but the gradient of a parameter passes through it}}
  %m = nn.maximum %w, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-note @+1 {{of this loss}}
  %r = nn.sum %m over [0] : (tensor<4xf32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// expected-error @+1 {{first result of a loss must be a scalar tensor, got 'tensor<4xf32>'}}
func.func @loss(%w: tensor<4xf32>) -> tensor<4xf32> attributes {nn.gradients = @gradients} {
  return %w : tensor<4xf32>
}

// -----

// expected-error @+1 {{argument 0 names the parameter 'w', which the module does not define}}
func.func @loss(%w: tensor<f32> {nn.parameter = "w"}) -> tensor<f32> attributes {nn.gradients = @gradients} {
  return %w : tensor<f32>
}

// -----

nn.parameter "w" : tensor<4xf32> init constant [1.0]
// expected-error @+1 {{argument 0 must have the type of parameter 'w', 'tensor<4xf32>', got 'tensor<f32>'}}
func.func @loss(%w: tensor<f32> {nn.parameter = "w"}) -> tensor<f32> attributes {nn.gradients = @gradients} {
  return %w : tensor<f32>
}

// -----

nn.parameter "w" : tensor<f32> init constant [1.0]
// expected-error @+1 {{argument 1 names the parameter 'w' again: one argument stands for it, in all its uses}}
func.func @loss(%w: tensor<f32> {nn.parameter = "w"}, %v: tensor<f32> {nn.parameter = "w"}) -> tensor<f32>
    attributes {nn.gradients = @gradients} {
  %r = nn.mul %w, %v : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// expected-error @+1 {{has no trained parameter}}
func.func @loss(%w: tensor<f32>) -> tensor<f32> attributes {nn.gradients = @gradients} {
  return %w : tensor<f32>
}

// -----

// expected-note @+1 {{first used here}}
nn.parameter "w" : tensor<4xf32> init constant [1.0]
// expected-error @+1 {{repeats the name 'w'}}
nn.parameter "w" : tensor<4xf32> init constant [1.0]

// -----

nn.parameter "w" : tensor<f32> init constant [1.0]
// expected-note @+1 {{the name is taken here}}
func.func private @gradients()
// expected-error @+1 {{cannot add '@gradients'}}
func.func @loss(%w: tensor<f32> {nn.parameter = "w"}) -> tensor<f32> attributes {nn.gradients = @gradients} {
  return %w : tensor<f32>
}
