//===- EmulatedWarps.cpp - Kernels for warps, made for the emulator -------===//
//
// The code is that of a GPU up to its intrinsics, which become calls through a
// pointer that the loader sets. So the kernels are an ordinary shared object.
//
//===----------------------------------------------------------------------===//

#include "codegen/CUDA/EmulatedWarps.h"
#include "codegen/CUDA/LaneExchange.h"
#include "codegen/CUDA/ThreadFunctions.h"
#include "codegen/CUDA/WarpLanes.h"
#include "runtime/emulator/WarpCalls.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/ReplaceConstant.h"

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
  Access,
  GetShared,
  SynchronizeBlock,
  Arrive,
  MultiplyF16,
  MultiplyBF16,
  LoadMatrices,
  TurnMatrix,
  Copy,
  CommitCopies,
  WaitForCopies,
  Exp2,
  Tanh,
  Reciprocal,
  ToF16,
  ToBF16,
  Log2,
  Sine,
  Cosine,
  SquareRoot
};
static_assert(offsetof(emulator::WarpCalls, access) ==
              static_cast<size_t>(Member::Access) * sizeof(void *));
static_assert(offsetof(emulator::WarpCalls, squareRoot) ==
              static_cast<size_t>(Member::SquareRoot) * sizeof(void *));

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

  /// Replaces what the threads of a function do together, tells of each access
  /// of a thread to memory that others see, and replaces calls of the function
  /// by runs of a warp.
  void emulate(Function &function);

private:
  Value *callMember(Member member, Type *result, ArrayRef<Value *> arguments);
  /// Goes to the begin of a function.
  void enter(Function &function);
  /// The number of an instruction in its function.
  Value *getPlace(const Instruction &instruction);
  Value *replace(CallInst &call);
  Value *replaceInWarp(IntrinsicInst &intrinsic);
  Value *replaceTensorCores(IntrinsicInst &intrinsic);
  Value *replaceCopies(IntrinsicInst &intrinsic);
  Value *multiply(Member member, IntrinsicInst &intrinsic);
  Value *toWord(Member member, IntrinsicInst &intrinsic);
  Value *saturate(IntrinsicInst &fma);
  Value *joinLanes(IntrinsicInst &intrinsic, Intrinsic::ID join);
  Value *loadMatrices(IntrinsicInst &intrinsic, bool isTransposed);
  /// Memory of a thread for values that pass between it and the emulator.
  Value *getWords(Value *&words, unsigned count);
  Value *loadStruct(Type *type, Value *words);
  /// An address of any space as one of the host.
  Value *toHost(Value *address);
  void giveShared(Function &function);
  void noteAccesses(Instruction &instruction);
  void noteAccess(const Instruction &access, Value *address, Value *bytes,
                  Align alignment, emulator::AccessKind kind);
  Constant *getText(StringRef text);
  /// What the emulator knows of a function: a ThreadCode.
  GlobalVariable *describe(StringRef kernel, Function &function);
  void runInWarp(CallInst &call);

  IRBuilder<> builder;
  GlobalVariable *table;
  StringMap<Constant *> texts;
  SmallVector<Constant *> sources; ///< of the places of a function
  Function *current = nullptr;
  Value *given = nullptr, *results = nullptr; ///< words of the thread
  /// What stays the same in a thread is asked for once, where its function
  /// begins: the calls, by member, and the thread's number.
  SmallDenseMap<unsigned, Value *> members;
  Value *thread = nullptr;
};
} // namespace

Value *Emulation::callMember(Member member, Type *result,
                             ArrayRef<Value *> arguments) {
  Value *&callee = members[static_cast<unsigned>(member)];
  if (!callee) {
    IRBuilder<>::InsertPointGuard guard(builder);
    BasicBlock &entry = current->getEntryBlock();
    builder.SetInsertPoint(&entry, entry.getFirstInsertionPt());
    Value *calls = builder.CreateLoad(builder.getPtrTy(), table);
    Value *address = builder.CreateConstInBoundsGEP1_32(
        builder.getPtrTy(), calls, static_cast<unsigned>(member));
    callee = builder.CreateLoad(builder.getPtrTy(), address);
  }
  SmallVector<Type *> types =
      map_to_vector(arguments, [](Value *value) { return value->getType(); });
  CallInst *call = builder.CreateCall(
      FunctionType::get(result, types, /*isVarArg=*/false), callee, arguments);
  // No path may make it its own: all threads come to the same call.
  call->addFnAttr(Attribute::Convergent);
  call->addFnAttr(Attribute::NoUnwind);
  return call;
}

