//===- CPULowerings.h - The kernels of CPU targets --------------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CPU_CPULOWERINGS_H
#define SEXTANT_CODEGEN_CPU_CPULOWERINGS_H

#include "codegen/Emit/Lowering.h"

namespace sextant::codegen {

TargetLowerings getCPULowerings();

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CPU_CPULOWERINGS_H
