// RUN: sextant-opt %s --nn-narrow-products --split-input-file --verify-diagnostics | FileCheck %s
// RUN: sextant-opt %s --nn-narrow-products --nn-derive-backward --canonicalize --cse --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s --check-prefix=GRADIENT

// What moves elements follows a product, and the next product has its operand as it is;
// a sum is wide. One value is made narrow once.
// CHECK-LABEL: func.func @block
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x8xf32>, %[[W:[^:]+]]: tensor<8x8xf32>, %[[B:[^:]+]]: tensor<8xf32>
// CHECK-DAG: %[[NX:.+]] = nn.cast %[[X]] : tensor<?x8xf32> -> tensor<?x8xbf16>
// CHECK-DAG: %[[NW:.+]] = nn.cast %[[W]] : tensor<8x8xf32> -> tensor<8x8xbf16>
// CHECK-DAG: %[[NB:.+]] = nn.cast %[[B]] : tensor<8xf32> -> tensor<8xbf16>
// CHECK: %[[Y:.+]] = nn.linear %[[NX]], %[[NW]] bias %[[NB]] : {{.*}} -> tensor<?x8xbf16>
// CHECK-NOT: nn.cast
// CHECK: %[[G:.+]] = nn.gelu %[[Y]] : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
// CHECK-NOT: nn.cast
// CHECK: %[[T:.+]] = nn.transpose %[[G]] 0, 1 : (tensor<?x8xbf16>) -> tensor<8x?xbf16>
// CHECK-NOT: nn.cast
// CHECK: %[[P:.+]] = nn.matmul %[[NX]], %[[T]] : (tensor<?x8xbf16>, tensor<8x?xbf16>) -> tensor<?x?xbf16>
// CHECK: %[[WIDE:.+]] = nn.cast %[[P]] : tensor<?x?xbf16> -> tensor<?x?xf32>
// CHECK-NOT: nn.cast
// CHECK: nn.add %[[WIDE]], %[[WIDE]] : {{.*}} -> tensor<?x?xf32>
func.func @block(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<?x?xf32>
    attributes {nn.products = bf16} {
  %y = nn.linear %x, %w bias %b : (tensor<?x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %g = nn.gelu %y : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = nn.transpose %g 0, 1 : (tensor<?x8xf32>) -> tensor<8x?xf32>
  %p = nn.matmul %x, %t : (tensor<?x8xf32>, tensor<8x?xf32>) -> tensor<?x?xf32>
  %s = nn.add %p, %p : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}

// Rows of attention are narrow; its statistics and what encodings are given are not.
// CHECK-LABEL: func.func @attend
// CHECK: pos.attention
// CHECK: : tensor<?x2x?x8xf16>, tensor<?x2x?x8xf16>, (tensor<?x2x?x8xf16>)
// CHECK-SAME: -> (tensor<?x2x?x8xf16>), tensor<?x2x?xf32>
func.func @attend(%x: tensor<?x2x?x8xf32>, %r: tensor<2xf32>) -> (tensor<?x2x?x8xf32>, tensor<?x2x?xf32>)
    attributes {nn.products = f16} {
  %o, %lse = pos.attention %x, %x, (%x) uses [#pos.use<@given, "given">] params(%r : tensor<2xf32>)
    : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, (tensor<?x2x?x8xf32>)
    -> (tensor<?x2x?x8xf32>), tensor<?x2x?xf32>
  return %o, %lse : tensor<?x2x?x8xf32>, tensor<?x2x?xf32>
}

// Nothing is asked for; products of another type; products that are narrow as they stand.
// CHECK-LABEL: func.func @left
// CHECK-NOT: nn.cast
func.func @left(%x: tensor<3x8xf32>, %w: tensor<4x8xf32>) -> tensor<3x4xf32> {
  %y = nn.linear %x, %w : (tensor<3x8xf32>, tensor<4x8xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}
// CHECK-LABEL: func.func @other
// CHECK-NOT: nn.cast
// CHECK: return
func.func @other(%x: tensor<3x8xf64>, %w: tensor<4x8xf64>, %n: tensor<3x8xbf16>, %v: tensor<4x8xbf16>)
    -> (tensor<3x4xf64>, tensor<3x4xbf16>) attributes {nn.products = bf16} {
  %y = nn.linear %x, %w : (tensor<3x8xf64>, tensor<4x8xf64>) -> tensor<3x4xf64>
  %z = nn.linear %n, %v : (tensor<3x8xbf16>, tensor<4x8xbf16>) -> tensor<3x4xbf16>
  return %y, %z : tensor<3x4xf64>, tensor<3x4xbf16>
}

// -----

// Gradients pass through products of the same type, and reach a parameter as f32.
// GRADIENT-LABEL: func.func @gradients
// GRADIENT: nn.matmul {{.*}} : (tensor<4x3xbf16>, tensor<3x8xbf16>) -> tensor<4x8xbf16>
// GRADIENT: %[[G:.+]] = nn.cast %{{.+}} : tensor<4x8xbf16> -> tensor<4x8xf32>
// GRADIENT: return %{{.+}}, %[[G]] : tensor<f32>, tensor<4x8xf32>
nn.parameter "w" : tensor<4x8xf32> init uniform [-1.0, 1.0]
func.func @loss(%x: tensor<3x8xf32>, %w: tensor<4x8xf32> {nn.parameter = "w"}) -> tensor<f32>
    attributes {nn.gradients = @gradients, nn.products = bf16} {
  %y = nn.linear %x, %w : (tensor<3x8xf32>, tensor<4x8xf32>) -> tensor<3x4xf32>
  %s = nn.sum %y over [0, 1] : (tensor<3x4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// -----

// expected-error @below {{'func.func' op expected bf16 or f16 as 'nn.products', got f64}}
func.func @wide(%x: tensor<3x8xf32>) -> tensor<3x8xf32> attributes {nn.products = f64} {
  return %x : tensor<3x8xf32>
}

// -----

// expected-error @below {{'func.func' op expected bf16 or f16 as 'nn.products', got "bf16"}}
func.func @text(%x: tensor<3x8xf32>) -> tensor<3x8xf32> attributes {nn.products = "bf16"} {
  return %x : tensor<3x8xf32>
}
