// RUN: sextant-opt %s --split-input-file --verify-diagnostics

func.func @embedding(%w: tensor<4xf32>, %i: tensor<?xi64>) {
  // expected-error @+2 {{weight must have rank 2, got 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.embedding %w, %i : (tensor<4xf32>, tensor<?xi64>) -> tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<?x8xf32>, %w: tensor<4x9xf32>) {
  // expected-error @+2 {{size of the input's last dimension must be 9, got 8}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.linear %x, %w : (tensor<?x8xf32>, tensor<4x9xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @bias(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>, %b: tensor<5xf32>) {
  // expected-error @+2 {{size of the bias must be 4, got 5}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.linear %x, %w bias %b : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<5xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func @result(%x: tensor<?x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{inferred type(s) 'tensor<?x4xf32>' are incompatible with return type(s) of operation 'tensor<?x5xf32>'}}
  %0 = nn.linear %x, %w : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x5xf32>
  return
}

// -----

func.func @broadcast(%x: tensor<3x8xf32>, %y: tensor<4xf32>) {
  // expected-error @+2 {{cannot broadcast 'tensor<3x8xf32>' and 'tensor<4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.add %x, %y : (tensor<3x8xf32>, tensor<4xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @element_types(%x: tensor<8xf32>, %y: tensor<8xf64>) {
  // expected-error @+2 {{operands must share an element type, got 'tensor<8xf32>' and 'tensor<8xf64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.mul %x, %y : (tensor<8xf32>, tensor<8xf64>) -> tensor<8xf32>
  return
}

// -----

