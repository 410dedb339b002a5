//===- DerivativeRules.cpp - The interface's generated definitions --------===//
//
// This file compiles what TableGen generates for DerivativeRuleInterface.
//
//===----------------------------------------------------------------------===//

#include "dialects/Interfaces/DerivativeRules.h"

#include "dialects/Interfaces/DerivativeRuleInterface.cpp.inc"
