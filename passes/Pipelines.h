//===- Pipelines.h - Lists of passes ----------------------------*- C++ -*-===//
//
// The encoding pipeline runs all passes that lead from uses of encodings to
// fused and hoisted sites.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_PASSES_PIPELINES_H
#define SEXTANT_PASSES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace sextant::passes {

/// Options of the encoding pipeline; those of forms are off for targets that do
/// not know them.
struct EncodingPipelineOptions
    : public mlir::PassPipelineOptions<EncodingPipelineOptions> {
  Option<std::string> searchPath{
      *this, "search-path",
      llvm::cl::desc("Folders of encodings, separated by colons")};
  Option<bool> hoistVectors{
      *this, "hoist-vectors",
      llvm::cl::desc("Make vectors of the offset once per call"),
      llvm::cl::init(true)};
  Option<bool> addends{
      *this, "addends",
      llvm::cl::desc("Make lanes that hold no part of a row an addend of a "
                     "shorter product"),
      llvm::cl::init(false)};
  Option<bool> piecewiseLinear{
      *this, "piecewise-linear",
      llvm::cl::desc("Rewrite sums of rectified units as piecewise-linear "
                     "functions, for kernels that know them"),
      llvm::cl::init(false)};
  Option<bool> offsetProducts{
      *this, "offset-products",
      llvm::cl::desc("Rewrite products with factors of the offset as products "
                     "with one row per offset, for kernels that know them"),
      llvm::cl::init(false)};
};

/// From uses of encodings to fused sites with hoisted subexpressions.
void buildEncodingPipeline(mlir::OpPassManager &pm,
                           const EncodingPipelineOptions &options);

void registerPipelines();

} // namespace sextant::passes

#endif // SEXTANT_PASSES_PIPELINES_H
