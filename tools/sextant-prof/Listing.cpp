//===- Listing.cpp - Machine code of a GPU as nvdisasm lists it -----------===//

#include "tools/sextant-prof/Listing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <optional>
#include <tuple>

using namespace llvm;
using namespace sextant;
using namespace sextant::tools;

StringRef tools::getInstructionKind(StringRef name) {
  return name.split('.').first;
}

int64_t tools::countKinds(const Instructions &instructions,
                          ArrayRef<StringRef> kinds) {
  return count_if(instructions, [&](StringRef name) {
    return is_contained(kinds, getInstructionKind(name));
  });
}

int64_t KernelListing::count(ArrayRef<StringRef> kinds) const {
  int64_t sum = 0;
  for (const BasicBlock &block : blocks)
    sum += countKinds(block.instructions, kinds);
  return sum;
}

//===----------------------------------------------------------------------===//
// Basic blocks
//===----------------------------------------------------------------------===//

namespace {
/// A line of a listing: "/*0470*/  @!P0 LDG.E R0, [R2] ;".
struct Line {
  StringRef guard, name, operands;
};

/// Reads one kernel.
class KernelReader {
public:
  KernelReader() { blocks.emplace_back(); }

  void addLabel(StringRef label) {
    begin(!isEnded);
    labels[label] = blocks.size() - 1;
    isEnded = false;
  }
  void add(const Line &line);
  std::vector<BasicBlock> finish();

private:
  /// Starts a block, which follows the one before where control `falls` into
  /// it.
  void begin(bool falls) {
    const BasicBlock &last = blocks.back();
    if (!last.instructions.empty() || !last.next.empty())
      blocks.emplace_back();
    if (falls && blocks.size() > 1)
      blocks[blocks.size() - 2].next.push_back(blocks.size() - 1);
  }

  std::vector<BasicBlock> blocks;
  StringMap<size_t> labels;
  std::vector<std::pair<size_t, std::string>> jumps;
  bool isEnded = true; ///< control does not fall into the next block
};
} // namespace

void KernelReader::add(const Line &line) {
  StringRef kind = getInstructionKind(line.name);
  if (kind == "NOP")
    return;
  if (!blocks.back().next.empty())
    begin(/*falls=*/false);
  // What never runs fills a slot all the same.
  blocks.back().instructions.push_back(line.guard == "@!PT" ? StringRef("IDLE")
                                                            : line.name);
  bool isAlways = (line.guard.empty() || line.guard == "@PT") &&
                  !line.name.contains(".DIV");
  isEnded = kind == "EXIT" && isAlways;
  auto [before, target] = line.operands.split("`(");
  // A call of a place in the kernel itself never returns: where threads of a
  // warp may leave a loop at different times, that is how they do.
  bool isJump = kind == "BRA" || (kind == "CALL" && target.starts_with(".L"));
  if (!isJump || target.empty())
    return;
  // A predicate among the operands.
  isAlways &= !before.contains('P');
  jumps.emplace_back(blocks.size() - 1, target.split(')').first.str());
  isEnded = isAlways;
  blocks.emplace_back();
  if (!isAlways)
    blocks[blocks.size() - 2].next.push_back(blocks.size() - 1);
}

std::vector<BasicBlock> KernelReader::finish() {
  for (const auto &[source, label] : jumps)
    if (auto target = labels.find(label); target != labels.end())
      blocks[source].next.push_back(target->second);
  return std::move(blocks);
}

/// Nothing for a line that is no instruction.
static std::optional<Line> parseLine(StringRef text) {
  text = text.trim();
  if (!text.consume_front("/*"))
    return std::nullopt;
  text = text.split("*/").second.ltrim().split(';').first;
  Line line;
  if (text.starts_with("@")) {
    std::tie(line.guard, text) = text.split(' ');
    text = text.ltrim();
  }
  std::tie(line.name, line.operands) = text.rtrim().split(' ');
  if (line.name.empty() || !isUpper(line.name.front()))
    return std::nullopt;
  return line;
}

/// One more than the highest register among operands: "[R12.64+0x10], R4".
static int64_t countRegisters(StringRef operands) {
  int64_t count = 0;
  for (size_t at = operands.find('R'); at != StringRef::npos;
       at = operands.find('R', at + 1)) {
    int64_t number = 0;
    bool isName = at == 0 || !isAlnum(operands[at - 1]);
    StringRef digits = operands.drop_front(at + 1).take_while(isDigit);
    if (isName && !digits.getAsInteger(10, number))
      count = std::max(count, number + 1);
  }
  return count;
}

