//===- Schema.h - What an ATen operator takes and gives ---------*- C++ -*-===//
//
// LibTorch's stable ABI calls operators by name with untyped words; whoever
// calls must know the schema. Schemas.inc lists the schemas of the operators
// that a program may call, in PyTorch's own notation; this file reads them.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_TORCH_SCHEMA_H
#define SEXTANT_RUNTIME_TORCH_SCHEMA_H

#include "runtime/Result.h"
#include <string_view>
#include <vector>

namespace sextant::runtime {

/// Types of arguments, as far as calls tell them apart.
enum class SchemaType {
  Tensor,
  Tensors,
  OptionalTensors, ///< a list, of which calls leave none out
  Int,
  Ints,
  Float,
  Bool,
  Bools,
  String,
  DType,
  MemoryFormat,
  Scalar,
  Generator,
  Device, ///< that of the program, for what calls make of nothing
  Other,  ///< layouts: only None is passed
};

/// An argument of an operator.
struct SchemaArgument {
  SchemaType type;
  bool optional;        ///< the type ends in "?"
  bool written = false; ///< the call changes it: "Tensor(a!)"
  bool shared = false;  ///< results may share its memory: "Tensor(a)"
  std::string name;
  std::optional<std::string> fallback; ///< the default, as text
};

/// What an operator takes and gives.
struct Schema {
  std::string name;     ///< "aten::add"
  std::string overload; ///< "Tensor"
  std::vector<SchemaArgument> arguments;
  bool givesList = false; ///< one result of type Tensor[]
  size_t results = 0;     ///< otherwise: number of tensors

  /// Whether an argument has the type.
  bool takes(SchemaType type) const;
};

/// Reads "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) ->
/// Tensor".
Result<Schema> parseSchema(std::string_view text);

/// The schema of an operator ("aten::add.Tensor"), or an error that says where
/// operators are listed.
Result<Schema> findSchema(const std::string &op);

/// All lines of Schemas.inc.
const std::vector<std::string> &getSchemaTexts();

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_TORCH_SCHEMA_H
