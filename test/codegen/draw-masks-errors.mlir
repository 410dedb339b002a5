// RUN: sextant-opt %s --verify-diagnostics --exec-draw-masks=target=cuda-emulated:sm_80 -o /dev/null

func.func @no_generator(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{expected a tensor, a constant probability, and a generator of seed, step and place}}
  %0 = exec.dense "aten::bernoulli.p"(%x : tensor<?x8xf32>) arguments [#exec.tensor<0>, 0.75] -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
