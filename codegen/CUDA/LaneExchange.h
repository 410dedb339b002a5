//===- LaneExchange.h - What crosses the lanes of a warp --------*- C++ -*-===//

#ifndef SEXTANT_CODEGEN_CUDA_LANEEXCHANGE_H
#define SEXTANT_CODEGEN_CUDA_LANEEXCHANGE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"

namespace sextant::codegen {

/// Threads of a warp.
inline constexpr unsigned warpLanes = 32;

/// Writes what threads of a warp do together, in LLVM IR with the intrinsics of
/// NVVM: each thread stands for one lane. Vectors of fewer lanes than a warp
/// has are there several times: thread t holds lane t modulo their number.
class LaneExchange {
public:
  /// `start`: where numbers of lanes are made, which dominates all else.
  LaneExchange(llvm::IRBuilder<> &builder, llvm::Instruction *start);

  /// The thread's lane of a vector of so many.
  llvm::Value *getLane(unsigned lanes);

  /// Element `lane`, another for each thread, of a table.
  llvm::Value *lookUp(llvm::ArrayRef<llvm::Constant *> elements);
  llvm::Value *lookUp(llvm::ArrayRef<int32_t> elements);

  /// `value` as thread `source` holds it, which each thread chooses.
  llvm::Value *shuffle(llvm::Value *value, llvm::Value *source);

  /// Bit t: what thread t holds.
  llvm::Value *ballot(llvm::Value *condition);

  /// What threads stored before is what they load behind it.
  void synchronize();

private:
  llvm::Value *compute(llvm::ArrayRef<int32_t> elements);
  llvm::Value *call(llvm::Intrinsic::ID intrinsic,
                    llvm::ArrayRef<llvm::Value *> arguments);
  llvm::Value *shuffleWord(llvm::Value *word, llvm::Value *source);

  llvm::IRBuilder<> &builder;
  llvm::Instruction *start;
  llvm::Value *thread;
  llvm::DenseMap<unsigned, llvm::Value *> lanesOf;
};

} // namespace sextant::codegen

#endif // SEXTANT_CODEGEN_CUDA_LANEEXCHANGE_H