void Emulation::enter(Function &function) {
  current = &function;
  members.clear();
  given = results = nullptr;
  BasicBlock &entry = function.getEntryBlock();
  builder.SetInsertPoint(&entry, entry.getFirstInsertionPt());
}

/// "model.mlir:3:4", where an instruction has a location.
static std::string describeSource(const Instruction &instruction) {
  const DILocation *location = instruction.getDebugLoc();
  if (!location || location->getLine() == 0)
    return "";
  return (location->getFilename() + ":" + Twine(location->getLine()) + ":" +
          Twine(location->getColumn()))
      .str();
}

Constant *Emulation::getText(StringRef text) {
  Constant *&found = texts[text];
  if (!found)
    found = builder.CreateGlobalString(text, "text", /*AddressSpace=*/0,
                                       table->getParent());
  return found;
}

Value *Emulation::getPlace(const Instruction &instruction) {
  sources.push_back(getText(describeSource(instruction)));
  return builder.getInt32(sources.size() - 1);
}

//===----------------------------------------------------------------------===//
// What threads of a warp do together
//===----------------------------------------------------------------------===//

Value *Emulation::toHost(Value *address) {
  return builder.CreateAddrSpaceCast(address, builder.getPtrTy());
}

Value *Emulation::replaceInWarp(IntrinsicInst &intrinsic) {
  Type *word = builder.getInt32Ty();
  auto argument = [&](unsigned number) {
    return intrinsic.getArgOperand(number);
  };
  auto getLane = [&] {
    return builder.CreateAnd(thread, builder.getInt32(warpLanes - 1));
  };
  switch (intrinsic.getIntrinsicID()) {
  case Intrinsic::nvvm_read_ptx_sreg_laneid:
    return getLane();
  case Intrinsic::nvvm_read_ptx_sreg_tid_x:
    return thread;
  case Intrinsic::nvvm_shfl_sync_idx_i32:
    return callMember(Member::Shuffle, word,
                      {argument(1), argument(2), getPlace(intrinsic)});
  case Intrinsic::nvvm_shfl_sync_bfly_i32:
    return callMember(Member::Shuffle, word,
                      {argument(1), builder.CreateXor(getLane(), argument(2)),
                       getPlace(intrinsic)});
  case Intrinsic::nvvm_redux_sync_min:
    return joinLanes(intrinsic, Intrinsic::smin);
  case Intrinsic::nvvm_redux_sync_max:
    return joinLanes(intrinsic, Intrinsic::smax);
  case Intrinsic::nvvm_vote_ballot_sync:
    return callMember(
        Member::Ballot, word,
        {builder.CreateZExt(argument(1), word), getPlace(intrinsic)});
  case Intrinsic::nvvm_bar_warp_sync:
    return callMember(Member::Synchronize, builder.getVoidTy(),
                      {getPlace(intrinsic)});
  case Intrinsic::nvvm_barrier_cta_sync_aligned_all: {
    int64_t threads = getBlockShape(*current).countThreads();
    return callMember(
        Member::SynchronizeBlock, builder.getVoidTy(),
        {argument(0), builder.getInt32(threads), getPlace(intrinsic)});
  }
  default:
    return nullptr;
  }
}

//===----------------------------------------------------------------------===//
// Tensor cores
//===----------------------------------------------------------------------===//

Value *Emulation::getWords(Value *&words, unsigned count) {
  if (!words) {
    IRBuilder<> atStart(&current->getEntryBlock(),
                        current->getEntryBlock().getFirstInsertionPt());
    words = atStart.CreateAlloca(ArrayType::get(atStart.getInt32Ty(), count),
                                 nullptr, "words");
  }
  return words;
}

Value *Emulation::loadStruct(Type *type, Value *words) {
  Value *loaded = PoisonValue::get(type);
  for (unsigned i = 0; i != type->getStructNumElements(); ++i) {
    Value *address =
        builder.CreateConstInBoundsGEP1_32(builder.getInt32Ty(), words, i);
    loaded = builder.CreateInsertValue(
        loaded, builder.CreateLoad(type->getStructElementType(i), address), i);
  }
  return loaded;
}

