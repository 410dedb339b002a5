//===- ProductOpInterface.cpp - Ops that multiply matrices ----------------===//
//
// This file holds the interface that TableGen generates.
//
//===----------------------------------------------------------------------===//

#include "dialects/Interfaces/ProductOpInterface.h"

using namespace mlir;
using namespace sextant;

#include "dialects/Interfaces/ProductOpInterface.cpp.inc"
