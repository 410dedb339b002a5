//===- StaticReport.cpp - What kernels take of a GPU, counted -------------===//

#include "tools/sextant-prof/StaticReport.h"
#include "runtime/Json.h"
#include "runtime/SharedObject.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

using namespace llvm;
using namespace sextant;
using namespace sextant::tools;
using runtime::JsonWriter;
using runtime::Result;

/// The products of a GPU's own generation by mma.sync: on an H200 what that is
/// said to reach there, not what wgmma does. The bytes of the second cache are
/// estimates.
static constexpr GpuRates gpus[] = {
    {"A100", 2048, 4, 64, 16, 128, 30},
    {"H200", 2600, 4, 128, 16, 128, 24},
};

static constexpr int64_t lanes = 32;
static constexpr StringRef f32Kinds[] = {"FFMA", "FADD",  "FMUL", "FMNMX",
                                         "FSEL", "FSETP", "FSET"};
static constexpr StringRef localKinds[] = {"LDL", "STL"};

/// Of "HMMA.16816.F32.BF16": a product of 16 x 8 x 16.
static int64_t countProductFlops(StringRef name) {
  if (getInstructionKind(name) != "HMMA")
    return 0;
  return 2 * 16 * 8 * (name.contains(".16816") ? 16 : 8);
}

/// Bytes that an instruction of a warp moves, of one lane in "LDG.E.128".
static int64_t countLaneBytes(StringRef name) {
  if (name.contains(".128"))
    return 16;
  return name.contains(".64") ? 8 : 4;
}

/// Of shared memory that an instruction of a warp reads or writes, without
/// conflicts.
static int64_t countSharedBytes(StringRef name) {
  StringRef kind = getInstructionKind(name);
  int64_t matrices = 0;
  if (kind == "LDSM" || kind == "STSM") // matrices of 8 x 8 of 16 bits
    return name.rsplit('.').second.getAsInteger(10, matrices)
               ? 0
               : lanes * 4 * matrices;
  bool isAccess = kind == "LDGSTS" || kind == "LDS" || kind == "STS";
  return isAccess ? lanes * countLaneBytes(name) : 0;
}

static int64_t countCopiedBytes(StringRef name) {
  return getInstructionKind(name) == "LDGSTS" ? lanes * countLaneBytes(name)
                                              : 0;
}

static double sum(const Instructions &loop, int64_t (*amount)(StringRef)) {
  int64_t total = 0;
  for (StringRef name : loop)
    total += amount(name);
  return static_cast<double>(total);
}

