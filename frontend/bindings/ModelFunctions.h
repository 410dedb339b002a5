//===- ModelFunctions.h - What encodings do around attention ----*- C++ -*-===//
//
// A model builder asks here which functions of its encodings it has to call,
// and with what.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_FRONTEND_BINDINGS_MODELFUNCTIONS_H
#define SEXTANT_FRONTEND_BINDINGS_MODELFUNCTIONS_H

#include "frontend/bindings/Inspect.h"

namespace sextant::bindings {

/// An argument or a result of a function; of dims, -1 is dynamic.
struct TensorFacts {
  std::string role; ///< positions, input, attention, mlp, weighted or named
  std::string name;
  std::vector<int64_t> dims;
  std::string element;
};

/// A function that a model calls.
struct FunctionFacts {
  std::string instance;
  std::string name;        ///< produce, initial_state, ...
  std::string symbol;      ///< <instance>.<name>
  std::string declaration; ///< text, for `pos-specialize`
  std::vector<TensorFacts> arguments;
  std::vector<TensorFacts> results;
  bool draws = false; ///< it drops elements at random in a training
};

/// The functions of the uses, by use in the order in which a model needs them.
/// `tensors` has the dims of a model's tensors by role.
std::optional<std::vector<FunctionFacts>>
getFunctions(Session &session, const Source &source,
             const std::vector<std::string> &uses, const Extents &extents,
             const Shapes &tensors);

} // namespace sextant::bindings

#endif // SEXTANT_FRONTEND_BINDINGS_MODELFUNCTIONS_H
