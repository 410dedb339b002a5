//===- FarDevice.h - A device whose memory is out of reach ------*- C++ -*-===//
//
// A device for tests, made of one of the host: every address that it gives has
// a bit set which no address of a process has, so whoever reads or writes a
// tensor without the device ends by a signal. The device takes the bit off.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TEST_UNIT_FARDEVICE_H
#define SEXTANT_TEST_UNIT_FARDEVICE_H

#include "runtime/Device.h"

namespace sextant::test {

/// Must outlive the programs that are loaded on it.
class FarDevice {
public:
  /// On the memory and the threads of `near`, with its operators.
  explicit FarDevice(const runtime::Device &near);
  FarDevice(const FarDevice &) = delete;
  FarDevice &operator=(const FarDevice &) = delete;

  operator const runtime::Device &() const { return device; }

  /// Calls of the device's operations so far.
  struct Calls {
    int64_t copiesIn = 0, copiesOut = 0, fills = 0, launches = 0, dense = 0;
  };
  Calls calls;

private:
  struct Operations;

  const runtime::Device &near;
  runtime::Device device;
};

} // namespace sextant::test

#endif // SEXTANT_TEST_UNIT_FARDEVICE_H
