//===- TargetChoice.cpp - What `cpu` means on this machine ----------------===//

#include "codegen/Driver/TargetChoice.h"
#include "codegen/Host/UnitRecord.h"
#include "dialects/Nn/IR/Nn.h"
#include "dialects/Pos/IR/Pos.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// Whether every attention has many queries: the module says so, or its types.
static bool hasLongRows(ModuleOp module) {
  if (module->hasAttr(kLongRowsAttr))
    return true;
  bool hasAttention = false;
  auto isShort = [&](pos::SitesOwnerInterface owner) {
    if (!isa<pos::AttentionOp, pos::AttentionBackwardOp>(owner))
      return WalkResult::advance();
    hasAttention = true;
    auto query = cast<RankedTensorType>(owner->getOperand(0).getType());
    bool isLong =
        !query.isDynamicDim(2) && query.getDimSize(2) >= leastLongRows;
    return isLong ? WalkResult::advance() : WalkResult::interrupt();
  };
  return !module.walk(isShort).wasInterrupted() && hasAttention;
}

RowType codegen::getRowType(ModuleOp module) {
  auto isBF16 = [](Value operand) {
    return getElementTypeOrSelf(operand.getType()).isBF16();
  };
  // Asked before passes run, too, when a function may only say what it wants.
  auto asksForBF16 = [](func::FuncOp function) {
    auto products = function->getAttrOfType<TypeAttr>(nn::kProductsAttr);
    return products && products.getValue().isBF16();
  };
  if (llvm::any_of(module.getOps<func::FuncOp>(), asksForBF16))
    return RowType::BF16;
  bool hasBF16 = module
                     .walk([&](pos::SitesOwnerInterface owner) {
                       return llvm::any_of(owner->getOperands(), isBF16)
                                  ? WalkResult::interrupt()
                                  : WalkResult::advance();
                     })
                     .wasInterrupted();
  if (hasBF16)
    return RowType::BF16;
  return hasLongRows(module) ? RowType::LongF32 : RowType::F32;
}

llvm::Expected<Target> codegen::chooseTarget(const UnitRates &rates,
                                             RowType rows) {
  // Wide vectors have more registers, and dot products load half the bytes: a
  // target further down has to be faster than the noise of the measurement. Of
  // those on the same unit, the one that asks for less runs on more machines.
  constexpr double margin = 1.1;
  std::optional<Target> best;
  double rate = 0.0;
  for (StringRef name : getHostTargets()) { // best first
    llvm::Expected<Target> target = findTarget(name);
    if (!target)
      return target.takeError();
    std::optional<Unit> unit = target->getUnit(rows);
    if (!unit)
      continue;
    double other =
        rates[static_cast<size_t>(*unit)] * target->getShareOfUnit(rows);
    if (!best || unit == best->getUnit(rows) || other > margin * rate) {
      best = *target;
      rate = other;
    }
  }
  if (best)
    return *best;
  return llvm::createStringError(
      "this processor has neither AVX2 with FMA nor AVX-512: only the target "
      "'reference' runs here");
}

/// What SEXTANT_TARGET names, which this machine must run.
static llvm::Expected<Target> findChosen(StringRef name) {
  SmallVector<StringRef> known = getHostTargets();
  if (llvm::is_contained(known, name))
    return findTarget(name);
  llvm::Expected<Target> target = findTarget(name);
  bool exists = static_cast<bool>(target);
  if (!exists)
    llvm::consumeError(target.takeError());
  return llvm::createStringError(
      (exists ? "SEXTANT_TARGET: this processor does not run '"
              : "SEXTANT_TARGET: unknown target '") +
      name + "', expected one of " + llvm::join(known, ", "));
}

llvm::Expected<Target> codegen::chooseTarget(RowType rows) {
  std::optional<std::string> chosen =
      llvm::sys::Process::GetEnv("SEXTANT_TARGET");
  if (chosen && !chosen->empty() && *chosen != "cpu")
    return findChosen(*chosen);
  return chooseTarget(getUnitRates(), rows);
}

llvm::Expected<Target> codegen::parseTarget(StringRef name, RowType rows) {
  return name == "cpu" ? chooseTarget(rows) : findTarget(name);
}
