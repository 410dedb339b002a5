//===- DerivativeRules.cpp - The interface's generated definitions --------===//

#include "dialects/Interfaces/DerivativeRules.h"

#include "dialects/Interfaces/DerivativeRuleInterface.cpp.inc"
