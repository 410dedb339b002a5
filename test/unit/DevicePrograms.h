//===- DevicePrograms.h - Programs that tests run on devices ----*- C++ -*-===//
//
// Tests of devices compile a model, run it on two devices and compare what
// comes out.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TEST_UNIT_DEVICEPROGRAMS_H
#define SEXTANT_TEST_UNIT_DEVICEPROGRAMS_H

#include "runtime/Executor.h"
#include "llvm/Support/Error.h"

namespace sextant::test {

/// An attention and its gradients under given positions, so that data is
/// checked, with a table that is trained: (q, positions, table, thresholds,
/// dlse) -> (o, dq, dk, dtable).
inline constexpr char attentionOfPositions[] = R"(
func.func @f(%q: tensor<?x?x?x8xf32>, %at: tensor<?x?x1xi32>, %table: tensor<32x?xf32>,
             %thresholds: tensor<?xf32>, %dlse: tensor<?x?x?xf32>)
    -> (tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<32x?xf32>) {
  %o, %l, %s = pos.attention %q, %q, (%q) uses [#pos.use<@causal, "causal">, #pos.use<@t5_bias, "t5">]
    params(%table, %thresholds : tensor<32x?xf32>, tensor<?xf32>)
    query_positions(%at : tensor<?x?x1xi32>) key_positions(%at : tensor<?x?x1xi32>)
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>)
    -> (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>, tensor<?x?x?x2xf32>
  %dq, %dk, %dv, %dt = pos.attention_backward %q, %q, (%q), (%o), %s, (%q), %dlse
    uses [#pos.use<@causal, "causal">, #pos.use<@t5_bias, "t5">]
    params(%table, %thresholds : tensor<32x?xf32>, tensor<?xf32>)
    query_positions(%at : tensor<?x?x1xi32>) key_positions(%at : tensor<?x?x1xi32>) gradients [0]
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>),
      (tensor<?x?x?x8xf32>), tensor<?x?x?x2xf32>, (tensor<?x?x?x8xf32>), tensor<?x?x?xf32>
    -> tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, (tensor<?x?x?x8xf32>), tensor<32x?xf32>
  return %o, %dq, %dk, %dt
    : tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<?x?x?x8xf32>, tensor<32x?xf32>
})";

/// The bytes of an artifact of a model, or what the compiler says against it.
llvm::Expected<std::string> tryCompile(const std::string &text,
                                       const std::string &target,
                                       bool compilesQuickly);

/// The bytes of an artifact of a model, for the last of the targets that this
/// machine runs. Failures of this and what follows are those of the test.
std::string compileForHost(const std::string &text);

/// The same for a target whose kernels draw random masks, as those of GPUs do.
std::string compileForDrawing(const std::string &text);

std::unique_ptr<runtime::Program> load(const std::string &bytes,
                                       const runtime::Device &device);

/// What a function gives on the device of its program. Inputs and results are
/// in memory of the host.
std::vector<runtime::Tensor> runOn(const runtime::Program &program,
                                   size_t function,
                                   std::span<const runtime::Tensor> inputs,
                                   runtime::Trace &trace);

/// Expects two contiguous tensors to have one shape and the same bits.
void expectSameBits(const runtime::Tensor &ours, const runtime::Tensor &theirs,
                    const std::string &name);

} // namespace sextant::test

#endif // SEXTANT_TEST_UNIT_DEVICEPROGRAMS_H
