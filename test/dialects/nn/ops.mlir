// RUN: sextant-opt %s | sextant-opt | FileCheck %s

// CHECK: nn.parameter "layers.0.attention.bias.r1" : tensor<4xf32> init uniform [0.000000e+00, 2.000000e+00] floor 1.000000e-02
nn.parameter "layers.0.attention.bias.r1" : tensor<4xf32> init uniform [0.0, 2.0] floor 0.01
// CHECK: nn.parameter "head.weight" : tensor<256x64xf32> init normal [0.000000e+00, 2.000000e-02] decay
nn.parameter "head.weight" : tensor<256x64xf32> init normal [0.0, 0.02] decay
// CHECK: nn.parameter "bias.slopes" : tensor<2xf32> init given values dense<{{.*}}> : tensor<2xf32> frozen
nn.parameter "bias.slopes" : tensor<2xf32> init given values dense<[0.25, 0.0625]> : tensor<2xf32> frozen

// Matrix products and embeddings; dimensions may be dynamic.
// CHECK-LABEL: func @dense
func.func @dense(%tokens: tensor<?x?xi64>, %w: tensor<256x64xf32>, %b: tensor<256xf32>,
                 %m: tensor<64x32xf32>)
    -> (tensor<?x?x256xf32>, tensor<?x?x32xf32>, tensor<256x64xf32>) {
  // CHECK: nn.embedding %{{.*}}, %{{.*}} : (tensor<256x64xf32>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
  %x = nn.embedding %w, %tokens : (tensor<256x64xf32>, tensor<?x?xi64>) -> tensor<?x?x64xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} bias %{{.*}} :
  %y = nn.linear %x, %w bias %b
    : (tensor<?x?x64xf32>, tensor<256x64xf32>, tensor<256xf32>) -> tensor<?x?x256xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} :
  %t = nn.linear %x, %w : (tensor<?x?x64xf32>, tensor<256x64xf32>) -> tensor<?x?x256xf32>
  // CHECK: nn.matmul
  %z = nn.matmul %x, %m : (tensor<?x?x64xf32>, tensor<64x32xf32>) -> tensor<?x?x32xf32>
  // CHECK: nn.embedding_backward
  %dw = nn.embedding_backward %x, %tokens, %w
    : (tensor<?x?x64xf32>, tensor<?x?xi64>, tensor<256x64xf32>) -> tensor<256x64xf32>
  return %y, %z, %dw : tensor<?x?x256xf32>, tensor<?x?x32xf32>, tensor<256x64xf32>
}

// Broadcasting: a static size wins over a dynamic one, 1 is repeated.
// CHECK-LABEL: func @elementwise
func.func @elementwise(%x: tensor<?x64xf32>, %y: tensor<64xf32>, %z: tensor<5x1xf32>,
                       %s: tensor<f32>) -> tensor<5x64xf32> {
  %0 = nn.add %x, %y : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  %1 = nn.mul %0, %z : (tensor<?x64xf32>, tensor<5x1xf32>) -> tensor<5x64xf32>
  // CHECK: nn.gelu %{{.*}} form tanh :
  %2 = nn.gelu %1 form tanh : (tensor<5x64xf32>) -> tensor<5x64xf32>
  // CHECK: nn.gelu %{{.*}} : (
  %3 = nn.gelu %2 : (tensor<5x64xf32>) -> tensor<5x64xf32>
  %4 = nn.silu %3 : (tensor<5x64xf32>) -> tensor<5x64xf32>
  // CHECK: nn.scale %{{.*}} by 5.000000e-01
  %5 = nn.scale %4 by 0.5 : tensor<5x64xf32>
  // CHECK: nn.clamp %{{.*}} floor 1.000000e-02 ceiling 2.000000e+00
  %6 = nn.clamp %5 floor 0.01 ceiling 2.0 : tensor<5x64xf32>
  %7 = nn.gelu_backward %6, %2 form tanh : (tensor<5x64xf32>, tensor<5x64xf32>) -> tensor<5x64xf32>
  %8 = nn.silu_backward %7, %2 : (tensor<5x64xf32>, tensor<5x64xf32>) -> tensor<5x64xf32>
  %9 = nn.maximum %8, %s : (tensor<5x64xf32>, tensor<f32>) -> tensor<5x64xf32>
  return %9 : tensor<5x64xf32>
}

