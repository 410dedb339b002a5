//===- ProductOpInterface.h - Ops that multiply matrices --------*- C++ -*-===//
//
// This file declares the interface that TableGen generates from
// ProductOpInterface.td.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_DIALECTS_INTERFACES_PRODUCTOPINTERFACE_H
#define SEXTANT_DIALECTS_INTERFACES_PRODUCTOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include "dialects/Interfaces/ProductOpInterface.h.inc"

#endif // SEXTANT_DIALECTS_INTERFACES_PRODUCTOPINTERFACE_H
