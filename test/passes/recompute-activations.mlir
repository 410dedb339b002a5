// RUN: sextant-opt %s --nn-derive-backward --canonicalize --cse --nn-recompute-activations=least-columns=8 --split-input-file | FileCheck %s
// RUN: sextant-opt %s --nn-derive-backward --canonicalize --cse --nn-recompute-activations=least-columns=8 --split-input-file --remarks-filter=nn-recompute-activations -o /dev/null 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: sextant-opt %s --nn-derive-backward --canonicalize --cse --nn-recompute-activations=least-columns=8 --nn-recompute-activations=least-columns=8 --split-input-file | FileCheck %s
// RUN: sextant-opt %s --nn-derive-backward --canonicalize --cse --nn-recompute-activations=least-columns=9 --split-input-file --remarks-filter=nn-recompute-activations -o /dev/null 2>&1 | FileCheck %s --check-prefix=NARROW
// RUN: sextant-opt %s --nn-derive-backward --canonicalize --cse --nn-recompute-activations --split-input-file --remarks-filter=nn-recompute-activations -o /dev/null 2>&1 | FileCheck %s --check-prefix=NARROW

// An MLP: of the forward the inputs of the normalisation and of the activation
// are kept, the backward makes their results again where it reads them first.
// Beside products of eight columns the activation takes too long where nine are
// asked for, or 256.
// COUNT: remark: [Passed] recomputed | Category:nn-recompute-activations | Ops=2
// NARROW: remark: [Passed] recomputed | Category:nn-recompute-activations | Ops=1
// CHECK-LABEL: func @gradients
// CHECK-SAME:  (%[[X:[^ ]+]]: tensor<?x8xf32>
// CHECK:       %[[N:.+]], %{{.+}}, %{{.+}} = nn.layer_norm %[[X]]
// CHECK:       %[[UP:.+]] = nn.linear %[[N]]
// CHECK:       %[[H:[^ ]+]] = nn.gelu %[[UP]]
// CHECK:       nn.linear %[[H]]
// CHECK-NOT:   %[[H]]
// CHECK:       %[[AGAIN:.+]] = nn.gelu %[[UP]] form tanh
// CHECK-NEXT:  nn.matmul %{{.+}}, %[[AGAIN]]
// CHECK:       nn.gelu_backward %{{.+}}, %[[UP]]
// CHECK:       %[[N2:.+]], %[[MEAN:.+]], %[[RSTD:.+]] = nn.layer_norm %[[X]]
// CHECK-NEXT:  nn.matmul %{{.+}}, %[[N2]]
// CHECK:       nn.layer_norm_backward %{{.+}}, %[[X]], %{{.+}}, %{{.+}}, %[[MEAN]], %[[RSTD]]
nn.parameter "norm.weight" : tensor<8xf32> init constant [1.0]
nn.parameter "norm.bias" : tensor<8xf32> init constant [0.0]
nn.parameter "up" : tensor<32x8xf32> init normal [0.0, 0.02]
nn.parameter "down" : tensor<8x32xf32> init normal [0.0, 0.02]
func.func @loss(%x: tensor<?x8xf32>, %nw: tensor<8xf32> {nn.parameter = "norm.weight"},
                %nb: tensor<8xf32> {nn.parameter = "norm.bias"},
                %up: tensor<32x8xf32> {nn.parameter = "up"},
                %down: tensor<8x32xf32> {nn.parameter = "down"})
    -> tensor<f32> attributes {nn.gradients = @gradients} {
  %n, %mean, %rstd = nn.layer_norm %x, %nw, %nb epsilon 1.0e-05
    : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x1xf32>, tensor<?x1xf32>)
  %u = nn.linear %n, %up : (tensor<?x8xf32>, tensor<32x8xf32>) -> tensor<?x32xf32>
  %h = nn.gelu %u form tanh : (tensor<?x32xf32>) -> tensor<?x32xf32>
  %y = nn.linear %h, %down : (tensor<?x32xf32>, tensor<8x32xf32>) -> tensor<?x8xf32>
  %loss = nn.sum %y over [0, 1] : (tensor<?x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A gated MLP: the product is made again, for which the activation of the gate
// is, for which the gate is kept. What is made of a product whose operand is
// not kept, a sum here, stays.
// The gate's activation is read through the product of elements: beside products
// of eight columns it is kept, and that product alone made again.
// COUNT: remark: [Passed] recomputed | Category:nn-recompute-activations | Ops=2
// NARROW: remark: [Passed] recomputed | Category:nn-recompute-activations | Ops=1
// CHECK-LABEL: func @gradients
// CHECK:       %[[SUM:.+]] = nn.add
// CHECK:       %[[GATE:.+]] = nn.linear %[[SUM]]
// CHECK:       %[[UP:.+]] = nn.linear %[[SUM]]
// CHECK:       %[[S:.+]] = nn.silu %[[GATE]]
// CHECK:       %[[H:[^ ]+]] = nn.mul %[[S]], %[[UP]]
// CHECK:       nn.linear %[[H]]
// CHECK-NOT:   %[[H]]
// CHECK:       %[[S2:.+]] = nn.silu %[[GATE]]
// CHECK:       %[[H2:.+]] = nn.mul %[[S2]], %[[UP]]
// CHECK:       nn.matmul %{{.+}}, %[[H2]]
// CHECK:       nn.mul %{{.+}}, %[[S2]]
// CHECK-NOT:   nn.add %{{.*}}arg0
// CHECK:       nn.matmul %{{.+}}, %[[SUM]]
nn.parameter "in" : tensor<8x8xf32> init normal [0.0, 0.02]
nn.parameter "gate" : tensor<32x8xf32> init normal [0.0, 0.02]
nn.parameter "up" : tensor<32x8xf32> init normal [0.0, 0.02]
nn.parameter "down" : tensor<8x32xf32> init normal [0.0, 0.02]
func.func @loss(%x: tensor<?x8xf32>, %in: tensor<8x8xf32> {nn.parameter = "in"},
                %gate: tensor<32x8xf32> {nn.parameter = "gate"},
                %up: tensor<32x8xf32> {nn.parameter = "up"},
                %down: tensor<8x32xf32> {nn.parameter = "down"})
    -> tensor<f32> attributes {nn.gradients = @gradients} {
  %p = nn.linear %x, %in : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %r = nn.add %x, %p : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %g = nn.linear %r, %gate : (tensor<?x8xf32>, tensor<32x8xf32>) -> tensor<?x32xf32>
  %u = nn.linear %r, %up : (tensor<?x8xf32>, tensor<32x8xf32>) -> tensor<?x32xf32>
  %s = nn.silu %g : (tensor<?x32xf32>) -> tensor<?x32xf32>
  %h = nn.mul %s, %u : (tensor<?x32xf32>, tensor<?x32xf32>) -> tensor<?x32xf32>
  %y = nn.linear %h, %down : (tensor<?x32xf32>, tensor<8x32xf32>) -> tensor<?x8xf32>
  %loss = nn.sum %y over [0, 1] : (tensor<?x8xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A transposed value is copied by the reshape: the copy is made again, where the
// value behind the view is kept. One that the function gives back stays.
// COUNT: remark: [Passed] recomputed | Category:nn-recompute-activations | Ops=1
// NARROW: remark: [Passed] recomputed | Category:nn-recompute-activations | Ops=1
// CHECK-LABEL: func @gradients
// CHECK:       %[[E:.+]] = nn.exp
// CHECK:       %[[T:.+]] = nn.transpose %[[E]] 0, 1
// CHECK:       %[[COPY:.+]] = nn.reshape %[[T]]
// CHECK:       nn.linear %[[COPY]]
// CHECK:       %[[AGAIN:.+]] = nn.reshape %[[T]]
// CHECK:       nn.matmul %{{.+}}, %[[AGAIN]]
// CHECK:       return %{{[a-z0-9_]+}}, %[[E]]
nn.parameter "w" : tensor<8x4xf32> init normal [0.0, 0.02]
nn.parameter "v" : tensor<3x32xf32> init normal [0.0, 0.02]
func.func @loss(%w: tensor<8x4xf32> {nn.parameter = "w"},
                %v: tensor<3x32xf32> {nn.parameter = "v"})
    -> (tensor<f32>, tensor<8x4xf32>) attributes {nn.gradients = @gradients} {
  %e = nn.exp %w : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %t = nn.transpose %e 0, 1 : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %r = nn.reshape %t : tensor<4x8xf32> -> tensor<1x32xf32>
  %y = nn.linear %r, %v : (tensor<1x32xf32>, tensor<3x32xf32>) -> tensor<1x3xf32>
  %loss = nn.sum %y over [0, 1] : (tensor<1x3xf32>) -> tensor<f32>
  return %loss, %e : tensor<f32>, tensor<8x4xf32>
}

// -----

// Products of a narrow type: the statistics of the normalisation and the narrow
// weight are kept, as their rows and their parameter would have to be read for
// them again. The narrow rows themselves are kept for the product.
// COUNT: remark: [Passed] recomputed | Category:nn-recompute-activations | Ops=0
// CHECK-LABEL: func @gradients
// CHECK-SAME:  (%[[X:[^ ]+]]: tensor<?x8xf32>, %{{[^ ]+}}: tensor<8xf32> {{.*}}, %{{[^ ]+}}: tensor<8xf32> {{.*}}, %[[UP:[^ ]+]]: tensor<32x8xf32>
// CHECK:       %[[N:.+]], %[[MEAN:.+]], %[[RSTD:.+]] = nn.layer_norm %[[X]]
// CHECK:       %[[W:.+]] = nn.cast %[[UP]]
// CHECK:       nn.linear %{{.+}}, %[[W]]
// CHECK-NOT:   nn.cast %[[UP]]
// CHECK:       nn.matmul %{{.+}}, %[[W]]
// CHECK-NOT:   nn.layer_norm %
// CHECK:       nn.layer_norm_backward %{{.+}}, %[[X]], %{{.+}}, %{{.+}}, %[[MEAN]], %[[RSTD]]
nn.parameter "norm.weight" : tensor<8xf32> init constant [1.0]
nn.parameter "norm.bias" : tensor<8xf32> init constant [0.0]
nn.parameter "up" : tensor<32x8xf32> init normal [0.0, 0.02]
func.func @loss(%x: tensor<?x8xf32>, %nw: tensor<8xf32> {nn.parameter = "norm.weight"},
                %nb: tensor<8xf32> {nn.parameter = "norm.bias"},
                %up: tensor<32x8xf32> {nn.parameter = "up"})
    -> tensor<f32> attributes {nn.gradients = @gradients} {
  %n, %mean, %rstd = nn.layer_norm %x, %nw, %nb epsilon 1.0e-05
    : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x1xf32>, tensor<?x1xf32>)
  %narrow = nn.cast %n : tensor<?x8xf32> -> tensor<?x8xbf16>
  %w = nn.cast %up : tensor<32x8xf32> -> tensor<32x8xbf16>
  %y = nn.linear %narrow, %w : (tensor<?x8xbf16>, tensor<32x8xbf16>) -> tensor<?x32xbf16>
  %wide = nn.cast %y : tensor<?x32xbf16> -> tensor<?x32xf32>
  %loss = nn.sum %wide over [0, 1] : (tensor<?x32xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
