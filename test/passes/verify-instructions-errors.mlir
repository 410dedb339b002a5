// RUN: sextant-opt %s --exec-verify-instructions --split-input-file --verify-diagnostics

func.func @after_release(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = exec.dense "aten::silu"(%x : tensor<8xf32>) arguments [#exec.tensor<0>] -> tensor<8xf32>
  // expected-note @+1 {{released here}}
  exec.release %a : tensor<8xf32>
  // expected-error @+1 {{uses a tensor after its release}}
  return %a : tensor<8xf32>
}

// -----

func.func @argument(%x: tensor<8xf32>) {
  // expected-error @+1 {{drops what the function has not made}}
  exec.release %x : tensor<8xf32>
  return
}

// -----

func.func @model_op(%x: tensor<8xf32>) {
  // expected-error @+1 {{'nn.silu' op is not an instruction of the exec level}}
  %0 = nn.silu %x : (tensor<8xf32>) -> tensor<8xf32>
  return
}
