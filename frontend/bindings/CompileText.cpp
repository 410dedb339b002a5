//===- CompileText.cpp - The compiler's one call, on text -----------------===//
//
// This file parses a module, runs the compiler on it and hands back text or
// bytes; diagnostics stay in the session.
//
//===----------------------------------------------------------------------===//

#include "frontend/bindings/CompileText.h"
#include "codegen/Artifact/Artifact.h"
#include "codegen/Driver/Compile.h"
#include "codegen/Driver/Machine.h"
#include "codegen/Driver/TargetChoice.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Encoding/ParseText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::bindings;

static std::optional<codegen::CompileStage> parseStage(StringRef name) {
  using Stage = codegen::CompileStage;
  return llvm::StringSwitch<std::optional<Stage>>(name)
      .Case("pos", Stage::Pos)
      .Case("exec", Stage::Exec)
      .Case("kernel", Stage::Kernel)
      .Case("llvm", Stage::LLVM)
      .Case("asm", Stage::Assembly)
      .Case("artifact", Stage::Artifact)
      .Default(std::nullopt);
}

std::optional<std::string>
bindings::compileText(Session &session, const CompileRequest &request) {
  std::optional<codegen::CompileStage> stage = parseStage(request.stage);
  if (!stage) {
    session.addError("unknown stage \"" + request.stage +
                     "\"; known are pos, exec, kernel, llvm, asm, artifact");
    return std::nullopt;
  }
  OwningOpRef<ModuleOp> module =
      passes::parseText(request.text, request.file, session.getContext());
  if (!module)
    return std::nullopt;
  codegen::CompileOptions options;
  options.target = request.target;
  options.searchPath = request.searchPath;
  llvm::Expected<std::string> result =
      *stage == codegen::CompileStage::Artifact
          ? codegen::compileToArtifact(*module, options)
          : codegen::compileToStage(*module, options, *stage);
  if (result)
    return std::move(*result);
  // The error repeats what a diagnostic has said already, if there is one.
  std::string message = llvm::toString(result.takeError());
  bool said =
      llvm::any_of(session.getDiagnostics(), [](const bindings::Diagnostic &d) {
        return d.severity == "error";
      });
  if (!said)
    session.addError(message);
  return std::nullopt;
}

std::vector<std::string> bindings::listTargets() {
  std::vector<std::string> names;
  for (StringRef name : codegen::getHostTargets())
    names.push_back(name.str());
  return names;
}

std::optional<int64_t> bindings::countLongRows(Session &session) {
  std::vector<std::string> names;
  for (codegen::RowType rows :
       {codegen::RowType::F32, codegen::RowType::LongF32}) {
    llvm::Expected<codegen::Target> target = codegen::chooseTarget(rows);
    if (!target) {
      session.addError(llvm::toString(target.takeError()));
      return std::nullopt;
    }
    names.push_back(target->name);
  }
  return names.front() == names.back() ? std::numeric_limits<int64_t>::max()
                                       : codegen::leastLongRows;
}

std::optional<bindings::TargetFacts>
bindings::describeTarget(Session &session, const std::string &name) {
  llvm::Expected<codegen::Target> target = codegen::parseTarget(name);
  if (!target) {
    session.addError(llvm::toString(target.takeError()));
    return std::nullopt;
  }
  TargetFacts facts{target->device.str(), {}};
  for (StringRef type : target->elementTypes)
    facts.elementTypes.push_back(type.str());
  return facts;
}

std::optional<bool> bindings::registerTarget(Session &session,
                                             const std::string &name,
                                             const std::string &like,
                                             int64_t width, int64_t registers) {
  if (width < 1 || registers < 1) {
    session.addError("expected at least one lane and one register, got " +
                     std::to_string(width) + " and " +
                     std::to_string(registers));
    return std::nullopt;
  }
  llvm::Expected<codegen::Target> target = codegen::findTarget(like);
  if (!target) {
    session.addError(llvm::toString(target.takeError()));
    return std::nullopt;
  }
  target->name = name;
  target->vector.width = width;
  target->vector.registers = registers;
  target->vector.scalef = nullptr;
  target->vector.bf16Dot = nullptr;
  target->f32Unit = target->bf16Unit = std::nullopt;
  if (llvm::Error error = codegen::registerTarget(*target)) {
    session.addError(llvm::toString(std::move(error)));
    return std::nullopt;
  }
  return true;
}

std::string bindings::getVersion() { return codegen::getCompilerVersion(); }

std::optional<double> bindings::measureFlops(Session &session,
                                             const std::string &unit,
                                             int64_t threads, int64_t calls) {
  if (threads < 1 || calls < 1) {
    session.addError("at least one thread and one call are needed");
    return std::nullopt;
  }
  std::string known;
  for (codegen::Unit each : codegen::allUnits) {
    if (unit == codegen::getName(each))
      return codegen::measureFlops(each, threads, static_cast<size_t>(calls));
    known += (known.empty() ? "'" : ", '") + std::string(getName(each)) + "'";
  }
  session.addError("unknown unit '" + unit + "', expected one of " + known);
  return std::nullopt;
}

std::optional<std::string> bindings::describeMachine(Session &session,
                                                     int64_t threads) {
  if (threads < 1) {
    session.addError("at least one thread is needed, got " +
                     std::to_string(threads));
    return std::nullopt;
  }
  llvm::Expected<codegen::Machine> machine = codegen::describeMachine(threads);
  if (machine)
    return codegen::formatJson(*machine);
  session.addError(llvm::toString(machine.takeError()));
  return std::nullopt;
}
