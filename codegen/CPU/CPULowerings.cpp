//===- CPULowerings.cpp - The kernels of CPU targets ----------------------===//

#include "codegen/CPU/CPULowerings.h"

using namespace sextant::codegen;

TargetLowerings sextant::codegen::getCPULowerings() {
  TargetLowerings lowerings;
  lowerings.attentionBackward = lowerAttentionBackward;
  return lowerings;
}
