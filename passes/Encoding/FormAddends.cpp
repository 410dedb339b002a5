//===- FormAddends.cpp - Lanes that hold no part of a row -----------------===//
//
// W x of a row x whose lanes [b, e) are overwritten by p is W' x' + W'' p, with
// W'' the columns [b, e) of W and x' the other lanes. Where p does not vary
// with the batch, W'' p is made for one sequence. The rest of the matrix and of
// the rows are views: nothing is copied. A remark says why a map whose lanes do
// not read the row stays; of one that reads it nothing is said.
//
//===----------------------------------------------------------------------===//

#include "dialects/Nn/IR/Nn.h"
#include "dialects/Pos/IR/Dependence.h"
#include "dialects/Pos/IR/RowLanes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "passes/Verify/Stages.h"

namespace sextant::passes {
#define GEN_PASS_DEF_FORMADDENDS
#include "passes/Passes.h.inc"
} // namespace sextant::passes

using namespace mlir;
using namespace sextant;

using pos::Axis;

//===----------------------------------------------------------------------===//
// Lanes that do not read the row
//===----------------------------------------------------------------------===//

namespace {
/// The row map of a `pos.map_rows`, and the lanes [begin, end) that it maps.
struct MappedLanes {
  pos::RowsOp site;
  int64_t begin = 0, end = 0, width = 0;

  int64_t count() const { return end - begin; }
  /// The other lanes are next to each other where these are at an end.
  bool isAtEnd() const { return begin == 0 || end == width; }
  int64_t firstKept() const { return begin == 0 ? end : 0; }
  int64_t countKept() const { return width - count(); }
};
} // namespace

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool yieldsWithoutRow(pos::RowsOp site) {
  pos::Dependence dependence(/*hasPositions=*/false);
  return llvm::none_of(
      site.getBody().front().getTerminator()->getOperands(),
      [&](Value value) { return dependence.of(value).contains(Axis::row); });
}

static bool turnsRows(pos::MapRowsOp map) {
  return llvm::any_of(
      map.getBody().front().getOps<pos::TurnRowsOp>(), [&](pos::TurnRowsOp op) {
        return llvm::is_contained(
            op.getOf(),
            pos::RowOperandAttr::get(op.getContext(), map.getOperand()));
      });
}

