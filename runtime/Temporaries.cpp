//===- Temporaries.cpp - Tensors that launches alone use ------------------===//
//
// Found once, at load: a tensor is one until something other than a launch uses
// it or a view of it.
//
//===----------------------------------------------------------------------===//

#include "runtime/Temporaries.h"
#include <numeric>

using namespace sextant::runtime;

/// Calls `visit` with each tensor that an instruction shows to others than
/// launches.
template <typename Visit>
static void visitShown(const Instruction &instruction, Visit visit) {
  if (const auto *last = std::get_if<Return>(&instruction.body)) {
    for (uint32_t tensor : last->tensors)
      visit(tensor);
    return;
  }
  const auto *dense = std::get_if<Dense>(&instruction.body);
  if (!dense)
    return;
  for (const DenseArgument &argument : dense->arguments) {
    if (argument.kind == ArgumentKind::Tensor)
      visit(static_cast<uint32_t>(argument.number));
    if (argument.kind == ArgumentKind::Tensors)
      for (int64_t number : argument.numbers)
        visit(static_cast<uint32_t>(number));
  }
}

std::vector<bool> sextant::runtime::findTemporaries(const Function &function) {
  std::vector<bool> temporary(function.tensors.size());
  std::vector<uint32_t> origins(function.tensors.size()); // of views
  std::iota(origins.begin(), origins.end(), 0);
  for (const Instruction &instruction : function.instructions) {
    if (const auto *alloc = std::get_if<Alloc>(&instruction.body))
      temporary[alloc->result] = true;
    else if (const auto *view = std::get_if<View>(&instruction.body))
      origins[view->result] = origins[view->source];
    visitShown(instruction,
               [&](uint32_t tensor) { temporary[origins[tensor]] = false; });
  }
  return temporary;
}
