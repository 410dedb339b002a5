//===- Manifest.h - What an artifact says of itself -------------*- C++ -*-===//
//
// The manifest is what Python knows of a program: its functions with their
// arguments and results, its parameters with their initial values.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_MANIFEST_H
#define SEXTANT_RUNTIME_MANIFEST_H

#include "runtime/ArtifactReader.h"

namespace sextant::runtime {

/// JSON:
/// {"compiler": ..., "target": ..., "kernels": [names],
///  "objects": [{"kind", "architecture", "features"}],
///  "functions": [{"name", "arguments": [{"name", "dtype", "dims": [n or null],
///                 "dim_names": [name or null]}], "results": [{"name", "dtype",
///                 "dims"}]}],
///  "parameters": [{"name", "dtype", "dims", "init": "given" | "constant" |
///                  "normal" | "uniform", "init_numbers", "has_values",
///                  "frozen", "shared", "floor", "ceiling", "settings": {}}]}
/// Of the programs of a fat artifact `target` is "cpu:avx2,cuda:sm_80", and
/// kernels and objects are those of all; all else they share.
std::string formatManifest(std::span<const Artifact> artifacts);

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_MANIFEST_H
