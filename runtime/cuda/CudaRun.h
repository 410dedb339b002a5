//===- CudaRun.h - One run on a GPU -----------------------------*- C++ -*-===//

#ifndef SEXTANT_RUNTIME_CUDA_CUDARUN_H
#define SEXTANT_RUNTIME_CUDA_CUDARUN_H

#include "runtime/cuda/CudaDevice.h"

namespace sextant::runtime::cuda {

/// What a device keeps during one run: its context is current, and the stream
/// is that of the thread that began it.
struct CudaRun {
  CurrentContext current;
  Stream stream;
  bool captured; ///< by a CUDA graph, which allows no waiting
};

inline CudaDevice &getCuda(void *state) {
  return *static_cast<CudaDevice *>(state);
}

inline const CudaRun &getRun(void *session) {
  return *static_cast<const CudaRun *>(session);
}

/// Where SEXTANT_CHECK names `now`: waits for what is under way, so that its
/// error is that of the instruction.
Status waitIfAsked(const Driver &driver, const CudaRun &run);

} // namespace sextant::runtime::cuda

#endif // SEXTANT_RUNTIME_CUDA_CUDARUN_H