/// Words that a thread gives to a product, and gets of it.
static constexpr unsigned wordsOfProduct = 10, wordsOfResult = 4;

Value *Emulation::multiply(Member member, IntrinsicInst &intrinsic) {
  Value *operands = getWords(given, wordsOfProduct);
  Value *sums = getWords(results, wordsOfResult);
  for (auto [number, operand] : enumerate(intrinsic.args()))
    builder.CreateStore(operand, builder.CreateConstInBoundsGEP1_32(
                                     builder.getInt32Ty(), operands, number));
  callMember(member, builder.getVoidTy(),
             {operands, sums, getPlace(intrinsic)});
  return loadStruct(intrinsic.getType(), sums);
}

Value *Emulation::toWord(Member member, IntrinsicInst &intrinsic) {
  Value *word =
      callMember(member, builder.getInt32Ty(),
                 {intrinsic.getArgOperand(0), intrinsic.getArgOperand(1)});
  return builder.CreateBitCast(word, intrinsic.getType());
}

/// By exchanges of pairs: all lanes meet as often.
Value *Emulation::joinLanes(IntrinsicInst &intrinsic, Intrinsic::ID join) {
  Value *number = intrinsic.getArgOperand(0);
  Value *lane = builder.CreateAnd(thread, builder.getInt32(warpLanes - 1));
  for (int64_t apart = warpLanes / 2; apart >= 1; apart /= 2) {
    Value *other = builder.CreateXor(lane, builder.getInt32(apart));
    Value *given = callMember(Member::Shuffle, number->getType(),
                              {number, other, getPlace(intrinsic)});
    number = builder.CreateBinaryIntrinsic(join, number, given);
  }
  return number;
}

/// 0 for NaN, as what is between others is the one that is a number.
Value *Emulation::saturate(IntrinsicInst &fma) {
  Type *type = fma.getType();
  Value *sum = builder.CreateIntrinsic(Intrinsic::fma, {type},
                                       SmallVector<Value *>(fma.args()));
  Value *positive = builder.CreateMaxNum(sum, ConstantFP::get(type, 0.0));
  return builder.CreateMinNum(positive, ConstantFP::get(type, 1.0));
}

Value *Emulation::loadMatrices(IntrinsicInst &intrinsic, bool isTransposed) {
  Value *words = getWords(results, wordsOfResult);
  callMember(Member::LoadMatrices, builder.getVoidTy(),
             {toHost(intrinsic.getArgOperand(0)), words,
              builder.getInt32(isTransposed), getPlace(intrinsic)});
  return loadStruct(intrinsic.getType(), words);
}

Value *Emulation::replaceCopies(IntrinsicInst &intrinsic) {
  Type *nothing = builder.getVoidTy();
  auto copy = [&](unsigned bytes) {
    return callMember(Member::Copy, nothing,
                      {toHost(intrinsic.getArgOperand(0)),
                       toHost(intrinsic.getArgOperand(1)),
                       builder.getInt32(bytes), intrinsic.getArgOperand(2),
                       getPlace(intrinsic)});
  };
  switch (intrinsic.getIntrinsicID()) {
  case Intrinsic::nvvm_cp_async_cg_shared_global_16_s:
    return copy(16);
  case Intrinsic::nvvm_cp_async_ca_shared_global_8_s:
    return copy(8);
  case Intrinsic::nvvm_cp_async_ca_shared_global_4_s:
    return copy(4);
  case Intrinsic::nvvm_cp_async_commit_group:
    return callMember(Member::CommitCopies, nothing, {});
  case Intrinsic::nvvm_cp_async_wait_group:
    return callMember(Member::WaitForCopies, nothing,
                      {intrinsic.getArgOperand(0)});
  default:
    return nullptr;
  }
}