func.func @labels(%p: tensor<5x8xf32>, %l: tensor<6xi64>) {
  // expected-error @+2 {{number of labels must be 5, got 6}}
  // expected-error @+1 {{failed to infer returned types}}
  %0, %1 = nn.nll_loss %p, %l : (tensor<5x8xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @norm(%x: tensor<5x8xf32>, %w: tensor<7xf32>) {
  // expected-error @+2 {{size of the input's last dimension must be 7, got 8}}
  // expected-error @+1 {{failed to infer returned types}}
  %0, %1 = nn.rms_norm %x, %w epsilon 1.0e-5 : (tensor<5x8xf32>, tensor<7xf32>) -> (tensor<5x8xf32>, tensor<5x1xf32>)
  return
}

// -----

func.func @transpose(%x: tensor<5x8xf32>) {
  // expected-error @+2 {{dimension 2 is out of range of 'tensor<5x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.transpose %x 0, 2 : (tensor<5x8xf32>) -> tensor<8x5xf32>
  return
}

// -----

func.func @slice(%x: tensor<5x8xf32>) {
  // expected-error @+2 {{range from 6 of length 3 is outside dimension 1 of 'tensor<5x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.slice %x dim 1 start 6 length 3 : (tensor<5x8xf32>) -> tensor<5x3xf32>
  return
}

// -----

func.func @split(%x: tensor<5x8xf32>) {
  // expected-error @+2 {{sum of the lengths must be 8, got 7}}
  // expected-error @+1 {{failed to infer returned types}}
  %0, %1 = nn.split %x dim 1 into [4, 3] : (tensor<5x8xf32>) -> (tensor<5x4xf32>, tensor<5x3xf32>)
  return
}

// -----

func.func @reshape(%x: tensor<5x8xf32>) {
  // expected-error @+1 {{expected a result of 40 elements, got 39}}
  %0 = nn.reshape %x : tensor<5x8xf32> -> tensor<39xf32>
  return
}

// -----

func.func @reshape_sizes(%x: tensor<5x8xf32>) {
  // expected-error @+1 {{expected one size per dynamic dimension of the result: 1, got 0}}
  %0 = nn.reshape %x : tensor<5x8xf32> -> tensor<?xf32>
  return
}

// -----

func.func @matmul_vector(%x: tensor<5x8xf32>, %y: tensor<8xf32>) {
  // expected-error @+2 {{right operand must have at least two dimensions, got 'tensor<8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (tensor<5x8xf32>, tensor<8xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @matmul_left(%x: tensor<8xf32>, %y: tensor<3x8x4xf32>) {
  // expected-error @+2 {{left operand must have at least two dimensions where the right one has 3, got 'tensor<8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (tensor<8xf32>, tensor<3x8x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @matmul_contracted(%x: tensor<3x5x8xf32>, %y: tensor<3x7x4xf32>) {
  // expected-error @+2 {{size of the contracted dimension must be 8, got 7}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (tensor<3x5x8xf32>, tensor<3x7x4xf32>) -> tensor<3x5x4xf32>
  return
}

// -----

func.func @matmul_batches(%x: tensor<2x5x8xf32>, %y: tensor<3x8x4xf32>) {
  // expected-error @+2 {{cannot broadcast what comes before the matrices of 'tensor<2x5x8xf32>' and 'tensor<3x8x4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.matmul %x, %y : (tensor<2x5x8xf32>, tensor<3x8x4xf32>) -> tensor<3x5x4xf32>
  return
}

// -----

func.func @div_integers(%x: tensor<8xi32>) {
  // expected-error @+1 {{must be ranked tensor of 32-bit float or 64-bit float or bfloat16 type or 16-bit float values, but got 'tensor<8xi32>'}}
  %0 = nn.div %x, %x : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
  return
}

// -----

func.func @floor_divide(%x: tensor<8xf32>) {
  // expected-error @+1 {{must be ranked tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<8xf32>'}}
  %0 = nn.floor_divide %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @remainder(%x: tensor<8xi32>, %y: tensor<8xi64>) {
  // expected-error @+2 {{operands must share an element type, got 'tensor<8xi32>' and 'tensor<8xi64>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.remainder %x, %y : (tensor<8xi32>, tensor<8xi64>) -> tensor<8xi32>
  return
}

// -----

func.func @condition(%x: tensor<8xi32>, %y: tensor<7xi32>) {
  // expected-error @+2 {{cannot broadcast 'tensor<8xi32>' and 'tensor<7xi32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.less %x, %y : (tensor<8xi32>, tensor<7xi32>) -> tensor<8xi1>
  return
}

// -----

func.func @select(%c: tensor<3xi1>, %x: tensor<8xf32>) {
  // expected-error @+2 {{cannot broadcast 'tensor<3xi1>' and 'tensor<8xf32>' and 'tensor<8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.select %c, %x, %x : (tensor<3xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @cast(%x: tensor<8xi32>) {
  // expected-error @+1 {{requires the same shape for all operands and results}}
  %0 = nn.cast %x : tensor<8xi32> -> tensor<7xf32>
  return
}

// -----

func.func @iota() {
  // expected-error @+1 {{expected a length, as the size of 'tensor<?xi64>' is dynamic}}
  %0 = nn.iota : tensor<?xi64>
  return
}

// -----

func.func @iota_length(%n: index) {
  // expected-error @+1 {{expected no length, as the size of 'tensor<4xi64>' is known}}
  %0 = nn.iota length %n : tensor<4xi64>
  return
}

// -----

func.func @slice_length(%x: tensor<5x8xf32>, %n: index) {
  // expected-error @+2 {{a start that counts from the end (-2) needs a length that is a number}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.slice %x dim 1 start -2 length %n : (tensor<5x8xf32>, index) -> tensor<5x?xf32>
  return
}

// -----

func.func @slice_start(%x: tensor<5x8xf32>, %i: index) {
  // expected-error @+2 {{range of length 9 is outside dimension 1 of 'tensor<5x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.slice %x dim 1 start %i length 9 : (tensor<5x8xf32>, index) -> tensor<5x9xf32>
  return
}

// -----

func.func @concat(%x: tensor<5x8xf32>, %y: tensor<4x?xf32>) {
  // expected-error @+2 {{other dimensions of every part must be 5, got 4}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.concat %x, %y dim 1 : (tensor<5x8xf32>, tensor<4x?xf32>) -> tensor<5x?xf32>
  return
}

// -----

func.func @mean(%x: tensor<5x8xf32>) {
  // expected-error @+2 {{dimension 1 is named twice}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.mean %x over [1, 1] : (tensor<5x8xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @sum(%x: tensor<5x8xf32>) {
  // expected-error @+2 {{expected at least one dimension of 'tensor<5x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.sum %x over [] : (tensor<5x8xf32>) -> tensor<f32>
  return
}

// -----

func.func @repeat(%x: tensor<5x8xf32>, %y: tensor<1x8xf32>) {
  // expected-error @+2 {{cannot repeat 'tensor<5x8xf32>' to the shape of 'tensor<1x8xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.broadcast %x, %y : (tensor<5x8xf32>, tensor<1x8xf32>) -> tensor<1x8xf32>
  return
}

// -----

func.func @index_select(%x: tensor<5xf32>, %i: tensor<3xi64>) {
  // expected-error @+2 {{dimension 1 is out of range of 'tensor<5xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.index_select %x, %i dim 1 : (tensor<5xf32>, tensor<3xi64>) -> tensor<3xf32>
  return
}

// -----

func.func @index_select_backward(%dy: tensor<3xf32>, %x: tensor<5x2xf32>, %i: tensor<3xi64>) {
  // expected-error @+1 {{expected a gradient of the shape of what was taken: 'tensor<3x2xf32>'}}
  %0 = nn.index_select_backward %dy, %x, %i dim 0
    : (tensor<3xf32>, tensor<5x2xf32>, tensor<3xi64>) -> tensor<5x2xf32>
  return
}

// -----

func.func @softmax(%x: tensor<f32>) {
  // expected-error @+2 {{input must have at least one dimension, got 'tensor<f32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.softmax %x : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @dropout(%x: tensor<5xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{expected a probability in [0, 1), got 1.0}}
  %0 = nn.dropout %x probability 1.0 seed(%s) step(%s) place 0 : tensor<5xf32>
  return
}

// -----

func.func @dropout_place(%x: tensor<5xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{expected a place in 0 .. 2^32 - 1, got -1}}
  %0 = nn.dropout %x probability 0.5 seed(%s) step(%s) place -1 : tensor<5xf32>
  return
}

// -----

func.func @clamp(%x: tensor<5xf32>) {
  // expected-error @+1 {{expected a floor, a ceiling or both}}
  %0 = nn.clamp %x : tensor<5xf32>
  return
}

// -----

func.func @adamw(%p: tensor<8xf32>, %g: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expected two betas, got 1}}
  %u:3 = nn.adamw (%p) gradients(%g) moments(%p), (%p) step %s rate %s
    decay 0.1 betas [0.9] epsilon 1.0e-8 : (tensor<8xf32>), tensor<f32>, tensor<f32>
  return
}

// -----

// expected-error @+1 {{expected 2 numbers after init normal, got 1}}
nn.parameter "w" : tensor<4xf32> init normal [0.0]

// -----

// expected-error @+1 {{expected a static shape, got 'tensor<?xf32>'}}
nn.parameter "w" : tensor<?xf32> init constant [0.0]

// -----

func.func @search(%n: tensor<5xi64>, %s: tensor<5xi32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{operands must share an element type, got 'tensor<5xi64>' and 'tensor<5xi32>'}}
  %0 = nn.search %n in %s : (tensor<5xi64>, tensor<5xi32>) -> tensor<5xi64>
  return
}

// -----

// expected-error @+1 {{argument 0: 'nn.parameter' must be a name in quotes, got 3 : i64}}
func.func @mark(%w: tensor<8xf32> {nn.parameter = 3}) -> tensor<8xf32> {
  return %w : tensor<8xf32>
}

// -----

// expected-error @+1 {{result 0: 'nn.first_moment' must be a name in quotes, got unit}}
func.func @result_mark(%w: tensor<8xf32>) -> (tensor<8xf32> {nn.first_moment}) {
  return %w : tensor<8xf32>
}