std::vector<UnitClocks> tools::getUnitClocks(const Instructions &loop,
                                             const GpuRates &gpu) {
  auto ofKinds = [&](ArrayRef<StringRef> kinds) {
    return static_cast<double>(countKinds(loop, kinds) * lanes);
  };
  std::vector<UnitClocks> units = {
      {"products", sum(loop, countProductFlops) / gpu.productFlops},
      {"issue", static_cast<double>(loop.size()) / gpu.issues},
      {"f32", ofKinds(f32Kinds) / gpu.f32Lanes},
      {"MUFU", ofKinds({"MUFU"}) / gpu.specialLanes},
      {"shared memory", sum(loop, countSharedBytes) / gpu.sharedBytes},
      {"second cache", sum(loop, countCopiedBytes) / gpu.secondCacheBytes},
  };
  llvm::sort(units, [](const UnitClocks &a, const UnitClocks &b) {
    return std::pair(b.clocks, StringRef(a.unit)) <
           std::pair(a.clocks, StringRef(b.unit));
  });
  return units;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// What the kernel says of itself by a function such as `k_scores`, in the code
/// of the host; 0 where it says nothing.
static int64_t getNumber(const runtime::SharedObject &host,
                         const runtime::KernelName &kernel, const char *name) {
  auto *number = reinterpret_cast<int64_t (*)(const void *)>(
      host.findIfAny(kernel.name + name));
  // It is a number of the kernel, not of its arguments.
  return number ? number(nullptr) : 0;
}

std::optional<uint32_t>
tools::findMachineCode(const runtime::Artifact &artifact,
                       const runtime::KernelName &kernel) {
  for (uint32_t object : kernel.deviceObjects)
    if (artifact.objects[object].kind == runtime::ObjectKind::Cubin)
      return object;
  return std::nullopt;
}

static std::vector<int64_t>
countInstructions(const std::vector<Instructions> &loops) {
  std::vector<int64_t> numbers;
  for (const Instructions &loop : loops)
    numbers.push_back(static_cast<int64_t>(loop.size()));
  return numbers;
}

Result<StaticRow> tools::makeStaticRow(const runtime::Artifact &artifact,
                                       const runtime::KernelName &kernel,
                                       const KernelListing &listing) {
  Result<runtime::SharedObject> host =
      runtime::SharedObject::load(artifact.objects[kernel.object].code);
  if (!host)
    return host.error();
  Instructions loop = findMainLoop(listing);
  int64_t numLoopLocal = countKinds(loop, localKinds);
  return StaticRow{kernel.name,
                   listing.registers,
                   getNumber(*host, kernel, "_shared"),
                   listing.count(localKinds),
                   numLoopLocal,
                   getNumber(*host, kernel, "_scores"),
                   std::move(loop),
                   countInstructions(findLoopsInside(listing))};
}

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

/// Numbers of instructions by kind, the most frequent first.
static std::vector<std::pair<StringRef, int64_t>>
countByKind(const Instructions &loop) {
  std::map<StringRef, int64_t> counts;
  for (StringRef name : loop)
    ++counts[getInstructionKind(name)];
  std::vector<std::pair<StringRef, int64_t>> sorted(counts.begin(),
                                                    counts.end());
  llvm::sort(sorted, [](const auto &a, const auto &b) {
    return std::pair(b.second, a.first) < std::pair(a.second, b.first);
  });
  return sorted;
}

static double getPerScore(const StaticRow &row, int64_t number) {
  return static_cast<double>(number) / static_cast<double>(row.numScores);
}

static void printRow(raw_ostream &os, const StaticRow &row) {
  os << row.kernel << ": " << row.registers << " registers, ";
  if (row.numLocal)
    os << row.numLocal << " accesses of local memory, " << row.numLoopLocal
       << " of them in the main loop";
  else
    os << "no local memory";
  if (row.cost)
    os << format("; %.0f ms of LLVM, %.0f ms of ptxas", row.cost->llvm,
                 row.cost->ptxas);
  os << '\n';
  if (row.loop.empty()) {
    os << "  no loop\n";
    return;
  }
  os << "  main loop: " << row.loop.size() << " instructions";
  if (row.numScores)
    os << " for " << row.numScores << " scores of a thread: "
       << format("%.2f per score; MUFU %.2f, LDS %.2f",
                 getPerScore(row, row.loop.size()),
                 getPerScore(row, countKinds(row.loop, {"MUFU"})),
                 getPerScore(row, countKinds(row.loop, {"LDS"})));
  os << "\n   ";
  for (const auto &[kind, number] : countByKind(row.loop))
    os << ' ' << kind << ' ' << number;
  os << '\n';
  for (const GpuRates &gpu : gpus) {
    std::vector<UnitClocks> units = getUnitClocks(row.loop, gpu);
    os << "  " << gpu.name << ": bound by " << units.front().unit
       << format(" (%.0f clocks a pass)", units.front().clocks);
    for (const UnitClocks &unit : drop_begin(units))
      if (unit.clocks > 0)
        os << ", " << unit.unit
           << format(" %.2f", unit.clocks / units.front().clocks);
    os << '\n';
  }
}

std::string tools::formatStaticTable(const std::vector<StaticRow> &rows) {
  std::string text;
  raw_string_ostream os(text);
  for (const StaticRow &row : rows)
    printRow(os, row);
  os << "\nCounted in machine code, not run. Of each GPU: the unit that the "
        "main loop keeps busy\nthe longest, by rates without latencies, and "
        "the others' share of its time.\n";
  return text;
}

std::string tools::formatStaticJson(const std::vector<StaticRow> &rows) {
  JsonWriter json;
  json.beginObject().key("kernels").beginArray();
  for (const StaticRow &row : rows) {
    json.beginObject()
        .entry("name", std::string_view(row.kernel))
        .entry("registers", row.registers)
        .entry("shared", row.sharedBytes)
        .entry("local", row.numLocal)
        .entry("loop_local", row.numLoopLocal)
        .entry("scores", row.numScores);
    if (row.cost)
      json.entry("llvm_ms", row.cost->llvm).entry("ptxas_ms", row.cost->ptxas);
    json.key("loop").beginObject();
    for (const auto &[kind, number] : countByKind(row.loop))
      json.entry(std::string_view(kind), number);
    json.endObject().key("inside").beginArray();
    for (int64_t number : row.inside)
      json.value(number);
    json.endArray().key("clocks").beginObject();
    for (const GpuRates &gpu : gpus) {
      json.key(gpu.name).beginObject();
      for (const UnitClocks &unit : getUnitClocks(row.loop, gpu))
        json.entry(unit.unit, unit.clocks);
      json.endObject();
    }
    json.endObject().endObject();
  }
  json.endArray().endObject();
  return json.text() + "\n";
}