/// The function that stands for an approximate instruction.
static std::optional<Member> getFunction(const IntrinsicInst &intrinsic) {
  switch (intrinsic.getIntrinsicID()) {
  case Intrinsic::nvvm_ex2_approx_ftz:
    return Member::Exp2;
  case Intrinsic::tanh:
    return Member::Tanh;
  case Intrinsic::nvvm_rcp_approx_ftz_f:
    return Member::Reciprocal;
  case Intrinsic::nvvm_lg2_approx_ftz_f:
    return Member::Log2;
  case Intrinsic::nvvm_sin_approx_ftz_f:
    return Member::Sine;
  case Intrinsic::nvvm_cos_approx_ftz_f:
    return Member::Cosine;
  case Intrinsic::nvvm_sqrt_approx_ftz_f:
    return Member::SquareRoot;
  default:
    return std::nullopt;
  }
}

Value *Emulation::replaceTensorCores(IntrinsicInst &intrinsic) {
  if (std::optional<Member> function = getFunction(intrinsic))
    return callMember(*function, builder.getFloatTy(),
                      SmallVector<Value *>(intrinsic.args()));
  switch (intrinsic.getIntrinsicID()) {
  case Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32:
    return multiply(Member::MultiplyF16, intrinsic);
  case Intrinsic::nvvm_mma_m16n8k16_row_col_bf16:
    return multiply(Member::MultiplyBF16, intrinsic);
  case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16:
    return loadMatrices(intrinsic, /*isTransposed=*/false);
  case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16:
    return loadMatrices(intrinsic, /*isTransposed=*/true);
  case Intrinsic::nvvm_fma_rn_ftz_sat_f:
    return saturate(intrinsic);
  case Intrinsic::nvvm_ff2f16x2_rn:
    return toWord(Member::ToF16, intrinsic);
  case Intrinsic::nvvm_ff2bf16x2_rn:
    return toWord(Member::ToBF16, intrinsic);
  default:
    return nullptr;
  }
}

/// Whether a call is an instruction that LLVM has no intrinsic for.
static bool isTurn(const CallInst &call) {
  const auto *code = dyn_cast<InlineAsm>(call.getCalledOperand());
  return code && code->getAsmString() == turnMatrixCode;
}

Value *Emulation::replace(CallInst &call) {
  if (isTurn(call))
    return callMember(Member::TurnMatrix, builder.getInt32Ty(),
                      {call.getArgOperand(0), getPlace(call)});
  auto *intrinsic = dyn_cast<IntrinsicInst>(&call);
  if (!intrinsic)
    return nullptr;
  if (Value *value = replaceInWarp(*intrinsic))
    return value;
  if (Value *value = replaceCopies(*intrinsic))
    return value;
  return replaceTensorCores(*intrinsic);
}

