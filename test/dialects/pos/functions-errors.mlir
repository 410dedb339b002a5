// RUN: sextant-opt %s --split-input-file --verify-diagnostics

pos.encoding @model_function {
  // expected-error @below {{@model_function: @prepare: is neither one of the functions that a model calls nor a private helper (F1)}}
  // expected-note @below {{a model calls produce, initial_state, after_attention, after_mlp, auxiliary_loss}}
  func.func @prepare() {
    return
  }
}

// -----

pos.encoding @two_blocks {
  // expected-error @below {{@two_blocks: @produce: expected a body of one block (F1)}}
  func.func @produce() {
    cf.br ^bb1
  ^bb1:
    return
  }
}

// -----

pos.encoding @no_role {
  // expected-error @below {{@no_role: @produce: argument 0 has no role: give it 'pos.role' (F2)}}
  func.func @produce(%x: tensor<?xf32>) {
    return
  }
}

// -----

pos.encoding @no_name {
  // expected-error @below {{@no_name: @produce: result 0 has no name: give it 'pos.role' (F2)}}
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"}) -> tensor<?x?x?xf32> {
    return %x : tensor<?x?x?xf32>
  }
}

// -----

pos.encoding @helper_role {
  // expected-error @below {{@helper_role: @own: argument 0 has a role, but this is a helper (F2)}}
  func.func private @own(%x: tensor<?xf32> {pos.role = "input"}) {
    return
  }
}

// -----

pos.encoding @reserved {
  %n = arith.constant 4 : i32
  // expected-error @below {{name "input" is that of a role of the model's tensors}}
  %p = pos.param "input" : tensor<?xf32> dims(%n)
  func.func @produce() {
    return
  }
}

// -----

pos.encoding @lacks {
  // expected-error @below {{@lacks: @produce: argument 0 asks for 'mlp', which is not known there (F3)}}
  // expected-note @below {{known are positions, input, named}}
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "mlp"}) {
    return
  }
}

// -----

pos.encoding @unknown {
  // expected-error @below {{@unknown: @after_mlp: argument 0 asks for "count", which is no option, parameter or input of the encoding and no state or tensor that it makes (F3)}}
  func.func @after_mlp(%x: tensor<?x?x?xf32> {pos.role = "count"}) {
    return
  }
}

// -----

pos.encoding @weighted {
  // expected-error @below {{@weighted: @after_attention: argument 0 asks for "count", weighted, which is no state that @initial_state gives (F3)}}
  func.func @after_attention(%x: tensor<?x?x?x?xf32> {pos.weighted = "count"}) {
    return
  }
}

// -----

pos.encoding @rank {
  %n = arith.constant 4 : i32
  // expected-note @below {{declared here}}
  %p = pos.param "weight" : tensor<?x?xf32> dims(%n, %n)
  // expected-error @below {{@rank: @produce: argument 0 must be 'tensor<?x?xf32>', got 'tensor<?xf32>' (F3)}}
  func.func @produce(%x: tensor<?xf32> {pos.role = "weight"}) {
    return
  }
}

// -----

pos.encoding @trained {
  %n = arith.constant 4 : i32
  %zero = arith.constant 0.0 : f32
  // expected-note @below {{declared here}}
  %p = pos.param "weight" : tensor<?x?x?xf32> dims(%n, %n, %n) init constant(%zero)
  // expected-error @below {{@trained: @produce: result 0 cannot fill "weight", which is no parameter without initial value (F3)}}
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "weight"}) {
    return %x : tensor<?x?x?xf32>
  }
}

// -----

pos.encoding @no_state {
  // expected-error @below {{@no_state: @after_mlp: result 0 is "count", which is no state that @initial_state gives (F3)}}
  func.func @after_mlp(%x: tensor<?x?x?xf32> {pos.role = "mlp"})
      -> (tensor<?x?x?xf32> {pos.role = "count"}) {
    return %x : tensor<?x?x?xf32>
  }
}

// -----

pos.encoding @twice {
  func.func @initial_state(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "gate"}) {
    return %x : tensor<?x?x?xf32>
  }
  // expected-error @below {{@twice: @produce: result 0 fills "gate" a second time (F4)}}
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "gate"}) {
    return %x : tensor<?x?x?xf32>
  }
}

// -----

pos.encoding @loss {
  %n = arith.constant 4 : i32
  %p = pos.param "given" : tensor<?xf32> dims(%n)
  // expected-error @below {{@loss: @auxiliary_loss: gives 'tensor<?xf32>', but a loss is one tensor<f32>}}
  func.func @auxiliary_loss(%x: tensor<?xf32> {pos.role = "given"}) -> tensor<?xf32> {
    return %x : tensor<?xf32>
  }
}

// -----

pos.encoding @foreign {
  // expected-error @below {{@foreign: @produce: 'math.exp' may not stand in a function of an encoding (F5)}}
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "gate"}) {
    // expected-note @below {{it stands here}}
    %y = math.exp %x : tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
}

// -----

pos.encoding @no_helper {
  // expected-error @below {{@no_helper: @produce: calls @produce, which is no helper of the encoding (F5)}}
  func.func @produce() {
    func.call @produce() : () -> ()
    return
  }
}

// -----

pos.encoding @endless {
  func.func @produce() {
    func.call @again() : () -> ()
    return
  }
  // expected-error @below {{@endless: @again: calls @again, which calls itself (F5)}}
  func.func private @again() {
    func.call @again() : () -> ()
    return
  }
}

// -----

pos.encoding @no_derivative {
  // expected-error @below {{@no_derivative: @produce: 'nn.maximum' has no derivative (F6)}}
  func.func @produce(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "gate"}) {
    // expected-note @below {{it stands here}}
    %y = nn.maximum %x, %x : (tensor<?x?x?xf32>, tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
}

// -----

// Options that are handed on are those of the encoding.
pos.encoding @bad {
  %base = pos.option "base" : f32 = 100.0 : f32
  func.func @initial_state(%x: tensor<?x?x?xf32> {pos.role = "input"})
      -> (tensor<?x?x?xf32> {pos.role = "z"}) {
    // expected-error @below {{'pos.map_rows' op hands @speed on to @rope, which is no option of @bad}}
    %y = pos.map_rows %x of query uses [#pos.use<@rope, "rope", {base = @speed}>]
      : tensor<?x?x?xf32> -> tensor<?x?x?xf32>
    return %y : tensor<?x?x?xf32>
  }
}

// -----

// expected-error @below {{'pos.encoding' op hands @speed on to @rope, which is no option of @bad}}
pos.encoding @bad attributes {extends = #pos.use<@rope, "rope", {base = @speed}>} {
}

// -----

// expected-error @below {{extends @rope whose option 'base' is no number, name or option, but [1.000000e+00 : f32]}}
pos.encoding @list attributes {extends = #pos.use<@rope, "rope", {base = [1.0 : f32]}>} {
}

// -----

// expected-error @below {{'pos.encoding' op attribute 'extends' must be a #pos.use, got "rope"}}
pos.encoding @bad attributes {extends = "rope"} {
}

// -----

pos.encoding @optional {
  %n = pos.option "mlp" : i1 = true
  // expected-error @below {{@optional: @after_mlp: argument 1 asks for the option "attention", which the encoding lacks (F3)}}
  func.func @after_mlp(%used: i1 {pos.option = "mlp"}, %lacking: i1 {pos.option = "attention"}) {
    return
  }
}
