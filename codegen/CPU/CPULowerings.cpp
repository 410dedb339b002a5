//===- CPULowerings.cpp - The kernels of CPU targets ----------------------===//

#include "codegen/CPU/FlashForward.h"

using namespace sextant::codegen;

TargetLowerings sextant::codegen::getCPULowerings() {
  TargetLowerings lowerings;
  lowerings.attention = lowerFlashForward;
  return lowerings;
}
