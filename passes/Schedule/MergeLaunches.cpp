//===- MergeLaunches.cpp - Launches that do not wait for each other -------===//
//
// Launches of one op that stand next to each other, with only sizes, checks and
// allocations in between, are put in order of their levels: a launch is one
// level after those whose tensors it reads or overwrites. Those of one level
// become one launch. A launch only ever moves down, so that what it needs
// stands before it, and checks still do.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Schedule/Memory.h"
#include "passes/Schedule/MergedKernel.h"
#include "passes/Schedule/Schedule.h"
#include "llvm/ADT/StringMap.h"

namespace sextant::passes {
#define GEN_PASS_DEF_MERGELAUNCHES
#include "passes/Schedule/Schedule.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

/// Launches that may change places: of one op, with nothing between them that
/// reads or writes tensors.
using Run = SmallVector<exec::LaunchOp>;

static SmallVector<Run> collectRuns(Block &block) {
  SmallVector<Run> runs(1);
  for (Operation &op : block) {
    if (auto launch = dyn_cast<exec::LaunchOp>(op)) {
      // A launch has one label in profiles.
      if (!runs.back().empty() &&
          runs.back().back().getLoc() != launch.getLoc())
        runs.emplace_back();
      runs.back().push_back(launch);
    } else if (!isMemoryEffectFree(&op) &&
               !isa<exec::AllocOp, exec::CheckOp>(op)) {
      runs.emplace_back();
    }
  }
  return runs;
}

/// The launches of a run by level, in their order.
static SmallVector<Run> sortByLevel(const Run &run) {
  struct Uses {
    size_t afterWrite = 0, afterRead = 0;
  };
  DenseMap<Value, Uses> uses;
  SmallVector<Run> levels;
  for (exec::LaunchOp launch : run) {
    size_t level = 0;
    for (Value tensor : launch.getReads())
      level = std::max(level, uses[getMemoryOwner(tensor)].afterWrite);
    for (Value tensor : launch.getWrites()) {
      const Uses &own = uses[getMemoryOwner(tensor)];
      level = std::max({level, own.afterWrite, own.afterRead});
    }
    for (Value tensor : launch.getReads()) {
      size_t &after = uses[getMemoryOwner(tensor)].afterRead;
      after = std::max(after, level + 1);
    }
    for (Value tensor : launch.getWrites())
      uses[getMemoryOwner(tensor)].afterWrite = level + 1;
    if (levels.size() <= level)
      levels.resize(level + 1);
    levels[level].push_back(launch);
  }
  return levels;
}

/// Moves the launches of a run so that each level follows the one before.
static void moveDown(ArrayRef<Run> levels) {
  Operation *last = nullptr;
  for (const Run &level : levels) {
    Operation *place = level.back();
    if (last && place->isBeforeInBlock(last))
      place = last;
    for (exec::LaunchOp launch : level) {
      if (launch != place)
        launch->moveAfter(place);
      place = launch;
    }
    last = place;
  }
}

//===----------------------------------------------------------------------===//
// Merged launches
//===----------------------------------------------------------------------===//

/// Appends a value unless it is there; gives its number.
static unsigned addUnique(SmallVector<Value> &values, Value value) {
  auto *found = llvm::find(values, value);
  unsigned number = found - values.begin();
  if (found == values.end())
    values.push_back(value);
  return number;
}

static unsigned countTensorWords(Value tensor) {
  return 1 + 2 * cast<RankedTensorType>(tensor.getType()).getRank();
}

namespace {
/// The operands of a merged launch, and where those of its parts are among
/// them.
class MergedOperands {
public:
  void add(exec::LaunchOp launch) {
    Numbers &own = parts.emplace_back();
    for (Value tensor : launch.getReads())
      own.reads.push_back(addUnique(reads, tensor));
    for (Value tensor : launch.getWrites())
      own.writes.push_back(addUnique(writes, tensor));
    for (Value scalar : launch.getScalars())
      own.scalars.push_back(addUnique(scalars, scalar));
  }
  unsigned countWords() const {
    unsigned words = scalars.size();
    for (const SmallVector<Value> *tensors : {&reads, &writes})
      for (Value tensor : *tensors)
        words += countTensorWords(tensor);
    return words;
  }
  /// For each word of a part's argument block the word of the whole one's.
  SmallVector<unsigned> getWords(size_t part) const;

  SmallVector<Value> reads, writes, scalars;

private:
  struct Numbers {
    SmallVector<unsigned> reads, writes, scalars;
  };
  SmallVector<Numbers> parts;
};
} // namespace

SmallVector<unsigned> MergedOperands::getWords(size_t part) const {
  SmallVector<unsigned> words;
  unsigned first = 0;
  auto addTensors = [&](ArrayRef<Value> tensors, ArrayRef<unsigned> numbers) {
    SmallVector<unsigned> firsts;
    for (Value tensor : tensors) {
      firsts.push_back(first);
      first += countTensorWords(tensor);
    }
    for (unsigned number : numbers)
      for (unsigned word = 0; word < countTensorWords(tensors[number]); ++word)
        words.push_back(firsts[number] + word);
  };
  addTensors(reads, parts[part].reads);
  addTensors(writes, parts[part].writes);
  for (unsigned number : parts[part].scalars)
    words.push_back(first + number);
  return words;
}

/// The part that begins the names of all: up to an underscore.
static StringRef getCommonPrefix(ArrayRef<StringRef> names) {
  StringRef prefix = names.front();
  for (StringRef name : names.drop_front())
    while (!name.starts_with(prefix))
      prefix = prefix.drop_back();
  return prefix.take_front(prefix.rfind('_') + 1);
}

namespace {
/// Merges launches of one module and makes their kernels, each once.
class MergeLaunches : public passes::impl::MergeLaunchesBase<MergeLaunches> {
public:
  using MergeLaunchesBase::MergeLaunchesBase;