// Functions of floats; a value may count as a constant in derivatives.
// CHECK-LABEL: func @functions
func.func @functions(%x: tensor<?x64xf32>, %y: tensor<?x1xf32>) -> tensor<?x64xf32> {
  %0 = nn.sub %x, %y : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %1 = nn.div %0, %y : (tensor<?x64xf32>, tensor<?x1xf32>) -> tensor<?x64xf32>
  %2 = nn.exp %1 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %3 = nn.log %2 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %4 = nn.cos %3 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %5 = nn.sin %4 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %6 = nn.sigmoid %5 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %7 = nn.sigmoid_backward %6, %6 : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %8 = nn.log_sigmoid %7 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  // CHECK: nn.stop_gradient %{{.*}} : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %9 = nn.stop_gradient %8 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %10 = nn.softmax %9 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  %11 = nn.softmax_backward %10, %10 : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %11 : tensor<?x64xf32>
}

// Products of matrices; what comes before the matrices is broadcast.
// CHECK-LABEL: func @batches
func.func @batches(%q: tensor<?x12x7x64xf32>, %k: tensor<1x12x64x7xf32>, %m: tensor<5x7xf32>)
    -> (tensor<?x12x7x7xf32>, tensor<?x12x5x7xf32>) {
  // CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<?x12x7x64xf32>, tensor<1x12x64x7xf32>) -> tensor<?x12x7x7xf32>
  %0 = nn.matmul %q, %k : (tensor<?x12x7x64xf32>, tensor<1x12x64x7xf32>) -> tensor<?x12x7x7xf32>
  %1 = nn.matmul %m, %0 : (tensor<5x7xf32>, tensor<?x12x7x7xf32>) -> tensor<?x12x5x7xf32>
  return %0, %1 : tensor<?x12x7x7xf32>, tensor<?x12x5x7xf32>
}

// The digits of positions as indices, and a choice by a condition.
// CHECK-LABEL: func @integers
func.func @integers(%n: tensor<?x1xi32>, %x: tensor<?xf32>, %length: index)
    -> (tensor<?x5xi32>, tensor<?x5xf32>) {
  %powers = arith.constant dense<[10000, 1000, 100, 10, 1]> : tensor<5xi32>
  %ten = arith.constant dense<10> : tensor<i32>
  %0 = nn.floor_divide %n, %powers : (tensor<?x1xi32>, tensor<5xi32>) -> tensor<?x5xi32>
  %1 = nn.remainder %0, %ten : (tensor<?x5xi32>, tensor<i32>) -> tensor<?x5xi32>
  %2 = nn.minimum %1, %ten : (tensor<?x5xi32>, tensor<i32>) -> tensor<?x5xi32>
  %3 = nn.neg %2 : (tensor<?x5xi32>) -> tensor<?x5xi32>
  // CHECK: nn.iota : tensor<5xi32>
  %4 = nn.iota : tensor<5xi32>
  // CHECK: nn.iota length %{{.*}} : tensor<?xi64>
  %5 = nn.iota length %length : tensor<?xi64>
  // CHECK: nn.less %{{.*}}, %{{.*}} : (tensor<?x5xi32>, tensor<5xi32>) -> tensor<?x5xi1>
  %6 = nn.less %3, %4 : (tensor<?x5xi32>, tensor<5xi32>) -> tensor<?x5xi1>
  %7 = nn.at_most %3, %4 : (tensor<?x5xi32>, tensor<5xi32>) -> tensor<?x5xi1>
  %8 = nn.equal %3, %4 : (tensor<?x5xi32>, tensor<5xi32>) -> tensor<?x5xi1>
  %9 = nn.select %8, %3, %4 : (tensor<?x5xi1>, tensor<?x5xi32>, tensor<5xi32>) -> tensor<?x5xi32>
  // CHECK: nn.cast %{{.*}} : tensor<?x5xi32> -> tensor<?x5xf32>
  %10 = nn.cast %9 : tensor<?x5xi32> -> tensor<?x5xf32>
  %11 = nn.cast %6 : tensor<?x5xi1> -> tensor<?x5xf32>
  // CHECK: nn.scalar %{{.*}} : tensor<f32>
  %12 = nn.scalar %length : tensor<f32>
  %13 = nn.mul %10, %12 : (tensor<?x5xf32>, tensor<f32>) -> tensor<?x5xf32>
  // CHECK: nn.index_select %{{.*}}, %{{.*}} dim 0
  %14 = nn.index_select %x, %5 dim 0 : (tensor<?xf32>, tensor<?xi64>) -> tensor<?xf32>
  %15 = nn.index_select_backward %14, %x, %5 dim 0
    : (tensor<?xf32>, tensor<?xf32>, tensor<?xi64>) -> tensor<?xf32>
  return %9, %13 : tensor<?x5xi32>, tensor<?x5xf32>
}

