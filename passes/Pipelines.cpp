//===- Pipelines.cpp - Lists of passes ------------------------------------===//
//
// The order of the passes matters in the places that a comment names.
//
//===----------------------------------------------------------------------===//

#include "passes/Pipelines.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace sextant;

void passes::buildEncodingPipeline(OpPassManager &pm,
                                   const EncodingPipelineOptions &options) {
  // Functions of encodings become part of the functions that call them, so that
  // later passes see one block. What is not called stays as it is.
  SpecializeOptions specialize;
  specialize.searchPath = options.searchPath;
  pm.addPass(createSpecialize(specialize));
  pm.addPass(createInlinerPass(llvm::StringMap<OpPassManager>(),
                               [](OpPassManager &) {}));
  pm.addPass(createPlaceDropouts());
  LinkEncodingsOptions link;
  link.searchPath = options.searchPath;
  pm.addPass(createLinkEncodings(link));
  pm.addPass(createVerifyLinked());
  pm.addPass(createInlineEncodings());
  pm.addPass(createVerifyInlined());
  pm.addPass(createFuseSites());
  // Folds what depends on options, so that hoisting sees what is left.
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createVerifyFused());
  // Before hoisting: what is dropped needs no table of its own.
  pm.addPass(createDropRowConstants());
  // Before hoisting, which would share out what lanes hold.
  if (options.addends)
    pm.addPass(createFormAddends());
  // Before hoisting, which then finds what the arguments are made of.
  if (options.piecewiseLinear)
    pm.addPass(createFormPiecewiseLinear());
  pm.addPass(createHoist());
  if (options.hoistVectors)
    pm.addPass(createHoistVectors());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  // After what leaves the payloads: the rest of a factor is made once per call.
  if (options.offsetProducts)
    pm.addPass(createFormOffsetProducts());
  pm.addPass(createVerifyHoisted());
}

void passes::registerPipelines() {
  PassPipelineRegistration<EncodingPipelineOptions>(
      "sextant-encoding-pipeline",
      "Links, inlines, fuses and hoists the encodings of attentions",
      buildEncodingPipeline);
}