  void runOnOperation() override;

private:
  /// The functions of a launch's kernel, if it may be a part of another.
  std::optional<KernelFunctions> find(exec::LaunchOp launch);
  void merge(const Run &level);
  void replace(ArrayRef<exec::LaunchOp> launches,
               ArrayRef<KernelFunctions> functions);
  /// The kernel of some parts, whose argument block has a number of words.
  std::string getKernel(ArrayRef<KernelPart> parts, unsigned words);
  void eraseUnused();

  ModuleOp kernels;
  llvm::StringMap<std::string> names; ///< of merged kernels, by their parts
  llvm::SetVector<StringAttr> replaced;
  unsigned merged = 0;
};
} // namespace

std::optional<KernelFunctions> MergeLaunches::find(exec::LaunchOp launch) {
  auto decline = [&](const Twine &reason) {
    remark::missed(
        launch.getLoc(),
        remark::RemarkOpts::name("not-merged").category(getArgument()))
        << remark::metric("Kernel",
                          launch.getKernel().getLeafReference().getValue())
        << remark::reason("{0}", reason.str());
    return std::nullopt;
  };
  if (launch.getFlops() || launch.getBytes())
    return decline("a profile shows its costs");
  llvm::Expected<KernelFunctions> found =
      findKernel(kernels, launch.getKernel().getLeafReference());
  if (!found)
    return decline(llvm::toString(found.takeError()));
  return *found;
}

std::string MergeLaunches::getKernel(ArrayRef<KernelPart> parts,
                                     unsigned words) {
  std::string key;
  llvm::raw_string_ostream text(key);
  SmallVector<StringRef> all;
  for (const KernelPart &part : parts) {
    KernelFunctions functions = part.functions;
    all.push_back(functions.run.getName());
    text << all.back() << '(';
    llvm::interleaveComma(part.words, text);
    text << ')';
  }
  std::string &name = names[key];
  if (!name.empty())
    return name;
  StringRef prefix = getCommonPrefix(all);
  name = prefix;
  for (auto [number, own] : llvm::enumerate(all))
    name += (number ? "_and_" : "") + own.drop_front(prefix.size()).str();
  // The same parts may share other operands elsewhere.
  std::string first = name;
  for (unsigned other = 1; kernels.lookupSymbol(name); ++other)
    name = first + "_" + std::to_string(other);
  createMergedKernel(name, parts, words);
  return name;
}

void MergeLaunches::replace(ArrayRef<exec::LaunchOp> launches,
                            ArrayRef<KernelFunctions> functions) {
  MergedOperands operands;
  for (exec::LaunchOp launch : launches)
    operands.add(launch);
  SmallVector<KernelPart> parts;
  for (auto [number, part] : llvm::enumerate(functions))
    parts.push_back({part, operands.getWords(number)});
  exec::LaunchOp last = launches.back();
  OpBuilder builder(last);
  auto kernel = SymbolRefAttr::get(
      last.getKernel().getRootReference(),
      FlatSymbolRefAttr::get(builder.getContext(),
                             getKernel(parts, operands.countWords())));
  exec::LaunchOp::create(builder, last.getLoc(), kernel, operands.reads,
                         operands.writes, operands.scalars, /*flops=*/Value(),
                         /*bytes=*/Value());
  for (exec::LaunchOp launch : llvm::to_vector(launches)) {
    replaced.insert(launch.getKernel().getLeafReference());
    launch.erase();
  }
  merged += launches.size() - 1;
}

void MergeLaunches::merge(const Run &level) {
  if (level.size() < 2)
    return;
  Run launches;
  SmallVector<KernelFunctions> functions;
  for (exec::LaunchOp launch : level)
    if (std::optional<KernelFunctions> found = find(launch)) {
      launches.push_back(launch);
      functions.push_back(*found);
    }
  if (launches.size() > 1)
    replace(launches, functions);
}

/// Drops the kernels that were parts, but for those that are launched alone
/// elsewhere.
void MergeLaunches::eraseUnused() {
  DenseSet<StringAttr> used;
  getOperation().walk([&](exec::LaunchOp launch) {
    used.insert(launch.getKernel().getLeafReference());
  });
  for (StringAttr name : replaced) {
    if (used.contains(name))
      continue;
    llvm::Expected<KernelFunctions> found = findKernel(kernels, name);
    assert(found && "a part was found before");
    for (LLVM::LLVMFuncOp function :
         {found->run, found->items, found->scratch, found->range})
      if (function)
        function.erase();
  }
}

void MergeLaunches::runOnOperation() {
  names.clear();
  replaced.clear();
  merged = 0;
  for (auto function : getOperation().getOps<func::FuncOp>()) {
    for (Block &block : function.getBody())
      for (const Run &run : collectRuns(block)) {
        if (run.size() < 2)
          continue;
        exec::LaunchOp first = run.front();
        kernels = getOperation().lookupSymbol<ModuleOp>(
            first.getKernel().getRootReference());
        if (!kernels)
          continue;
        SmallVector<Run> levels = sortByLevel(run);
        moveDown(levels);
        for (const Run &level : levels)
          merge(level);
      }
  }
  if (!replaced.empty())
    eraseUnused();
  remark::passed(getOperation().getLoc(),
                 remark::RemarkOpts::name("merged").category(getArgument()))
      << remark::metric("Launches", merged);
  numMerged += merged;
}
