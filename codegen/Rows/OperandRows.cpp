//===- OperandRows.cpp - Mapped rows, once for all tiles ------------------===//

#include "codegen/Rows/OperandRows.h"
#include "codegen/Rows/Columns.h"
#include "codegen/Rows/RowPullback.h"
#include "codegen/Rows/RowRegisters.h"
#include "codegen/Tables/RowValues.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

/// The rows of an item are enough to share what an item costs, and few enough
/// to fill a GPU with items. In registers a row costs less, and an item as
/// much.
static constexpr int64_t rowsPerItem = 8, rowsPerItemInRegisters = 32;

/// Where heads share what maps compute of a row, an item has rows of all heads,
/// as long as that makes items enough to fill a GPU, and up to so many rows.
static constexpr int64_t enoughItems = 2048, mostSharedRows = 8;

/// Bytes that are copied at once.
static constexpr int64_t chunkBytes = 16;

static bool hasColumns(const KernelPlan &plan, pos::RowOperand operand) {
  return operand != pos::RowOperand::value && !plan.columns.empty();
}

RowParts codegen::getOperandParts(const KernelPlan &plan,
                                  pos::RowOperand operand, Value rows,
                                  int64_t lanes) {
  return RowParts(hasColumns(plan, operand) ? getHeadParts(plan, rows)
                                            : getHeadDims(rows),
                  lanes);
}

int64_t codegen::countOperandElements(const KernelPlan &plan,
                                      pos::RowOperand operand, Value rows,
                                      int64_t lanes) {
  int64_t dim = getOperandParts(plan, operand, rows, lanes).getDim();
  if (!hasColumns(plan, operand))
    return dim;
  unsigned bits =
      cast<RankedTensorType>(rows.getType()).getElementTypeBitWidth();
  return llvm::alignTo(dim, 8 * chunkBytes / bits);
}

/// Whether rows are mapped in registers.
static bool isInRegisters(const Lowering &lowering, pos::RowOperand operand) {
  return !hasColumns(lowering.plan, operand) &&
         RowRegisters::suit(lowering.target,
                            getRowMaps(lowering.plan, operand));
}

SmallVector<unsigned>
codegen::getValuesOfOperandRows(const Lowering &lowering) {
  SmallVector<unsigned> numbers;
  for (pos::RowOperand operand :
       {pos::RowOperand::query, pos::RowOperand::key, pos::RowOperand::value})
    if (isInRegisters(lowering, operand))
      llvm::append_range(numbers, findRowValues(lowering.plan, operand));
  return numbers;
}

/// The tables that maps and columns of an operand read: the launch waits for no
/// others.
static HoistTables getTablesOfRows(const KernelPlan &plan,
                                   const HoistTables &tables,
                                   pos::RowOperand operand) {
  HoistTables own;
  own.options = tables.options;
  own.bounds = tables.bounds;
  own.buffers.resize(tables.buffers.size());
  for (auto [number, entry] : llvm::enumerate(plan.hoisted)) {
    pos::HoistOp op = entry.op;
    bool isRead = llvm::any_of(op->getUsers(), [](Operation *user) {
      return user->getParentOfType<pos::ColumnsOp>() ||
             user->getParentOfType<pos::RowsOp>();
    });
    if (entry.operand == operand && isRead)
      own.buffers[number] = tables.buffers[number];
  }
  return own;
}

//===----------------------------------------------------------------------===//
// Rows in registers
//===----------------------------------------------------------------------===//

namespace {
/// A point of a row whose values are at hand.
class SharedRowPoint : public RowPoint {
public:
  using RowPoint::RowPoint;

  Value hoisted(OpBuilder &builder, pos::HoistOp hoist) override {
    Value value = values.lookup({hoist, group});
    return value ? value : RowPoint::hoisted(builder, hoist);
  }

  RowValues::Vectors values;
};

/// Rows that are mapped in registers; numbers are those of the operands.
struct MappedRows {
  KernelBuilder &kernel;
  ArgumentBlock &arguments;
  RowRegisters registers;
  unsigned source, target;
  Type element;

  /// Batch, head and row of each.
  using Places = SmallVector<std::array<Index, 3>>;

