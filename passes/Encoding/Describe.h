//===- Describe.h - What is known of encodings without a model --*- C++ -*-===//
//
// Lists the encodings within reach and says what parameters a list of uses
// takes: names, shapes, initial values. Needs no module and keeps its own
// context; types of this header are of the standard library, so that bindings
// can pass them on.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_ENCODING_DESCRIBE_H
#define SEXTANT_PASSES_ENCODING_DESCRIBE_H

#include "llvm/Support/Error.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant::passes {

struct OptionInfo {
  std::string name;
  std::string type; ///< "i32", "f32", "i1", or "choice"
  /// The default: a number, "true", "false" or the name of a choice.
  std::string defaultValue;
  std::vector<std::string> choices;
};

/// Where the initial values of a parameter come from.
enum class InitKind {
  Given,    ///< by the caller at every call
  Constant, ///< arguments: value
  Normal,   ///< arguments: mean, standard deviation
  Uniform,  ///< arguments: low, high
  Values,   ///< `values`, computed by the definition
};

struct ParamInfo {
  std::string name; ///< of a use: <instance>.<param>
  /// What each dimension is: an extent's or option's name, a number, or "*".
  std::vector<std::string> dims;
  std::vector<int64_t> sizes; ///< of a use: -1 where an extent is not given
  std::string type;           ///< of the elements: "f32" or "i32"
  bool frozen = false;
  std::optional<double> floor, ceiling;
  std::string scope; ///< "layer" or "model"
  InitKind init = InitKind::Given;
  std::vector<double> arguments; ///< of a use, where all extents are given
  std::vector<double> values;    ///< row-major; of a use, as above
};

struct EncodingInfo {
  std::string name, formula, paper, file;
  std::vector<OptionInfo> options;
  std::vector<ParamInfo> params;
  std::vector<std::string> places; ///< "score", "mask", "rows of query, key"
};

/// Extents of an attention, as far as they are known.
struct Extents {
  std::optional<int64_t> heads, kvHeads, headDim, valueDim, model, query, key,
      batch;
};

/// The encodings on a search path (see SearchPath). Errors carry the text of
/// diagnostics, one line each: `file:line:column: error: message`.
class Catalog {
public:
  explicit Catalog(std::string searchPath = "");
  ~Catalog();

  std::vector<std::string> list();
  llvm::Expected<EncodingInfo> describe(const std::string &encoding);

  /// Parameters of a list of uses, in the order of operands. `definitions` is
  /// the text of `pos.encoding` ops to look in first, `uses` the text of the
  /// attribute: `[#pos.use<@waves, "waves", {base = 5.0e5 : f32}>]`.
  llvm::Expected<std::vector<ParamInfo>>
  getParams(const std::string &definitions, const std::string &uses,
            const Extents &extents);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace sextant::passes

#endif // SEXTANT_PASSES_ENCODING_DESCRIBE_H
