//===- InPlace.h - What a function changes ----------------------*- C++ -*-===//
//
// An optimizer changes parameters where they are. A function therefore knows
// which of its arguments change, and a call checks that this can do no harm;
// and it knows which constants it may not share with other calls.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_INPLACE_H
#define SEXTANT_RUNTIME_INPLACE_H

#include "runtime/Device.h"
#include <functional>

namespace sextant::runtime {

/// An argument that instructions change, itself or through a view, and the
/// first that does.
struct ChangedArgument {
  size_t argument;
  size_t instruction;
};

/// What a function changes.
struct Changes {
  std::vector<ChangedArgument> arguments; ///< in their order
  /// Per register: a constant that is changed, or whose memory the caller is
  /// given, and may change.
  std::vector<bool> constants;
};

/// Follows a function once. `getOperator` gives the operator of a dense
/// instruction.
Changes
findChanges(const Function &function,
            const std::function<const ResolvedOperator &(size_t instruction)>
                &getOperator);

/// Whether what is changed is contiguous and shares no memory with another
/// argument: operators that work in place go through memory, whatever the
/// strides. `describe` names an instruction.
Status checkChangedArguments(
    const Function &function, std::span<const ChangedArgument> changed,
    std::span<const Tensor> inputs,
    const std::function<std::string(size_t instruction)> &describe);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_INPLACE_H