  /// Loads rows, maps one after the other and stores them.
  void emit(const Places &places, RowPoint &point,
            function_ref<void(const std::array<Index, 3> &)> enter);
  void emitItem(const Item &item, RowPoint &point);
  void emitSharedItem(const Item &item, const RowValues &values,
                      SharedRowPoint &point);
};

/// Rows that are mapped in scratch memory, with columns behind some.
struct CopiedRows {
  const KernelPlan &plan;
  const SiteOperands &sites;
  pos::RowOperand operand;
  RowParts parts;
  ArrayRef<RowMap> maps;
  unsigned source, target;
  int64_t stored, words;
  Type element;
  int64_t dim;
  bool appends;

  /// One at a batch, head and row.
  void emit(KernelBuilder &kernel, ArgumentBlock &arguments,
            const std::array<Index, 3> &place, RowPoint &point,
            Value scratch) const;
};
} // namespace

void MappedRows::emit(const Places &places, RowPoint &point,
                      function_ref<void(const std::array<Index, 3> &)> enter) {
  Value step = kernel.broadcast(kernel.toI32(arguments.getStride(source, 3)));
  SmallVector<RowRegisters::Values> rows;
  for (const auto &place : places)
    rows.push_back(
        registers.load(arguments.getAddress(source, place), step, element));
  for (auto [place, row] : llvm::zip_equal(places, rows)) {
    enter(place);
    row = registers.map(row, point, place[2]);
  }
  for (auto [place, row] : llvm::zip_equal(places, rows))
    registers.store(row, arguments.getAddress(target, place), element);
}

/// Rows of one head.
void MappedRows::emitItem(const Item &item, RowPoint &point) {
  Index last = kernel.sub(item.end(2), 1);
  int64_t together = registers.countRows();
  kernel.loop(item[2], item.end(2), together, [&](Value first) {
    Places places;
    // Behind the last row that row again.
    for (int64_t number = 0; number < together; ++number)
      places.push_back(
          {item[0], item[1], kernel.min(kernel.add(first, number), last)});
    emit(places, point, [](const auto &) {});
  });
}

/// The rows of one number after the other, each of several heads.
void MappedRows::emitSharedItem(const Item &item, const RowValues &values,
                                SharedRowPoint &point) {
  OpBuilder &builder = kernel.builder;
  Location loc = kernel.loc;
  Value heads = kernel.toI32(arguments.getSize(source, 1));
  Value end = kernel.toI32(item.end(1));
  Value zero = kernel.constantI32(0), one = kernel.constantI32(1);
  int64_t together = registers.countRows();
  kernel.loop(item[0], item.end(0), 1, [&](Value row) {
    point.values = values.emit(kernel, arguments, row);
    kernel.loop(item[1], item.end(1), together, [&](Value first) {
      Places places;
      // One division, and numbers of 32 bits, which take half of the registers.
      Value number = kernel.toI32(first);
      Value batch = arith::DivUIOp::create(builder, loc, number, heads);
      Value head = arith::RemUIOp::create(builder, loc, number, heads);
      for (int64_t place = 0; place < together; ++place) {
        places.push_back({kernel.fromI32(batch), kernel.fromI32(head), row});
        // Behind the last head that head again.
        number = arith::AddIOp::create(builder, loc, number, one);
        Value isInside = arith::CmpIOp::create(
            builder, loc, arith::CmpIPredicate::slt, number, end);
        Value step = arith::ExtUIOp::create(builder, loc, kernel.i32, isInside);
        head = arith::AddIOp::create(builder, loc, head, step);
        Value wraps = arith::CmpIOp::create(
            builder, loc, arith::CmpIPredicate::eq, head, heads);
        head = arith::SelectOp::create(builder, loc, wraps, zero, head);
        batch = arith::AddIOp::create(
            builder, loc, batch,
            arith::ExtUIOp::create(builder, loc, kernel.i32, wraps));
      }
      emit(places, point,
           [&](const auto &place) { point.enterHead(place[0], place[1]); });
    });
  });
}

void CopiedRows::emit(KernelBuilder &kernel, ArgumentBlock &arguments,
                      const std::array<Index, 3> &place, RowPoint &point,
                      Value scratch) const {
  RowCopy copy;
  copy.tensor = source;
  copy.batch = place[0];
  copy.head = place[1];
  copy.first = place[2];
  copy.count = 1;
  copy.dim = dim;
  copy.maps = maps;
  copy.point = &point;
  copy.to = scratch;
  copy.rowWords = words;
  if (appends)
    emitHeadCopy(kernel, arguments, plan, sites, operand, parts, copy, element);
  else
    emitRowCopy(kernel, arguments, copy, element);
  storeRow(kernel, scratch, stored, arguments.getAddress(target, place),
           element);
}

