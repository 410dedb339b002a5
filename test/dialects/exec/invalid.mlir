// RUN: sextant-opt %s --split-input-file --verify-diagnostics

// One size per dynamic dimension of an allocation.
func.func @alloc(%n: index) {
  // expected-error@+1 {{expected one size per dynamic dimension: 1, got 0}}
  %t = exec.alloc() : tensor<?xf32>
  return
}

// -----

// An argument names an operand that is there.
func.func @operand(%a: tensor<2xf32>) {
  // expected-error@+1 {{argument 1 names operand 1 of 1}}
  exec.dense "aten::mul.Tensor"(%a : tensor<2xf32>) arguments [#exec.tensor<0>, #exec.tensor<1>] -> tensor<2xf32>
  return
}

// -----

// An argument's kind is the operand's.
func.func @kind(%a: tensor<2xf32>) {
  // expected-error@+1 {{argument 0 must be an index but operand 0 is 'tensor<2xf32>'}}
  exec.dense "aten::relu"(%a : tensor<2xf32>) arguments [#exec.integer<0>] -> tensor<2xf32>
  return
}

// -----

// Constants are i64 and f64.
func.func @width(%a: tensor<2xf32>) {
  // expected-error@+1 {{argument 1 must be an i64 but is 'i32'}}
  exec.dense "aten::t"(%a : tensor<2xf32>) arguments [#exec.tensor<0>, 1 : i32] -> tensor<2xf32>
  return
}

// -----

// A permutation names every dimension once.
func.func @view(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{dimension 0 of the permutation is out of range or repeated}}
  %v = exec.view %a permuted [0, 0] : tensor<2x3xf32> -> tensor<2x2xf32>
  return
}

// -----

// A view keeps the element type.
func.func @element(%a: tensor<2xf32>) {
  // expected-error@+1 {{expected a result of 'f32', got 'i32'}}
  %v = exec.view %a : tensor<2xf32> -> tensor<2xi32>
  return
}

// -----

// A distribution has its numbers.
// expected-error@+1 {{expected 2 numbers after init uniform, got 1}}
exec.parameter "w" : tensor<2xf32> init uniform [0.0]

// -----

// A parameter's shape is static.
// expected-error@+1 {{expected a tensor type of static shape, got 'tensor<?xf32>'}}
exec.parameter "w" : tensor<?xf32> init constant [0.0]

// -----

func.func @distance(%a: tensor<2x3xf32>) -> index {
  // expected-error@+1 {{expected dimensions of 'tensor<2x3xf32>', got 2}}
  %r = exec.distance %a over [0, 2] : tensor<2x3xf32>
  return %r : index
}

// -----

// An element is one of a vector.
func.func @number(%a: tensor<2xi64>, %n: index) {
  // expected-error@+1 {{expected an element of 'tensor<2xi64>', got number 2}}
  exec.check_data %a[2] equal %n, "not equal" : tensor<2xi64>
  return
}

// -----

func.func @sizes(%a: tensor<?xi64>, %n: index) {
  // expected-error@+1 {{expected a vector of a static size, got 'tensor<?xi64>'}}
  exec.check_data %a[0] equal %n, "not equal" : tensor<?xi64>
  return
}