// Start and length of a range are numbers or values.
// CHECK-LABEL: func @ranges
func.func @ranges(%x: tensor<?x8xf32>, %i: index, %n: index)
    -> (tensor<?x8xf32>, tensor<4x8xf32>, tensor<1x8xf32>, tensor<?x8xf32>) {
  // CHECK: nn.slice %{{.*}} dim 0 start %{{.*}} length %{{.*}} : (tensor<?x8xf32>, index, index) -> tensor<?x8xf32>
  %0 = nn.slice %x dim 0 start %i length %n : (tensor<?x8xf32>, index, index) -> tensor<?x8xf32>
  // CHECK: nn.slice %{{.*}} dim 0 start %{{.*}} length 4 : (tensor<?x8xf32>, index) -> tensor<4x8xf32>
  %1 = nn.slice %x dim 0 start %i length 4 : (tensor<?x8xf32>, index) -> tensor<4x8xf32>
  // CHECK: nn.slice %{{.*}} dim 1 start 2 length %{{.*}} : (tensor<?x8xf32>, index) -> tensor<?x?xf32>
  %2 = nn.slice %x dim 1 start 2 length %n : (tensor<?x8xf32>, index) -> tensor<?x?xf32>
  // CHECK: nn.slice_backward %{{.*}}, %{{.*}} dim 1 start 2 length %{{.*}} :
  %3 = nn.slice_backward %2, %x dim 1 start 2 length %n
    : (tensor<?x?xf32>, tensor<?x8xf32>, index) -> tensor<?x8xf32>
  // CHECK: nn.mean %{{.*}} over [0] keep
  %4 = nn.mean %3 over [0] keep : (tensor<?x8xf32>) -> tensor<1x8xf32>
  %5 = nn.broadcast %4, %x : (tensor<1x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %6 = nn.sum_to %5, %4 : (tensor<?x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
  return %0, %1, %6, %5 : tensor<?x8xf32>, tensor<4x8xf32>, tensor<1x8xf32>, tensor<?x8xf32>
}

// CHECK-LABEL: func @dropout
func.func @dropout(%x: tensor<?x8xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<?x8xf32> {
  // CHECK: nn.dropout %{{.*}} probability 1.000000e-01 seed(%{{.*}}) step(%{{.*}}) place 3 : tensor<?x8xf32>
  %0 = nn.dropout %x probability 0.1 seed(%seed) step(%step) place 3 : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: func @loss
func.func @loss(%x: tensor<?x256xf32>, %labels: tensor<?xi64>)
    -> (tensor<f32>, tensor<?xf32>, tensor<?x256xf32>) {
  %p = nn.log_softmax %x : (tensor<?x256xf32>) -> tensor<?x256xf32>
  // CHECK: nn.nll_loss %{{.*}}, %{{.*}} : (
  %loss, %count = nn.nll_loss %p, %labels
    : (tensor<?x256xf32>, tensor<?xi64>) -> (tensor<f32>, tensor<f32>)
  // CHECK: nn.nll_loss %{{.*}}, %{{.*}} reduction none ignore 0 : (
  %each, %n = nn.nll_loss %p, %labels reduction none ignore 0
    : (tensor<?x256xf32>, tensor<?xi64>) -> (tensor<?xf32>, tensor<f32>)
  %dp = nn.nll_loss_backward %loss, %p, %labels, %count
    : (tensor<f32>, tensor<?x256xf32>, tensor<?xi64>, tensor<f32>) -> tensor<?x256xf32>
  %dx = nn.log_softmax_backward %dp, %p : (tensor<?x256xf32>, tensor<?x256xf32>) -> tensor<?x256xf32>
  return %loss, %each, %dx : tensor<f32>, tensor<?xf32>, tensor<?x256xf32>
}

// CHECK-LABEL: func @norms
func.func @norms(%x: tensor<?x?x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>)
    -> (tensor<?x?x64xf32>, tensor<64xf32>) {
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} epsilon 1.000000e-05
  %y, %mean, %rstd = nn.layer_norm %x, %w, %b epsilon 1.0e-5
    : (tensor<?x?x64xf32>, tensor<64xf32>, tensor<64xf32>)
    -> (tensor<?x?x64xf32>, tensor<?x?x1xf32>, tensor<?x?x1xf32>)
  %dx, %dw, %db = nn.layer_norm_backward %y, %x, %w, %b, %mean, %rstd
    : (tensor<?x?x64xf32>, tensor<?x?x64xf32>, tensor<64xf32>, tensor<64xf32>,
       tensor<?x?x1xf32>, tensor<?x?x1xf32>)
    -> (tensor<?x?x64xf32>, tensor<64xf32>, tensor<64xf32>)
  %z, %r = nn.rms_norm %dx, %w epsilon 1.0e-5
    : (tensor<?x?x64xf32>, tensor<64xf32>) -> (tensor<?x?x64xf32>, tensor<?x?x1xf32>)
  return %z, %dw : tensor<?x?x64xf32>, tensor<64xf32>
}

// A fused projection is cut into heads and merged again.
// CHECK-LABEL: func @shapes
func.func @shapes(%x: tensor<?x?x96xf32>, %b: index, %l: index)
    -> (tensor<?x4x?x16xf32>, tensor<?x?x64xf32>, tensor<?x?x96xf32>, tensor<1x96xf32>) {
  // CHECK: nn.split %{{.*}} dim 2 into [64, 16, 16]
  %q, %k, %v = nn.split %x dim 2 into [64, 16, 16]
    : (tensor<?x?x96xf32>) -> (tensor<?x?x64xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>)
  // CHECK: nn.reshape %{{.*}} sizes(%{{.*}}, %{{.*}}) : tensor<?x?x64xf32> -> tensor<?x?x4x16xf32>
  %0 = nn.reshape %q sizes(%b, %l) : tensor<?x?x64xf32> -> tensor<?x?x4x16xf32>
  // CHECK: nn.transpose %{{.*}} 1, 2 : (tensor<?x?x4x16xf32>) -> tensor<?x4x?x16xf32>
  %1 = nn.transpose %0 1, 2 : (tensor<?x?x4x16xf32>) -> tensor<?x4x?x16xf32>
  %2 = nn.transpose %1 1, 2 : (tensor<?x4x?x16xf32>) -> tensor<?x?x4x16xf32>
  %3 = nn.reshape %2 sizes(%b, %l) : tensor<?x?x4x16xf32> -> tensor<?x?x64xf32>
  // CHECK: nn.concat
  %4 = nn.concat %3, %k, %v dim 2
    : (tensor<?x?x64xf32>, tensor<?x?x16xf32>, tensor<?x?x16xf32>) -> tensor<?x?x96xf32>
  // CHECK: nn.slice %{{.*}} dim 1 start -8 length 8
  %5 = nn.slice %4 dim 1 start -8 length 8 : (tensor<?x?x96xf32>) -> tensor<?x8x96xf32>
  %6 = nn.slice_backward %5, %4 dim 1 start -8 length 8
    : (tensor<?x8x96xf32>, tensor<?x?x96xf32>) -> tensor<?x?x96xf32>
  // CHECK: nn.sum %{{.*}} over [0] keep
  %7 = nn.sum %6 over [0] keep : (tensor<?x?x96xf32>) -> tensor<1x?x96xf32>
  // CHECK: nn.sum %{{.*}} over [1] :
  %8 = nn.sum %7 over [1] : (tensor<1x?x96xf32>) -> tensor<1x96xf32>
  %9 = nn.broadcast %8, %6 : (tensor<1x96xf32>, tensor<?x?x96xf32>) -> tensor<?x?x96xf32>
  return %1, %3, %9, %8
    : tensor<?x4x?x16xf32>, tensor<?x?x64xf32>, tensor<?x?x96xf32>, tensor<1x96xf32>
}

// CHECK-LABEL: func @optimizer
// CHECK-SAME: nn.optimizer = #nn.adamw<beta1 = {{.*}}, update = @update, train_step = @train_step>
func.func @optimizer(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>,
                     %lr: tensor<f32>, %step: tensor<f32>) -> tensor<8xf32>
    attributes {nn.optimizer = #nn.adamw<beta1 = 0.9, beta2 = 0.95, epsilon = 1.0e-8, decay = 0.1,
                                         clip = 1.0, update = @update, train_step = @train_step>} {
  %n = nn.global_norm %g, %m : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  // CHECK: nn.adamw(%{{.*}}) gradients(%{{.*}}) moments(%{{.*}}), (%{{.*}}) step %{{.*}} rate %{{.*}} gradient_scale
  %u:3 = nn.adamw (%p) gradients(%g) moments(%m), (%v) step %step rate %lr gradient_scale %n
    decay 0.1 betas [0.9, 0.95] epsilon 1.0e-8 : (tensor<8xf32>), tensor<f32>, tensor<f32>, tensor<f32>
  return %u#0 : tensor<8xf32>
}

// Prefixes of digits, each once, and where they stand.
// CHECK-LABEL: func @sets
func.func @sets(%n: tensor<?x5xi64>) -> (tensor<?xi64>, tensor<?x5xi64>, tensor<?xi64>) {
  // CHECK: %[[V:.+]], %{{.+}}, %{{.+}} = nn.unique %{{.*}} : (tensor<?x5xi64>) -> (tensor<?xi64>, tensor<?x5xi64>, tensor<?xi64>)
  %0, %1, %2 = nn.unique %n : (tensor<?x5xi64>) -> (tensor<?xi64>, tensor<?x5xi64>, tensor<?xi64>)
  %3 = nn.power %1, %1 : (tensor<?x5xi64>, tensor<?x5xi64>) -> tensor<?x5xi64>
  // CHECK: nn.search %{{.*}} in %[[V]] : (tensor<?x5xi64>, tensor<?xi64>) -> tensor<?x5xi64>
  %4 = nn.search %3 in %0 : (tensor<?x5xi64>, tensor<?xi64>) -> tensor<?x5xi64>
  // CHECK: nn.argmin %{{.*}} dim 1 : (tensor<?x5xi64>) -> tensor<?xi64>
  %5 = nn.argmin %4 dim 1 : (tensor<?x5xi64>) -> tensor<?xi64>
  %6 = nn.less %4, %3 : (tensor<?x5xi64>, tensor<?x5xi64>) -> tensor<?x5xi1>
  // CHECK: %[[ALL:.+]] = nn.all %{{.*}} : (tensor<?x5xi1>) -> tensor<i1>
  %7 = nn.all %6 : (tensor<?x5xi1>) -> tensor<i1>
  // CHECK: nn.require %[[ALL]], %{{.*}}, "out of order" : (tensor<i1>, tensor<?xi64>) -> tensor<?xi64>
  %8 = nn.require %7, %5, "out of order" : (tensor<i1>, tensor<?xi64>) -> tensor<?xi64>
  return %0, %4, %8 : tensor<?xi64>, tensor<?x5xi64>, tensor<?xi64>
}
