// RUN: sextant-opt %s --nn-derive-backward --split-input-file --verify-diagnostics | FileCheck %s

// Settings of the optimizer for some parameters: a rate and a decay of their own,
// gradients that are clipped apart. Moments are of all.
nn.parameter "w" : tensor<8xf32> init constant [1.0] decay
nn.parameter "u" : tensor<8xf32> init constant [1.0] decay group "slow"
nn.parameter "v" : tensor<8xf32> init constant [1.0] group "slow"

// CHECK-LABEL: func.func @update
// CHECK-SAME:  %[[DW:[^ ]+]]: tensor<8xf32> {nn.gradient = "w"}, %[[DU:.+]]: tensor<8xf32> {nn.gradient = "u"}, %[[DV:.+]]: tensor<8xf32> {nn.gradient = "v"},
// CHECK-SAME:  %[[RATE:[^ ]+]]: tensor<f32> {nn.learning_rate}
// CHECK:       %[[NORM:.+]] = nn.global_norm %[[DW]] :
// CHECK:       %[[COMMON:.+]] = nn.maximum
// CHECK:       nn.global_norm %[[DU]], %[[DV]] :
// CHECK:       %[[OWN:.+]] = nn.maximum
// CHECK:       nn.adamw({{.*}}) gradients(%[[DW]]) {{.*}} rate %[[RATE]] gradient_scale %[[COMMON]] decay 1.000000e-01
// CHECK:       %[[SLOW:.+]] = nn.scale %[[RATE]] by 2.500000e-01
// CHECK:       nn.adamw({{.*}}) gradients(%[[DU]]) {{.*}} rate %[[SLOW]] gradient_scale %[[OWN]] decay 5.000000e-01
// CHECK:       nn.adamw({{.*}}) gradients(%[[DV]]) {{.*}} gradient_scale %[[OWN]] decay 0.000000e+00
// CHECK:       return %[[NORM]],
func.func @loss(%x: tensor<8xf32>, %w: tensor<8xf32> {nn.parameter = "w"},
                %u: tensor<8xf32> {nn.parameter = "u"}, %v: tensor<8xf32> {nn.parameter = "v"}) -> tensor<f32>
    attributes {nn.gradients = @gradients,
                nn.optimizer = #nn.adamw<beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.1, clip = 1.0,
                                         groups = [#nn.group<"slow" rate = 0.25 decay = 0.5 clip = 5.0>],
                                         update = @update, train_step = @train_step>} {
  %a = nn.mul %x, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = nn.mul %a, %u : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %c = nn.mul %b, %v : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r = nn.sum %c over [0] : (tensor<8xf32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

// expected-error @+1 {{is of group "fast", which the optimizer of the loss does not have}}
nn.parameter "w" : tensor<8xf32> init constant [1.0] group "fast"
// expected-note @+1 {{the loss}}
func.func @loss(%w: tensor<8xf32> {nn.parameter = "w"}) -> tensor<f32>
    attributes {nn.gradients = @gradients,
                nn.optimizer = #nn.adamw<beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.1, clip = 1.0,
                                         groups = [#nn.group<"slow" rate = 0.25>],
                                         update = @update, train_step = @train_step>} {
  %r = nn.sum %w over [0] : (tensor<8xf32>) -> tensor<f32>
  return %r : tensor<f32>
}

// -----

nn.parameter "w" : tensor<8xf32> init constant [1.0]
// expected-error @+1 {{the optimizer has two groups "slow"}}
func.func @loss(%w: tensor<8xf32> {nn.parameter = "w"}) -> tensor<f32>
    attributes {nn.gradients = @gradients,
                nn.optimizer = #nn.adamw<beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.1, clip = 1.0,
                                         groups = [#nn.group<"slow" rate = 0.25>, #nn.group<"slow" rate = 0.5>],
                                         update = @update, train_step = @train_step>} {
  %r = nn.sum %w over [0] : (tensor<8xf32>) -> tensor<f32>
  return %r : tensor<f32>
}
