//===- EmulatedWarps.cpp - Kernels for warps, made for the emulator -------===//
//
// The code is that of a GPU up to its intrinsics, which become calls through a
// pointer that the loader sets. So the kernels are an ordinary shared object.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/EmulatedWarps.h"
#include "codegen/CUDA/ThreadFunctions.h"
#include "codegen/CUDA/WarpLanes.h"
#include "runtime/emulator/WarpCalls.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;
using namespace sextant::codegen;
namespace emulator = sextant::runtime::emulator;

namespace {
/// Members of WarpCalls, in order.
enum class Member : unsigned {
  Run,
  GetThread,
  Shuffle,
  Ballot,
  Synchronize,
  Access
};
static_assert(sizeof(emulator::WarpCalls) ==
              (static_cast<size_t>(Member::Access) + 1) * sizeof(void *));

/// Writes calls of the emulator.
class Emulation {
public:
  explicit Emulation(Module &module)
      : builder(module.getContext()),
        table(new GlobalVariable(module, builder.getPtrTy(),
                                 /*isConstant=*/false,
                                 GlobalValue::ExternalLinkage,
                                 ConstantPointerNull::get(builder.getPtrTy()),
                                 emulator::warpCallsSymbol)) {}

  /// Replaces what the threads of a function do together.
  void replaceIntrinsics(Function &function);
  /// Tells of each access of a thread to memory that others see.
  void noteAccesses(Function &function);
  /// Replaces the call of a function of threads by a run of a warp.
  void runInWarp(CallInst &call);

private:
  Value *callMember(Member member, Type *result, ArrayRef<Value *> arguments);
  Value *replace(IntrinsicInst &intrinsic, int32_t place);

  IRBuilder<> builder;
  GlobalVariable *table;
};
} // namespace

Value *Emulation::callMember(Member member, Type *result,
                             ArrayRef<Value *> arguments) {
  Value *calls = builder.CreateLoad(builder.getPtrTy(), table);
  Value *address = builder.CreateConstInBoundsGEP1_32(
      builder.getPtrTy(), calls, static_cast<unsigned>(member));
  Value *callee = builder.CreateLoad(builder.getPtrTy(), address);
  SmallVector<Type *> types =
      map_to_vector(arguments, [](Value *value) { return value->getType(); });
  CallInst *call = builder.CreateCall(
      FunctionType::get(result, types, /*isVarArg=*/false), callee, arguments);
  // No path may make it its own: all threads come to the same call.
  call->addFnAttr(Attribute::Convergent);
  call->addFnAttr(Attribute::NoUnwind);
  return call;
}

Value *Emulation::replace(IntrinsicInst &intrinsic, int32_t place) {
  Type *word = builder.getInt32Ty();
  Value *at = builder.getInt32(place);
  auto argument = [&](unsigned number) {
    return intrinsic.getArgOperand(number);
  };
  switch (intrinsic.getIntrinsicID()) {
  case Intrinsic::nvvm_read_ptx_sreg_laneid:
    return callMember(Member::GetThread, word, {});
  case Intrinsic::nvvm_shfl_sync_idx_i32:
    return callMember(Member::Shuffle, word, {argument(1), argument(2), at});
  case Intrinsic::nvvm_vote_ballot_sync:
    return callMember(Member::Ballot, word,
                      {builder.CreateZExt(argument(1), word), at});
  case Intrinsic::nvvm_bar_warp_sync:
    return callMember(Member::Synchronize, builder.getVoidTy(), {at});
  default:
    return nullptr;
  }
}

void Emulation::replaceIntrinsics(Function &function) {
  int32_t place = 0;
  for (Instruction &instruction :
       make_early_inc_range(instructions(function))) {
    auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction);
    if (!intrinsic)
      continue;
    builder.SetInsertPoint(intrinsic);
    Value *value = replace(*intrinsic, place);
    if (!value)
      continue;
    ++place;
    intrinsic->replaceAllUsesWith(value);
    intrinsic->eraseFromParent();
  }
}

/// Whether memory is the same at all times, or the thread's own.
static bool isPrivate(const Instruction &access, const Value *address) {
  const Value *object = getUnderlyingObject(address);
  const auto *table = dyn_cast<GlobalVariable>(object);
  return isa<AllocaInst>(object) || (table && table->isConstant()) ||
         access.hasMetadata(LLVMContext::MD_invariant_load);
}

void Emulation::noteAccesses(Function &function) {
  const DataLayout &layout = function.getDataLayout();
  int32_t place = 0;
  auto note = [&](Instruction &access, Value *address, Value *bytes,
                  bool isStore) {
    if (!isPrivate(access, address))
      callMember(Member::Access, builder.getVoidTy(),
                 {address, bytes, builder.getInt32(isStore),
                  builder.getInt32(place++)});
  };
  for (Instruction &access : instructions(function)) {
    builder.SetInsertPoint(&access);
    if (Value *address = getLoadStorePointerOperand(&access)) {
      TypeSize bytes = layout.getTypeStoreSize(getLoadStoreType(&access));
      note(access, address, builder.getInt32(bytes.getFixedValue()),
           isa<StoreInst>(access));
    } else if (auto *memory = dyn_cast<MemIntrinsic>(&access)) {
      Value *bytes =
          builder.CreateZExtOrTrunc(memory->getLength(), builder.getInt32Ty());
      note(access, memory->getDest(), bytes, /*isStore=*/true);
      if (auto *copy = dyn_cast<MemTransferInst>(memory))
        note(access, copy->getSource(), bytes, /*isStore=*/false);
    }
  }
}

void Emulation::runInWarp(CallInst &call) {
  builder.SetInsertPoint(&call);
  Value *kernel = builder.CreateGlobalString(call.getFunction()->getName());
  SmallVector<Value *> arguments = {kernel, call.getCalledFunction()};
  append_range(arguments, call.args());
  callMember(Member::Run, builder.getVoidTy(), arguments);
  call.eraseFromParent();
}

Error sextant::codegen::emulateWarps(Module &kernels) {
  Emulation emulation(kernels);
  for (Function *function : getThreadFunctions(kernels)) {
    if (Error error = distributeLanes(*function))
      return error;
    emulation.noteAccesses(*function);
    emulation.replaceIntrinsics(*function);
    for (User *user : make_early_inc_range(function->users()))
      emulation.runInWarp(*cast<CallInst>(user));
  }
  for (Function &function : make_early_inc_range(kernels))
    if (function.isDeclaration() && function.use_empty())
      function.eraseFromParent();
  return Error::success();
}
