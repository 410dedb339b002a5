//===- Inspect.h - What encodings declare, as plain values ------*- C++ -*-===//
//
// These functions answer what the Python package asks about definitions.
// Failures leave diagnostics in the session.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_FRONTEND_BINDINGS_INSPECT_H
#define SEXTANT_FRONTEND_BINDINGS_INSPECT_H

#include "frontend/bindings/Session.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sextant::bindings {

/// Where definitions come from: text that comes first, and folders.
struct Source {
  std::string definitions; ///< text of `pos.encoding` ops
  std::string searchPath;  ///< folders, separated by colons
};

/// The value of an option; a choice is its name.
using OptionValue = std::variant<bool, int64_t, double, std::string>;

/// What Python knows of an option: its type, its default, and what it may be.
struct OptionFacts {
  std::string name;
  std::string type; ///< i32, f32 or i1
  OptionValue value;
  std::vector<std::string> choices;
  std::string range; ///< "at least 1 and at most 3", or empty
};

/// What Python knows of a parameter.
struct ParamFacts {
  std::string name;
  std::string element;           ///< f32 or i32
  std::vector<std::string> dims; ///< each as text: "heads", "2 * reach + 1"
  std::string init;              ///< "uniform(0, 2)", "formula", or empty
  bool trained = false;
  std::optional<double> floor;
  std::optional<double> ceiling;
  std::string scope;
  std::string filledBy; ///< a function that makes it in a model, or empty
  bool ofModel = false; ///< only functions see it, attention does not take it
  bool startsWithCall = false; ///< its init reads an extent of the call
};

/// As which use an encoding starts: `options` have values, or are `handedOn`,
/// which names an option of the encoding itself for each.
struct ExtendedFacts {
  std::string encoding;
  std::map<std::string, OptionValue> options;
  std::map<std::string, std::string> handedOn;
};

/// What Python knows of an encoding: the entry of `sextant.encodings()`.
struct EncodingFacts {
  std::string name;
  std::string formula;
  std::string paper;
  std::string file;
  std::string text; ///< as printed, without comments and locations
  std::vector<std::string> places;
  std::vector<std::string> functions; ///< "produce(input, weight) -> gate"
  std::vector<std::string> states;
  std::vector<std::string> inputs;
  std::vector<std::string> uses; ///< encodings that functions use
  std::optional<ExtendedFacts> extended;
  std::vector<OptionFacts> options;
  std::vector<ParamFacts> params;
};

/// What Python knows of an input that the training loop feeds.
struct InputFacts {
  std::string name;
  std::vector<int64_t> dims;
  std::vector<int64_t> range; ///< the least and the greatest value, or empty
};

/// Parameters of a list of uses, in the order of operands.
struct SignatureFacts {
  std::vector<ParamFacts> params;
  std::vector<ParamFacts> modelParams; ///< those that only functions see
  std::vector<std::string> filled;     ///< parameters that functions make
  std::vector<InputFacts> inputs;
  std::vector<std::string> operands; ///< whose rows are mapped
  bool turnsRows = false;            ///< some by matrices, before a kernel
  bool allHeads = false;             ///< a score site sees all heads
  bool requiresPast = false;         ///< needs a mask that hides later keys
  /// A dim of a parameter is computed with an extent of the call, rather than
  /// one itself.
  bool computesWithCall = false;
  /// Instances whose payloads compute with the number of their head or of all
  /// heads: they cannot be evaluated on a part of the heads.
  std::vector<std::string> countHeads;
};

/// How a parameter starts: `kind` is constant, normal, uniform, or values.
struct InitialFacts {
  std::string kind;
  std::vector<double> numbers;
  std::vector<int64_t> shape;
};

using Extents = std::map<std::string, int64_t>;
using Shapes = std::map<std::string, std::vector<int64_t>>;

/// Names of all definitions within reach, sorted.
std::vector<std::string> listEncodings(Session &session, const Source &source);

std::optional<EncodingFacts> describe(Session &session, const Source &source,
                                      const std::string &name);

/// `uses` are `#pos.use` attributes as text, here and below.
std::optional<SignatureFacts>
getSignature(Session &session, const Source &source,
             const std::vector<std::string> &uses);

/// How many axes of positions the uses read, 0 if none does.
std::optional<int64_t> countAxes(Session &session, const Source &source,
                                 const std::vector<std::string> &uses);

/// Shape of every parameter. An extent that is not given is an error.
std::optional<Shapes> getShapes(Session &session, const Source &source,
                                const std::vector<std::string> &uses,
                                const Extents &extents);

/// Initial values of the parameters with the public names `params`, in order.
std::optional<std::vector<InitialFacts>>
getInitialValues(Session &session, const Source &source,
                 const std::vector<std::string> &uses,
                 const std::vector<std::string> &params,
                 const Extents &extents);

} // namespace sextant::bindings

#endif // SEXTANT_FRONTEND_BINDINGS_INSPECT_H