/// Shared memory is where the emulator has it, not at a symbol.
void Emulation::giveShared(Function &function) {
  Module &module = *function.getParent();
  GlobalVariable *memory = module.getGlobalVariable(sharedMemoryName);
  if (!memory)
    return;
  convertUsersOfConstantsToInstructions({memory}, &function);
  Value *address = builder.CreateAddrSpaceCast(
      callMember(Member::GetShared, builder.getPtrTy(), {}), memory->getType());
  memory->replaceUsesWithIf(address, [&](Use &use) {
    auto *user = dyn_cast<Instruction>(use.getUser());
    return user && user->getFunction() == &function;
  });
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// Whether memory is the same at all times, or the thread's own.
static bool isPrivate(const Instruction &access, const Value *address) {
  // Of two paths that are one now it may be one memory or another.
  SmallVector<const Value *, 2> objects;
  getUnderlyingObjects(address, objects, /*LI=*/nullptr, /*MaxLookup=*/0);
  return access.hasMetadata(LLVMContext::MD_invariant_load) ||
         all_of(objects, [](const Value *object) {
           const auto *table = dyn_cast<GlobalVariable>(object);
           return isa<AllocaInst>(object) || (table && table->isConstant());
         });
}

void Emulation::noteAccess(const Instruction &access, Value *address,
                           Value *bytes, Align alignment,
                           emulator::AccessKind kind) {
  if (!isPrivate(access, address))
    callMember(Member::Access, builder.getVoidTy(),
               {toHost(address), bytes, builder.getInt32(alignment.value()),
                builder.getInt32(static_cast<uint32_t>(kind)),
                getPlace(access)});
}

void Emulation::noteAccesses(Instruction &instruction) {
  using emulator::AccessKind;
  const DataLayout &layout = instruction.getDataLayout();
  if (Value *address = getLoadStorePointerOperand(&instruction)) {
    TypeSize bytes = layout.getTypeStoreSize(getLoadStoreType(&instruction));
    noteAccess(instruction, address, builder.getInt32(bytes.getFixedValue()),
               getLoadStoreAlignment(&instruction),
               isa<StoreInst>(instruction) ? AccessKind::Store
                                           : AccessKind::Load);
  } else if (auto *change = dyn_cast<AtomicRMWInst>(&instruction)) {
    TypeSize bytes = layout.getTypeStoreSize(change->getType());
    noteAccess(instruction, change->getPointerOperand(),
               builder.getInt32(bytes.getFixedValue()), change->getAlign(),
               AccessKind::AtomicChange);
  } else if (auto *memory = dyn_cast<MemIntrinsic>(&instruction)) {
    Value *bytes =
        builder.CreateZExtOrTrunc(memory->getLength(), builder.getInt32Ty());
    noteAccess(instruction, memory->getDest(), bytes,
               memory->getDestAlign().valueOrOne(), AccessKind::Store);
    if (auto *copy = dyn_cast<MemTransferInst>(memory))
      noteAccess(instruction, copy->getSource(), bytes,
                 copy->getSourceAlign().valueOrOne(), AccessKind::Load);
  }
}

GlobalVariable *Emulation::describe(StringRef kernel, Function &function) {
  Module &module = *function.getParent();
  auto makeGlobal = [&](Constant *value) {
    return new GlobalVariable(module, value->getType(), /*isConstant=*/true,
                              GlobalValue::InternalLinkage, value,
                              function.getName() + "_code");
  };
  auto *pointers = ArrayType::get(builder.getPtrTy(), sources.size());
  BlockShape shape = getBlockShape(function);
  return makeGlobal(ConstantStruct::getAnon(
      {getText(kernel), &function,
       makeGlobal(ConstantArray::get(pointers, sources)),
       builder.getInt32(sources.size()), builder.getInt32(shape.warps),
       builder.getInt64(shape.sharedBytes)}));
}

void Emulation::runInWarp(CallInst &call) {
  enter(*call.getFunction());
  builder.SetInsertPoint(&call);
  StringRef kernel = call.getFunction()->getName();
  Function *scratch =
      table->getParent()->getFunction((kernel + "_scratch").str());
  Value *bytes = builder.CreateCall(scratch, {call.getArgOperand(0)});
  SmallVector<Value *> arguments = {
      describe(kernel, *call.getCalledFunction())};
  append_range(arguments, call.args());
  arguments.push_back(bytes);
  callMember(Member::Run, builder.getVoidTy(), arguments);
  call.eraseFromParent();
}

void Emulation::emulate(Function &function) {
  sources.clear();
  SmallVector<Instruction *> known;
  for (Instruction &instruction : instructions(function))
    known.push_back(&instruction);
  enter(function);
  thread = callMember(Member::GetThread, builder.getInt32Ty(), {});
  giveShared(function);
  for (Instruction *instruction : known) {
    builder.SetInsertPoint(instruction);
    noteAccesses(*instruction);
    auto *call = dyn_cast<CallInst>(instruction);
    if (Value *value = call ? replace(*call) : nullptr) {
      call->replaceAllUsesWith(value);
      call->eraseFromParent();
    }
  }
  for (User *user : make_early_inc_range(function.users()))
    if (auto *call = dyn_cast<CallInst>(user))
      runInWarp(*call);
}

Error sextant::codegen::emulateWarps(Module &kernels,
                                     function_ref<void(Function &)> change) {
  Emulation emulation(kernels);
  for (Function *function : getThreadFunctions(kernels)) {
    if (!findBlockShape(*function))
      if (Error error = distributeLanes(*function))
        return error;
    change(*function);
    emulation.emulate(*function);
  }
  StripDebugInfo(kernels); // it has said what it is for
  if (GlobalVariable *memory = kernels.getGlobalVariable(sharedMemoryName))
    memory->eraseFromParent();
  for (Function &function : make_early_inc_range(kernels))
    if (function.isDeclaration() && function.use_empty())
      function.eraseFromParent();
  return Error::success();
}
