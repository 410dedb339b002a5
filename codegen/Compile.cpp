//===- Compile.cpp - From a model to an artifact
//----------------------------===//

#include "codegen/Compile.h"
#include "codegen/Artifact.h"
#include "codegen/ObjectCode.h"
#include "dialects/Exec/IR/Exec.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

void codegen::registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  tensor::TensorDialect, exec::ExecDialect, pos::PosDialect>();
  registerCompileDialects(registry);
}

static std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  text += '\n';
  return text;
}

llvm::Expected<std::string>
codegen::compileToStage(ModuleOp module, const CompileOptions &options,
                        CompileStage stage) {
  llvm::Expected<Target> target = parseTarget(options.target);
  if (!target)
    return target.takeError();
  if (stage == CompileStage::Pos || stage == CompileStage::Exec)
    return print(module);

  auto kernels = module.lookupSymbol<ModuleOp>("kernels");
  if (stage == CompileStage::Kernel)
    return kernels ? print(kernels) : std::string();
  CompiledObject object;
  if (kernels) {
    CodeForm form = stage == CompileStage::LLVM       ? CodeForm::LLVM
                    : stage == CompileStage::Assembly ? CodeForm::Assembly
                                                      : CodeForm::SharedObject;
    llvm::Expected<std::string> code = compileKernels(kernels, *target, form);
    if (!code || stage != CompileStage::Artifact)
      return code;
    object.code = std::move(*code);
    for (StringRef feature : target->required)
      object.features.push_back(feature.str());
  } else if (stage != CompileStage::Artifact) {
    return std::string();
  }
  FailureOr<std::string> bytes = writeArtifact(module, object, target->name);
  if (failed(bytes))
    return llvm::createStringError("cannot write the artifact");
  return std::move(*bytes);
}

llvm::Expected<std::string>
codegen::compileToArtifact(ModuleOp module, const CompileOptions &options) {
  return compileToStage(module, options, CompileStage::Artifact);
}
