// RUN: sextant-opt %s --pos-specialize --split-input-file --verify-diagnostics

// expected-error @below {{'@g.consume' is not '@g.' and a function of @forgetting}}
func.func private @g.consume(tensor<?x?x32xf32>)
  attributes {pos.use = #pos.use<@forgetting, "g">, pos.extents = {heads = 4 : i32}}

// -----

// expected-error @below {{'@g.produce' gives 'tensor<?x4x?xf32>', but is declared to give 'tensor<?x8x?xf32>'}}
func.func private @g.produce(tensor<?x?x32xf32>, tensor<4x32xf32>, tensor<4xf32>) -> tensor<?x8x?xf32>
  attributes {pos.use = #pos.use<@forgetting, "g">, pos.extents = {heads = 4 : i32}}

// -----

pos.encoding @sized {
  // expected-error @below {{@produce: argument 0, 'input', is 'tensor<?x?x16xf32>', but in the model 'tensor<?x?x32xf32>'}}
  func.func @produce(%x: tensor<?x?x16xf32> {pos.role = "input"})
      -> (tensor<?x?x16xf32> {pos.role = "rows"}) {
    return %x : tensor<?x?x16xf32>
  }
}
// expected-note @below {{in '@sized.produce' of the model}}
func.func private @sized.produce(tensor<?x?x32xf32>) -> tensor<?x?x32xf32>
  attributes {pos.use = #pos.use<@sized, "sized">, pos.extents = {}}

// -----

pos.encoding @batched {
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "rows"}) {
    // expected-error @below {{has no value in a function of a model: take the size of an argument (tensor.dim)}}
    %b = pos.extent batch
    %n = arith.index_cast %b : i32 to index
    %y = nn.reshape %x sizes(%n, %n, %n) : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
}
// expected-note @below {{in '@batched.produce' of the model}}
func.func private @batched.produce(tensor<?x?x32xf32>) -> tensor<?x?x32xf32>
  attributes {pos.use = #pos.use<@batched, "batched">, pos.extents = {heads = 4 : i32}}

// -----

pos.encoding @undecided {
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "rows"}) {
    %first = arith.constant 0 : index
    %one = arith.constant 1 : index
    %length = tensor.dim %x, %one : tensor<?x?x?xf32>
    // expected-error @below {{is decided by neither options nor extents of the model, of which functions are made}}
    %y = scf.for %i = %first to %length step %one iter_args(%z = %x) -> (tensor<?x?x?xf32>) {
      %next = nn.exp %z : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
      scf.yield %next : tensor<?x?x?xf32>
    }
    return %y : tensor<?x?x?xf32>
  }
}
// expected-note @below {{in '@undecided.produce' of the model}}
func.func private @undecided.produce(tensor<?x?x32xf32>) -> tensor<?x?x32xf32>
  attributes {pos.use = #pos.use<@undecided, "undecided">, pos.extents = {heads = 4 : i32}}

// -----

// Requirements may stand in functions, where the extents of a model are known.
pos.encoding @even {
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "rows"}) {
    %two = arith.constant 2 : i32
    %none = arith.constant 0 : i32
    %heads = pos.extent heads
    %odd = arith.remsi %heads, %two : i32
    // expected-error @below {{@produce: heads come in pairs: got 1, but must be at most 0}}
    pos.require %odd at_most %none, "heads come in pairs"
    return %x : tensor<?x?x?xf32>
  }
}
// expected-note @below {{in '@even.produce' of the model}}
func.func private @even.produce(tensor<?x?x32xf32>) -> tensor<?x?x32xf32>
  attributes {pos.use = #pos.use<@even, "even">, pos.extents = {heads = 3 : i32}}

// -----

pos.encoding @endless {
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "rows"}) {
    %first = arith.constant -9223372036854775808 : index
    %last = arith.constant 9223372036854775807 : index
    %one = arith.constant 1 : index
    // expected-error @below {{is decided by neither options nor extents of the model, of which functions are made}}
    %y = scf.for %i = %first to %last step %one iter_args(%z = %x) -> (tensor<?x?x?xf32>) {
      %next = nn.exp %z : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
      scf.yield %next : tensor<?x?x?xf32>
    }
    return %y : tensor<?x?x?xf32>
  }
}
// expected-note @below {{in '@endless.produce' of the model}}
func.func private @endless.produce(tensor<?x?x32xf32>) -> tensor<?x?x32xf32>
  attributes {pos.use = #pos.use<@endless, "endless">, pos.extents = {heads = 4 : i32}}

// -----

// A definition that was linked before has no functions: the cure is the order of passes.
// expected-note @below {{one that --pos-link-encodings has brought has no functions left: run --pos-specialize first}}
pos.encoding @forgetting {
  pos.score {
  ^bb0(%s: f32):
    pos.yield %s : f32
  }
}
// expected-error @below {{'@g.produce' is not '@g.' and a function of @forgetting}}
func.func private @g.produce(tensor<?x?x32xf32>, tensor<4x32xf32>, tensor<4xf32>) -> tensor<?x4x?xf32>
  attributes {pos.use = #pos.use<@forgetting, "g">, pos.extents = {heads = 4 : i32}}
