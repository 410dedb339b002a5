//===- RaceCheck.h - Accesses that no barrier orders ------------*- C++ -*-===//

#ifndef SEXTANT_RUNTIME_EMULATOR_RACECHECK_H
#define SEXTANT_RUNTIME_EMULATOR_RACECHECK_H

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

namespace sextant::runtime::emulator {

/// Follows the accesses of the threads of one warp. Two of different threads to
/// the same byte are a race if one of them stores and no barrier stands between
/// them, in whichever order the emulator happened to run them.
class RaceCheck {
public:
  /// All threads have passed a barrier.
  void passBarrier() { ++epoch; }

  /// Notes an access; describes the race that it is part of, or gives nothing.
  std::string note(const void *address, int32_t bytes, bool isStore, int thread,
                   int32_t place);

private:
  /// What was done to a byte since the barrier `epoch`.
  struct Byte {
    uint64_t epoch = 0;
    int32_t storePlace = 0, loadPlace = 0;
    int8_t storer = -1; ///< thread, or none
    int8_t loader = -1; ///< the first thread that did, or none
    int8_t other = -1;  ///< another thread that loaded, or none
  };
  static constexpr uintptr_t kPage = 4096;
  using Page = std::array<Byte, kPage>;

  Byte &find(uintptr_t address);

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  uintptr_t lastNumber = 0;
  Page *lastPage = nullptr;
  uint64_t epoch = 1;
};

} // namespace sextant::runtime::emulator

#endif // SEXTANT_RUNTIME_EMULATOR_RACECHECK_H
