//===- PosEnums.h - Enums of the pos dialect --------------------*- C++ -*-===//
//
// This file includes the generated enums of the pos dialect for headers that
// need nothing else of it.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_POS_IR_POSENUMS_H
#define SEXTANT_DIALECTS_POS_IR_POSENUMS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"

#include "dialects/Pos/IR/PosEnums.h.inc"

#endif // SEXTANT_DIALECTS_POS_IR_POSENUMS_H
