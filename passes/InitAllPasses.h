//===- InitAllPasses.h - Every pass and pipeline of Sextant -----*- C++ -*-===//

#ifndef SEXTANT_PASSES_INITALLPASSES_H
#define SEXTANT_PASSES_INITALLPASSES_H

namespace sextant {

inline void registerAllPasses() {}

} // namespace sextant

#endif // SEXTANT_PASSES_INITALLPASSES_H