/// Items of rows whose values heads share: ranges of rows, and of the heads of
/// all elements of the batch. The fewer ranges of heads there are the more
/// share what is computed of a row.
static ItemSpace getSharedItems(KernelBuilder &kernel, Index heads, Index rows,
                                int64_t together) {
  Index step = kernel.min(kernel.max(kernel.ceilDiv(rows, enoughItems), 1),
                          mostSharedRows);
  Index ranges = kernel.max(kernel.div(enoughItems, kernel.max(rows, 1)), 1);
  Index perRange = kernel.max(
      kernel.roundUp(kernel.ceilDiv(heads, ranges), together), together);
  return ItemSpace(kernel, {{rows, step}, {heads, perRange}});
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

Value codegen::launchOperandRows(const Lowering &lowering,
                                 const HoistTables &tables,
                                 pos::RowOperand operand, Value rows,
                                 StringRef suffix) {
  const KernelPlan &plan = lowering.plan;
  ArrayRef<RowMap> maps = getRowMaps(plan, operand);
  bool appends = hasColumns(plan, operand);
  if (maps.empty() && !appends)
    return rows;
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t width = lowering.target.width;
  RowParts parts = getOperandParts(plan, operand, rows, width);
  int64_t stored = countOperandElements(plan, operand, rows, width);
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = stored;
  Value result = lowering.allocateLike(rows, type.clone(shape));
  OwnerOperands owner = getOwnerOperands(lowering.plan.owner);
  LaunchOperands operands;
  SiteOperands sites;
  unsigned source = operands.read(rows);
  sites.query = operands.read(owner.query);
  sites.key = operands.read(owner.key);
  for (Value value : owner.values)
    sites.values.push_back(operands.read(value));
  HoistTables own = getTablesOfRows(plan, tables, operand);
  sites.append(plan, own, operands.layout, operands.reads);
  RowValues values(lowering, own, operand, operands);
  bool inRegisters = isInRegisters(lowering, operand);
  assert((inRegisters || values.empty()) && "only registers take values");
  unsigned target = operands.write(result);
  Type element = type.getElementType();
  int64_t words = getCopiedRowWords(lowering.target, stored, /*pairs=*/false);
  int64_t dim = type.getDimSize(3);
  CopiedRows copied{plan,   sites,  operand, parts,   maps, source,
                    target, stored, words,   element, dim,  appends};
  auto items = [&](KernelBuilder &kernel, ArgumentBlock &arguments) {
    if (!values.empty())
      return getSharedItems(kernel,
                            kernel.mul(arguments.getSize(source, 0),
                                       arguments.getSize(source, 1)),
                            arguments.getSize(source, 2),
                            RowRegisters(kernel, maps, dim).countRows());
    return ItemSpace(kernel,
                     {arguments.getSize(source, 0),
                      arguments.getSize(source, 1),
                      {arguments.getSize(source, 2),
                       inRegisters ? rowsPerItemInRegisters : rowsPerItem}});
  };
  auto scratchBytes = [&](KernelBuilder &, ArgumentBlock &) {
    return Index(inRegisters ? 0 : 4 * words);
  };
  auto run = [&](KernelBuilder &kernel, ArgumentBlock &arguments,
                 const Items &items, Value scratch) {
    SharedRowPoint point(kernel, arguments, plan, sites, operand);
    MappedRows mapped{kernel, arguments, RowRegisters(kernel, maps, dim),
                      source, target,    element};
    items.forEach([&](const Item &item) {
      if (!values.empty())
        return mapped.emitSharedItem(item, values, point);
      point.enterHead(item[0], item[1]);
      if (inRegisters)
        return mapped.emitItem(item, point);
      kernel.loop(item[2], item.end(2), 1, [&](Value row) {
        copied.emit(kernel, arguments, {item[0], item[1], row}, point, scratch);
      });
    });
  };
  operands.launch(lowering, suffix, {items, scratchBytes, run});
  return result;
}