/// Whether a payload reads a size that rows of one sequence and fewer lanes do
/// not have.
static bool readsChangedExtent(pos::RowsOp site) {
  return site
      .walk([](pos::ExtentOp extent) {
        bool isKept = extent.getExtent() == pos::Extent::query ||
                      extent.getExtent() == pos::Extent::key;
        return isKept ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// Why the lanes of a map are no addend, or nothing.
static StringRef findObstacle(pos::MapRowsOp map, MappedLanes lanes) {
  // Of coordinates as all sequences share them.
  pos::Dependence dependence(/*hasPositions=*/false);
  for (Value value :
       lanes.site.getBody().front().getTerminator()->getOperands())
    if (!pos::AxisSet({Axis::self, Axis::lane}).contains(dependence.of(value)))
      return "its lanes vary with more than position and lane";
  if (readsChangedExtent(lanes.site))
    return "its lanes read the size of the batch or of the row";
  if (map.getPositions() && typeOf(map.getPositions()).getDimSize(0) != 1)
    return "each sequence may have positions of its own";
  if (typeOf(map.getInput()).getDimSize(0) == 1)
    return "there is one sequence: an addend of one costs what it saves";
  if (!lanes.isAtEnd())
    return "its lanes are in the middle of the row";
  if (lanes.countKept() == 0)
    return "no lane of the row is left to multiply";
  for (OpOperand &use : map.getResult().getUses()) {
    auto product = dyn_cast<nn::LinearOp>(use.getOwner());
    if (!product || &product.getInputMutable() != &use)
      return "something else than a product reads the mapped rows";
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

/// What addends are made in.
static Type getSumType(Value rows) {
  Type element = typeOf(rows).getElementType();
  return element.isF64() ? element : Float32Type::get(element.getContext());
}

/// The site of `map` alone, over all lanes of rows that have only those.
static void copySite(pos::MapRowsOp map, MappedLanes lanes, Region &target) {
  IRMapping mapping;
  map.getBody().cloneInto(&target, mapping);
  auto site = cast<pos::RowsOp>(mapping.lookup(lanes.site.getOperation()));
  site.getBeginMutable().clear();
  site.getEndMutable().clear();
  for (Operation &op : llvm::make_early_inc_range(target.front()))
    if (isa<pos::SiteOpInterface>(op) && &op != site)
      op.erase();
}

/// What the lanes hold, of one sequence: [1, L, lanes].
static Value makeRows(OpBuilder &builder, pos::MapRowsOp map,
                      MappedLanes lanes) {
  Location loc = map.getLoc();
  Type element = getSumType(map.getInput());
  int64_t length = typeOf(map.getInput()).getDimSize(1);
  SmallVector<Value> sizes;
  if (ShapedType::isDynamic(length))
    sizes.push_back(tensor::DimOp::create(builder, loc, map.getInput(), 1));
  auto type = RankedTensorType::get({1, length, lanes.count()}, element);
  Value zero = arith::ConstantOp::create(builder, loc,
                                         builder.getFloatAttr(element, 0.0));
  Value zeros = tensor::SplatOp::create(builder, loc, type, zero, sizes);
  // Maps of several operands by one site become one.
  auto operand = cast<pos::RowOperandAttr>(lanes.site.getOf()[0]).getValue();
  auto rows =
      pos::MapRowsOp::create(builder, loc, type, zeros, Value(), operand,
                             map.getParams(), map.getPositions(), ArrayAttr());
  copySite(map, lanes, rows.getBody());
  return rows.getResult();
}

static Value convert(OpBuilder &builder, Value value, Type element) {
  if (!value || typeOf(value).getElementType() == element)
    return value;
  return nn::CastOp::create(builder, value.getLoc(),
                            typeOf(value).clone(element), value);
}

/// The product with rows whose lanes are an addend, `made` of [1, L, lanes].
static void shorten(nn::LinearOp product, Value made, Value input,
                    MappedLanes lanes) {
  OpBuilder builder(product);
  Location loc = product.getLoc();
  Type element = typeOf(input).getElementType(), sumType = getSumType(input);
  // The gradient of both parts of the matrix is one tensor again.
  bool isHeldFirst = lanes.begin == 0;
  int64_t lengths[] = {lanes.count(), lanes.countKept()};
  if (!isHeldFirst)
    std::swap(lengths[0], lengths[1]);
  auto columns =
      nn::SplitOp::create(builder, loc, product.getWeight(), 1, lengths);
  Value held = columns.getParts()[isHeldFirst ? 0 : 1];
  Value rest = columns.getParts()[isHeldFirst ? 1 : 0];
  Value addend =
      nn::LinearOp::create(builder, loc, made, convert(builder, held, sumType),
                           convert(builder, product.getBias(), sumType));
  Value kept =
      nn::SliceOp::create(builder, loc, input, Value(), Value(), 2,
                          builder.getI64IntegerAttr(lanes.firstKept()),
                          builder.getI64IntegerAttr(lanes.countKept()));
  Value shorter = nn::LinearOp::create(builder, loc, kept, rest, Value());
  Value sum = nn::AddOp::create(builder, loc,
                                convert(builder, shorter, sumType), addend);
  product.getResult().replaceAllUsesWith(convert(builder, sum, element));
  product.erase();
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
/// Makes addends of the lanes of one row map after the other.
struct FormAddends : passes::impl::FormAddendsBase<FormAddends> {
  using FormAddendsBase::FormAddendsBase;

  void runOnOperation() override {
    if (failed(passes::requireStage(getOperation(), passes::Stage::Fused,
                                    getArgument())))
      return signalPassFailure();
    SmallVector<pos::MapRowsOp> maps;
    getOperation()->walk([&](pos::MapRowsOp map) { maps.push_back(map); });
    for (pos::MapRowsOp map : maps)
      runOnMap(map);
  }

private:
  void runOnMap(pos::MapRowsOp map);
  void decline(pos::MapRowsOp map, StringRef why);
};
} // namespace

void FormAddends::decline(pos::MapRowsOp map, StringRef why) {
  ++numDeclined;
  remark::missed(map.getLoc(),
                 remark::RemarkOpts::name("declined").category(getArgument()))
      << remark::reason("{0}", why.str());
}

void FormAddends::runOnMap(pos::MapRowsOp map) {
  if (map.getBody().empty() || map.getIndices())
    return;
  SmallVector<pos::RowsOp> sites;
  for (auto site : map.getBody().front().getOps<pos::RowsOp>())
    if (pos::mapsRows(site, map.getOperand()))
      sites.push_back(site);
  if (llvm::none_of(sites, yieldsWithoutRow))
    return;
  if (sites.size() > 1)
    return decline(map, "more than one row map is of the same rows");
  if (turnsRows(map))
    return decline(map, "a turn is of the same rows");
  int64_t width = typeOf(map.getInput()).getDimSize(2);
  if (ShapedType::isDynamic(width))
    return decline(map, "the width of its rows is not known");
  std::optional<pos::LaneRange> range = pos::getLanes(sites.front(), width);
  if (!range)
    return decline(map, "the lanes of its row map are not constant");
  MappedLanes lanes{sites.front(), range->begin, range->end, width};
  if (StringRef why = findObstacle(map, lanes); !why.empty())
    return decline(map, why);
  OpBuilder builder(map);
  Value made = makeRows(builder, map, lanes);
  unsigned formed = 0;
  for (Operation *user :
       llvm::make_early_inc_range(map.getResult().getUsers())) {
    shorten(cast<nn::LinearOp>(user), made, map.getInput(), lanes);
    ++formed;
  }
  numFormed += formed;
  remark::passed(map.getLoc(),
                 remark::RemarkOpts::name("formed").category(getArgument()))
      << remark::metric("Products", formed)
      << remark::metric("Lanes", lanes.count());
  map.erase();
}
