//===- CPULowerings.cpp - The kernels of CPU targets ----------------------===//

#include "codegen/LowerAttention.h"

using namespace sextant::codegen;

TargetLowerings sextant::codegen::getCPULowerings() { return {}; }
