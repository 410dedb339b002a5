//===- TensorMemory.cpp - What kernels may access of tensors --------------===//

#include "runtime/emulator/TensorMemory.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace sextant::runtime;
using namespace sextant::runtime::emulator;

static std::pair<uintptr_t, uintptr_t> getRange(const Tensor &tensor) {
  Reach reach = getReach(tensor);
  auto at = [&](int64_t element) {
    return reinterpret_cast<uintptr_t>(tensor.data) +
           static_cast<uintptr_t>(element * getByteSize(tensor.dtype));
  };
  return {at(reach.low), at(reach.high)};
}

//===----------------------------------------------------------------------===//
// Of a run
//===----------------------------------------------------------------------===//

void TensorMemory::addFresh(const Tensor &tensor) {
  // The memory may be that of tensors which are gone.
  auto [begin, end] = getRange(tensor);
  std::erase_if(fresh, [&](const auto &entry) {
    return entry.second.begin() < end && begin < entry.second.end();
  });
  if (begin == end)
    return;
  std::memset(reinterpret_cast<void *>(begin), 0xff, end - begin);
  fresh[begin] = WrittenBytes(tensor.data, static_cast<int64_t>(end - begin));
}

void TensorMemory::setWritten(const Tensor &tensor) {
  auto [begin, end] = getRange(tensor);
  for (auto &[address, bytes] : fresh) {
    uintptr_t from = std::max(begin, bytes.begin());
    uintptr_t to = std::min(end, bytes.end());
    for (; from < to; ++from)
      (void)bytes.note(
          {reinterpret_cast<const void *>(from), 1, AccessKind::Store, 0});
  }
}

WrittenBytes *TensorMemory::find(uintptr_t address) {
  auto next = fresh.upper_bound(address);
  if (next == fresh.begin())
    return nullptr;
  WrittenBytes &bytes = std::prev(next)->second;
  return address < bytes.end() ? &bytes : nullptr;
}

void TensorMemory::addUnwritten(std::string load) {
  std::lock_guard<std::mutex> lock(mutex);
  if (unwritten.empty())
    unwritten = std::move(load);
}

/// Whether an element of contiguous memory is NaN.
static bool holdsNaN(const Tensor &tensor) {
  auto any = [&](auto first, auto isNaN) {
    return std::any_of(first, first + tensor.elements(), isNaN);
  };
  switch (tensor.dtype) {
  case DType::F32:
    return any(static_cast<const float *>(tensor.data),
               [](float value) { return std::isnan(value); });
  case DType::F64:
    return any(static_cast<const double *>(tensor.data),
               [](double value) { return std::isnan(value); });
  case DType::BF16:
    return any(static_cast<const uint16_t *>(tensor.data),
               [](uint16_t bits) { return (bits & 0x7fff) > 0x7f80; });
  case DType::F16:
    return any(static_cast<const uint16_t *>(tensor.data),
               [](uint16_t bits) { return (bits & 0x7fff) > 0x7c00; });
  default:
    return false;
  }
}

Status TensorMemory::checkResult(const std::string &name,
                                 const Tensor &tensor) const {
  if (unwritten.empty() || !tensor.isContiguous() || !holdsNaN(tensor))
    return {};
  return makeError("the result '", name, "' holds NaN, and ", unwritten);
}

//===----------------------------------------------------------------------===//
// Of a launch
//===----------------------------------------------------------------------===//

Operand::Operand(std::string name, const Tensor &tensor, bool isStored)
    : name(std::move(name)), isStored(isStored) {
  std::tie(begin, end) = getRange(tensor);
}

void RecentInputs::add(const Operand &input) {
  if (std::find(inputs.begin(), inputs.end(), &input) == inputs.end())
    inputs[oldest++ % inputs.size()] = &input;
}

static std::mutex launchesMutex;
static std::unordered_map<const int64_t *, LaunchMemory *> launches;