std::vector<KernelListing> tools::parseListing(StringRef text) {
  std::vector<KernelListing> kernels;
  std::optional<KernelReader> reader;
  auto finish = [&] {
    if (reader)
      kernels.back().blocks = reader->finish();
    reader.reset();
  };
  while (!text.empty()) {
    StringRef line;
    std::tie(line, text) = text.split('\n');
    StringRef section = line.ltrim();
    if (section.consume_front(".section\t")) {
      finish();
      section = section.ltrim();
      if (!section.consume_front(".text."))
        continue;
      kernels.push_back({section.split(',').first.str(), 0, {}});
      reader.emplace();
    } else if (!reader) {
      continue;
    } else if (line.starts_with(".L")) {
      reader->addLabel(line.split(':').first);
    } else if (std::optional<Line> instruction = parseLine(line)) {
      reader->add(*instruction);
      kernels.back().registers = std::max(
          kernels.back().registers, countRegisters(instruction->operands));
    }
  }
  finish();
  return kernels;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

namespace {
/// What of a path counts first, second, third and fourth.
using Rank = std::tuple<int64_t, int64_t, int64_t, int64_t>;

/// A branch back, from block `end` to `start`.
struct Loop {
  size_t start, end;
  bool contains(const Loop &other) const {
    return start <= other.start && other.end <= end &&
           (start != other.start || end != other.end);
  }
};

/// Finds the best pass of a loop.
class PathSearch {
public:
  PathSearch(const KernelListing &listing)
      : listing(listing),
        work(listing.count({"HMMA"})
                 ? std::vector<StringRef>{"HMMA"}
                 : std::vector<StringRef>{"FFMA", "FMUL", "FADD", "DFMA"}) {}

  int64_t countWork(const Instructions &path) const {
    return countKinds(path, work);
  }
  /// From the start to the end of a loop, through the body of a loop inside
  /// once; nothing if there is no such path.
  std::optional<Instructions> find(const Loop &loop) const;

private:
  struct Path {
    Instructions instructions;
    int64_t loops = 0; ///< whose bodies stand in it
  };
  using Paths = std::map<size_t, std::optional<Path>>;

  Rank getRank(const Path &path) const {
    return {countWork(path.instructions),
            countKinds(path.instructions, {"LDGSTS"}),
            -path.loops - countKinds(path.instructions, {"CALL"}),
            -static_cast<int64_t>(path.instructions.size())};
  }
  std::optional<Path> append(size_t block, const Paths &best) const;

  const KernelListing &listing;
  std::vector<StringRef> work;
};
} // namespace

/// The block and the best of the paths behind it.
std::optional<PathSearch::Path> PathSearch::append(size_t block,
                                                   const Paths &best) const {
  const Path *found = nullptr;
  for (size_t next : listing.blocks[block].next)
    if (auto behind = best.find(next); behind != best.end() && behind->second)
      if (!found || getRank(*found) < getRank(*behind->second))
        found = &*behind->second;
  if (!found)
    return std::nullopt;
  Path path{listing.blocks[block].instructions, found->loops};
  append_range(path.instructions, found->instructions);
  return path;
}

std::optional<Instructions> PathSearch::find(const Loop &loop) const {
  Paths best;
  best[loop.end] = Path{listing.blocks[loop.end].instructions};
  // Depth first: what is behind a block is known before the block is, but for
  // blocks that it is reached from.
  struct Visit {
    size_t block, numNext;
  };
  std::vector<Visit> stack{{loop.start, 0}};
  std::vector<bool> isEntered(listing.blocks.size()),
      endLoops(listing.blocks.size());
  isEntered[loop.start] = true;
  while (!stack.empty()) {
    auto &[block, numNext] = stack.back();
    const std::vector<size_t> &next = listing.blocks[block].next;
    if (block != loop.end && numNext < next.size()) {
      size_t following = next[numNext++];
      if (best.contains(following))
        continue;
      if (isEntered[following]) {
        endLoops[block] = true; // what it is reached from
        continue;
      }
      isEntered[following] = true;
      stack.push_back({following, 0});
      continue;
    }
    size_t done = block;
    stack.pop_back();
    if (best.contains(done))
      continue;
    best[done] = append(done, best);
    if (best[done])
      best[done]->loops += endLoops[done];
  }
  std::optional<Path> &found = best[loop.start];
  return found ? std::optional(std::move(found->instructions)) : std::nullopt;
}

static std::vector<Loop> findLoops(const KernelListing &listing) {
  std::vector<Loop> loops;
  for (auto [end, block] : enumerate(listing.blocks))
    for (size_t start : block.next)
      if (start <= end)
        loops.push_back({start, end});
  return loops;
}

std::vector<Instructions> tools::findLoopsInside(const KernelListing &listing) {
  std::vector<Loop> loops = findLoops(listing), around, others;
  PathSearch search(listing);
  std::vector<Instructions> found;
  for (const Loop &loop : loops) {
    std::optional<Instructions> path = search.find(loop);
    bool multiplies = path && countKinds(*path, {"HMMA"}) > 0;
    (multiplies ? around : others).push_back(loop);
  }
  for (const Loop &loop : others)
    if (any_of(around, [&](const Loop &of) { return of.contains(loop); }))
      if (std::optional<Instructions> path = search.find(loop))
        found.push_back(std::move(*path));
  return found;
}

Instructions tools::findMainLoop(const KernelListing &listing) {
  std::vector<Loop> loops = findLoops(listing);
  PathSearch search(listing);
  bool hasProducts = listing.count({"HMMA"}) > 0;
  SmallVector<std::optional<Instructions>> paths;
  for (const Loop &loop : loops)
    paths.push_back(search.find(loop));
  // A loop around others has their arithmetic and more. One with products may
  // be around a loop without any, in which a payload stands.
  auto hasOtherInside = [&](const Loop &loop) {
    return any_of(zip_equal(loops, paths), [&](const auto &pair) {
      const auto &[other, path] = pair;
      return loop.contains(other) &&
             (!hasProducts || (path && search.countWork(*path) > 0));
    });
  };
  std::optional<Instructions> found;
  std::pair<int64_t, int64_t> most;
  for (auto [loop, path] : zip_equal(loops, paths)) {
    if (!path || hasOtherInside(loop))
      continue;
    std::pair<int64_t, int64_t> rank{search.countWork(*path),
                                     -static_cast<int64_t>(path->size())};
    if (!found || most < rank)
      std::tie(found, most) = std::tuple(path, rank);
  }
  return found.value_or(Instructions());
}
