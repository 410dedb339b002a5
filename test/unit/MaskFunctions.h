//===- MaskFunctions.h - A mask as functions that a test calls --*- C++ -*-===//
//
// Tests compare what a mask says of a tile with what it says of each of the
// tile's points.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_TEST_UNIT_MASKFUNCTIONS_H
#define SEXTANT_TEST_UNIT_MASKFUNCTIONS_H

#include "ProgramRunner.h"

namespace sextant::test {

/// The mask at one pair, and its class over a tile (bit 0: certain, bit 1:
/// possible), of indices and of the bits of the values of rows.
struct MaskFunctions {
  std::unique_ptr<Program> program;
  int (*point)(int i, int j, int x, int y) = nullptr;
  int (*tile)(int i0, int i1, int j0, int j1, int x0, int x1, int y0,
              int y1) = nullptr;
};

/// Compiles a mask whose `body` computes %v of the indices %i and %j, their
/// offset %o, the constants %c0, %c2, %c3 and %one, and a value %x of the row
/// of the query and %y of that of the key, of `type` i32 or f32. Null functions
/// after an error.
MaskFunctions compileMask(const std::string &body,
                          const std::string &type = "i32");

} // namespace sextant::test

#endif // SEXTANT_TEST_UNIT_MASKFUNCTIONS_H
