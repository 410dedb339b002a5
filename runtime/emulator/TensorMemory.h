//===- TensorMemory.h - What kernels may access of tensors ------*- C++ -*-===//
//
// The loop over a program's instructions tells of fresh tensors and of the
// operands of each launch; kernels that run in the emulator are held to that.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_EMULATOR_TENSORMEMORY_H
#define SEXTANT_RUNTIME_EMULATOR_TENSORMEMORY_H

#include "runtime/Result.h"
#include "runtime/Tensor.h"
#include "runtime/emulator/WarpCalls.h"
#include "runtime/emulator/WrittenBytes.h"
#include <algorithm>
#include <array>
#include <map>
#include <mutex>

namespace sextant::runtime::emulator {

/// Tensors of one run of a program. All memory holds values but that of fresh
/// tensors, of which kernels store the bytes one by one. A kernel may load what
/// nobody has stored if nothing comes of it: scores that a mask hides are made
/// of that. So it is NaN, and an error if a result holds NaN.
class TensorMemory {
public:
  /// A tensor of undefined contents is allocated.
  void addFresh(const Tensor &tensor);
  /// All of a tensor is written, not by a kernel.
  void setWritten(const Tensor &tensor);

  /// The fresh tensor that an address lies in, if any: valid until the next
  /// one is added.
  WrittenBytes *find(uintptr_t address);
  /// Keeps the first of the loads of what nobody has stored, as a text.
  void addUnwritten(std::string load);

  /// The error of a result that holds what nobody has stored.
  Status checkResult(const std::string &name, const Tensor &tensor) const;

private:
  std::map<uintptr_t, WrittenBytes> fresh; ///< by the first address
  std::mutex mutex;                        ///< of `unwritten`
  std::string unwritten;
};

/// A tensor that a launch is given.
struct Operand {
  std::string name;
  bool isStored; ///< whether the launch may store to it
  uintptr_t begin = 0, end = 0;
  /// Of all operands of a launch: whether it may store to these bytes, by this
  /// name or another.
  bool changes = true;
  WrittenBytes *fresh = nullptr; ///< the fresh tensor that it is of

  Operand(std::string name, const Tensor &tensor, bool isStored);

  /// Whether all of an access lies here.
  bool contains(const Access &access) const {
    return access.begin() >= begin &&
           access.begin() + static_cast<uintptr_t>(access.bytes) <= end;
  }
};

/// Operands that a launch does not change, those that were loaded from last.
class RecentInputs {
public:
  void clear() { inputs.fill(nullptr); }
  void add(const Operand &input);
  /// Whether a load is of values of one of them, of which there is nothing to
  /// note; an answer in a few instructions, which may be false all the same.
  bool hold(const Access &load, bool checksMemory) const {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Operand *input) {
      return input && input->contains(load) &&
             (!checksMemory || !input->fresh || input->fresh->holds(load));
    });
  }

private:
  std::array<const Operand *, 4> inputs = {};
  unsigned oldest = 0; ///< makes room for the next one
};

/// The operands of one launch, while it runs. Work items of different blocks
/// are not ordered: they conflict as threads do.
class LaunchMemory {
public:
  /// `arguments`: the address of the argument block, by which the threads that
  /// run the launch find this.
  LaunchMemory(TensorMemory &tensors, const int64_t *arguments,
               std::vector<Operand> operands);
  LaunchMemory(const LaunchMemory &) = delete;
  LaunchMemory &operator=(const LaunchMemory &) = delete;
  ~LaunchMemory();

  /// That of a launch that runs; null if nobody asked for checks.
  static LaunchMemory *find(const int64_t *arguments);

  /// The operand that an access is to, if any.
  const Operand *findOperand(const Access &access) const;
  /// What is wrong with an access to an operand, or to none, that is not to
  /// memory of the block alone, which is `scratch` and `shared`; an empty text
  /// if nothing is.
  std::string checkBounds(const Access &access, const Operand *operand,
                          const WrittenBytes &scratch,
                          const WrittenBytes &shared) const;
  void noteWritten(const Access &access, const Operand &operand,
                   const ThreadCode &code);
  /// `firstItem` is that of the block.
  std::string checkRace(const Access &access, const Operand &operand,
                        int32_t firstItem, const ThreadCode &code);

private:
  TensorMemory &tensors;
  const int64_t *arguments;
  std::vector<Operand> operands;
  std::mutex mutex; ///< of `races`: threads of the host run items
  RaceCheck races;
};

/// "access 3 at model.mlir:4:5".
std::string describePlace(const ThreadCode &code, const char *what,
                          int32_t place);

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_TENSORMEMORY_H