LaunchMemory::LaunchMemory(TensorMemory &tensors, const int64_t *arguments,
                           std::vector<Operand> operands)
    : tensors(tensors), arguments(arguments), operands(std::move(operands)) {
  races.begin(1);
  for (Operand &operand : this->operands) {
    // Operands are tensors, or parts of one.
    operand.fresh = tensors.find(operand.begin);
    operand.changes = std::any_of(this->operands.begin(), this->operands.end(),
                                  [&](const Operand &other) {
                                    return other.isStored &&
                                           other.begin < operand.end &&
                                           operand.begin < other.end;
                                  });
  }
  std::lock_guard<std::mutex> lock(launchesMutex);
  launches[arguments] = this;
}

LaunchMemory::~LaunchMemory() {
  std::lock_guard<std::mutex> lock(launchesMutex);
  launches.erase(arguments);
}

LaunchMemory *LaunchMemory::find(const int64_t *arguments) {
  std::lock_guard<std::mutex> lock(launchesMutex);
  auto found = launches.find(arguments);
  return found == launches.end() ? nullptr : found->second;
}

const Operand *LaunchMemory::findOperand(const Access &access) const {
  const Operand *found = nullptr;
  for (const Operand &operand : operands)
    if (operand.contains(access) && (!found || operand.isStored))
      found = &operand; // the same tensor may be given twice
  return found;
}

static std::string describeVerb(const Access &access) {
  return std::string(describeNow(access.kind)) + " " +
         std::to_string(access.bytes) + " bytes ";
}

std::string LaunchMemory::checkBounds(const Access &access,
                                      const Operand *operand,
                                      const WrittenBytes &scratch,
                                      const WrittenBytes &shared) const {
  if (operand) {
    if (!access.isLoad() && !operand->isStored)
      return describeVerb(access) + "in " + operand->name +
             ", which the launch only reads";
    return {};
  }
  // The nearest one is the most likely to be meant.
  std::string nearest;
  uintptr_t least = UINTPTR_MAX;
  auto consider = [&](const std::string &name, uintptr_t begin, uintptr_t end) {
    uintptr_t first = access.begin();
    uintptr_t behind = first + static_cast<uintptr_t>(access.bytes);
    uintptr_t before = first < begin ? begin - first : 0;
    uintptr_t after = behind > end ? behind - end : 0;
    if (std::max(before, after) >= least)
      return;
    least = std::max(before, after);
    nearest = before > after
                  ? "from " + std::to_string(before) + " bytes before " + name
                  : "up to " + std::to_string(after) +
                        " bytes past the end of " + name;
  };
  for (const Operand &operand : operands)
    consider(operand.name, operand.begin, operand.end);
  consider("its scratch memory", scratch.begin(), scratch.end());
  if (shared.begin() != shared.end())
    consider("the shared memory of its block", shared.begin(), shared.end());
  return describeVerb(access) + nearest;
}

void LaunchMemory::noteWritten(const Access &access, const Operand &operand,
                               const ThreadCode &code) {
  if (!operand.fresh || operand.fresh->note(access))
    return;
  tensors.addUnwritten("kernel '" + std::string(code.kernel) + "' " +
                       describeVerb(access) + "of " + operand.name +
                       " that nobody has written (" +
                       describePlace(code, "access", access.place) + ")");
}

std::string LaunchMemory::checkRace(const Access &access,
                                    const Operand &operand, int32_t firstItem,
                                    const ThreadCode &code) {
  std::lock_guard<std::mutex> lock(mutex);
  std::optional<Race> race = races.note(access, firstItem);
  if (!race)
    return {};
  return describeVerb(access) + "of " + operand.name +
         " in the block from work item " + std::to_string(firstItem) +
         " on, which that from item " + std::to_string(race->thread) +
         " on of the same launch " + describeBefore(race->kind) + " (" +
         describePlace(code, "access", race->place) +
         "): items of different blocks are not ordered";
}

std::string sextant::runtime::emulator::describePlace(const ThreadCode &code,
                                                      const char *what,
                                                      int32_t place) {
  std::string text = what + (" " + std::to_string(place));
  bool isKnown = place >= 0 && place < code.places && *code.sources[place];
  return isKnown ? text + " at " + code.sources[place] : text;
}
