//===- OrderMemory.cpp - Tensors in the order in which they are read ------===//
//
// Kernels address the tensors that they are given by strides, so they write
// rows wherever these lie. ATen reads rows of a model's width: what a kernel
// makes by head, and ATen reads transposed, would be copied before each product
// that reads it. Allocated in the order of the product it is only viewed.
//
//===----------------------------------------------------------------------===//

#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "passes/Schedule/Schedule.h"

namespace sextant::passes {
#define GEN_PASS_DEF_ORDERMEMORY
#include "passes/Schedule/Schedule.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;
using namespace sextant::passes;

/// The permutation of a transpose that leaves the elements of rows together,
/// empty of any other op.
static SmallVector<int64_t> getPermutation(exec::DenseOp op) {
  if (op.getOp() != "aten::transpose.int")
    return {};
  int64_t rank = cast<RankedTensorType>(op.getOperand(0).getType()).getRank();
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  auto getDim = [&](unsigned argument) {
    return cast<IntegerAttr>(op.getArguments()[argument]).getInt();
  };
  int64_t first = getDim(1), second = getDim(2);
  for (int64_t dim : {first, second})
    if (dim < 0 || dim >= rank - 1)
      return {};
  std::swap(order[first], order[second]);
  return order;
}

namespace {
/// A tensor of kernels that everything else reads transposed, in one way.
struct Transposed {
  SmallVector<int64_t> permutation;
  SmallVector<exec::DenseOp> readers;
};
} // namespace

static std::optional<Transposed> findReaders(exec::AllocOp alloc) {
  Transposed found;
  for (Operation *user : alloc->getUsers()) {
    if (isa<exec::LaunchOp, tensor::DimOp>(user))
      continue;
    auto reader = dyn_cast<exec::DenseOp>(user);
    SmallVector<int64_t> own;
    if (reader)
      own = getPermutation(reader);
    if (own.empty() || (!found.readers.empty() && own != found.permutation))
      return std::nullopt;
    found.permutation = own;
    found.readers.push_back(reader);
  }
  if (found.readers.empty())
    return std::nullopt;
  return found;
}

/// Allocates the tensor as it is read; kernels have a view of it. A
/// transposition is its own inverse.
static void reorder(exec::AllocOp alloc, const Transposed &transposed) {
  OpBuilder builder(alloc);
  auto type = cast<RankedTensorType>(alloc.getResult().getType());
  SmallVector<Value> sizes(type.getRank()), dynamicSizes;
  auto given = alloc.getSizes().begin();
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      sizes[dim] = *given++;
  SmallVector<int64_t> shape;
  for (int64_t dim : transposed.permutation) {
    shape.push_back(type.getDimSize(dim));
    if (sizes[dim])
      dynamicSizes.push_back(sizes[dim]);
  }
  Value memory =
      exec::AllocOp::create(builder, alloc.getLoc(), type.clone(shape),
                            dynamicSizes, alloc.getZero());
  for (exec::DenseOp reader : transposed.readers) {
    Value read = memory;
    if (reader.getResult(0).getType() != read.getType())
      read = tensor::CastOp::create(builder, alloc.getLoc(),
                                    reader.getResult(0).getType(), read);
    reader.getResult(0).replaceAllUsesWith(read);
    reader.erase();
  }
  Value view = exec::ViewOp::create(
      builder, alloc.getLoc(), type, memory,
      builder.getDenseI64ArrayAttr(transposed.permutation), alloc.getSizes());
  alloc.getResult().replaceAllUsesWith(view);
  alloc.erase();
}

namespace {
/// Goes through the allocations of one function after the other.
struct OrderMemory : passes::impl::OrderMemoryBase<OrderMemory> {
  using OrderMemoryBase::OrderMemoryBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      unsigned ordered = 0;
      for (Block &block : function.getBody())
        for (auto alloc :
             llvm::make_early_inc_range(block.getOps<exec::AllocOp>()))
          if (std::optional<Transposed> transposed = findReaders(alloc)) {
            reorder(alloc, *transposed);
            ++ordered;
          }
      numOrdered += ordered;
      if (ordered > 0)
        remark::passed(
            function.getLoc(),
            remark::RemarkOpts::name("ordered").category(getArgument()))
            << remark::metric("Tensors", ordered);
    }
  }
};
} // namespace
