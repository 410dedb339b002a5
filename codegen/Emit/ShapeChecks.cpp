//===- ShapeChecks.cpp - Sizes that kernels rely on -----------------------===//

#include "codegen/Emit/ShapeChecks.h"
#include "codegen/Plan/KernelPlan.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;

namespace {

/// A dimension of a tensor.
struct Size {
  Value tensor;
  int64_t dim;
};

class ShapeChecker {
public:
  ShapeChecker(OpBuilder &builder, Location location)
      : builder(builder), location(location) {}

  void equal(Size left, Size right, const Twine &message) {
    check(left, exec::Predicate::equal, right, message);
  }
  void multipleOf(Size left, Size right, const Twine &message) {
    check(left, exec::Predicate::multiple_of, right, message);
  }
  /// A result that its type gives a size has that of what it is allocated
  /// like; one that its type leaves open is allocated with that.
  void result(Size result, Size like, const Twine &message) {
    if (!ShapedType::isDynamic(getStatic(result)))
      equal(result, like, message);
  }
  /// The same of the first dimensions of a result.
  void result(Value tensor, Value like, int64_t dims, const Twine &name) {
    for (int64_t dim = 0; dim < dims; ++dim)
      result({tensor, dim}, {like, dim}, name + " differ in their shape");
  }
  template <typename AttentionOp> void attention(AttentionOp op);
  /// Parameters have the extents that payloads of all heads compiled in.
  void vectors(pos::SitesOwnerInterface owner);
  void positions(Value positions, Size batch, Size length, const Twine &name);
  /// Elements of parameters and of positions are as near to each other as
  /// kernels count, but for those of other heads and elements of the batch.
  void distances(pos::SitesOwnerInterface owner);
  void requirements(pos::SitesOwnerInterface owner);

private:
  static int64_t getStatic(Size size) {
    return cast<RankedTensorType>(size.tensor.getType()).getDimSize(size.dim);
  }
  Value get(Size size) {
    if (int64_t fixed = getStatic(size); !ShapedType::isDynamic(fixed))
      return arith::ConstantIndexOp::create(builder, location, fixed);
    return tensor::DimOp::create(builder, location, size.tensor, size.dim);
  }
  /// Equal static sizes are left out: the types say it.
  void check(Size left, exec::Predicate predicate, Size right,
             const Twine &message) {
    int64_t a = getStatic(left), b = getStatic(right);
    if (left.tensor == right.tensor && left.dim == right.dim)
      return;
    if (!ShapedType::isDynamic(a) && a == b)
      return;
    exec::CheckOp::create(builder, location, get(left), predicate, get(right),
                          message.str());
  }

  /// `size` of a parameter against a number that the payload relies on; one
  /// that is negative is not known.
  void param(Size size, int64_t number, exec::Predicate predicate,
             const Twine &message) {
    if (number < 0 || !ShapedType::isDynamic(getStatic(size)))
      return;
    Value fixed = arith::ConstantIndexOp::create(builder, location, number);
    exec::CheckOp::create(builder, location, fixed, predicate, get(size),
                          message.str());
  }

  void distance(Value tensor, ArrayRef<int64_t> dims, const Twine &name);

  OpBuilder &builder;
  Location location;
};

} // namespace

std::string codegen::describeParam(Value operand, unsigned number,
                                   Operation *op) {
  std::string text = "parameter " + std::to_string(number);
  auto argument = dyn_cast<BlockArgument>(operand);
  if (auto function = argument ? dyn_cast<FunctionOpInterface>(
                                     argument.getOwner()->getParentOp())
                               : FunctionOpInterface())
    for (StringRef key : {"nn.parameter", "exec.name"})
      if (auto name = function.getArgAttrOfType<StringAttr>(
              argument.getArgNumber(), key))
        text = "parameter \"" + name.getValue().str() + "\"";
  return text + " of '" + op->getName().getStringRef().str() + "'";
}

std::string codegen::describePlace(Operation *op) {
  std::string place;
  op->getLoc()->walk([&](Location location) {
    auto found = dyn_cast<FileLineColLoc>(location);
    if (!found)
      return WalkResult::advance();
    place = (found.getFilename().getValue() + ":" + Twine(found.getLine()) +
             ":" + Twine(found.getColumn()) + ": ")
                .str();
    return WalkResult::interrupt();
  });
  return place;
}

void ShapeChecker::vectors(pos::SitesOwnerInterface owner) {
  using exec::Predicate;
  auto extentOf = [](Value vector) {
    return cast<RankedTensorType>(vector.getType()).getDimSize(0);
  };
  auto numberOf = [](Value param) {
    return cast<BlockArgument>(param).getArgNumber();
  };
  auto operandOf = [&](Value param) -> Value {
    return owner.getParamOperands()[numberOf(param)];
  };
  auto lacks = [&](Value param, Operation *op, StringRef what) {
    return describeParam(operandOf(param), numberOf(param), op) +
           " does not have the " + what.str() + " compiled in";
  };
  owner.getSitesRegion().walk([&](Operation *op) {
    if (auto elements = dyn_cast<pos::ElementsOp>(op))
      return param({operandOf(elements.getParam()), 0},
                   extentOf(elements.getResult()), Predicate::equal,
                   lacks(elements.getParam(), op, "elements"));
    auto contract = dyn_cast<pos::ContractOp>(op);
    if (!contract)
      return;
    Value matrix = operandOf(contract.getMatrix());
    param({matrix, 0}, extentOf(contract.getResult()), Predicate::equal,
          lacks(contract.getMatrix(), op, "rows"));
    APInt first(32, 0);
    bool isPart = static_cast<bool>(contract.getFirstColumn());
    if (isPart)
      matchPattern(contract.getFirstColumn(), m_ConstantInt(&first));
    param({matrix, 1}, first.getSExtValue() + extentOf(contract.getVector()),
          isPart ? Predicate::at_most : Predicate::equal,
          lacks(contract.getMatrix(), op, "columns"));
  });
}

/// Dimensions along which lanes may read different elements, of each parameter:
/// all but those that are only ever indexed by the batch or by the head.
static SmallVector<SmallVector<int64_t>>
findLaneDims(pos::SitesOwnerInterface owner) {
  OperandRange params = owner.getParamOperands();
  SmallVector<llvm::SmallBitVector> ofLanes, ofHeads;
  for (Value param : params) {
    auto rank = cast<RankedTensorType>(param.getType()).getRank();
    ofLanes.emplace_back(rank);
    ofHeads.emplace_back(rank);
  }
  owner.getSitesRegion().walk([&](pos::PayloadOpInterface op) {
    for (const pos::TableRead &read : op.getTableReads()) {
      unsigned param = cast<BlockArgument>(read.table).getArgNumber();
      bool isHead = read.index.getDefiningOp<pos::BatchOp>() ||
                    read.index.getDefiningOp<pos::HeadOp>();
      (isHead ? ofHeads : ofLanes)[param].set(read.dim);
    }
  });
  SmallVector<SmallVector<int64_t>> dims(params.size());
  for (auto [param, own] : llvm::enumerate(dims))
    for (unsigned dim = 0; dim < ofLanes[param].size(); ++dim)
      if (ofLanes[param][dim] || !ofHeads[param][dim])
        own.push_back(dim);
  return dims;
}

void ShapeChecker::distance(Value tensor, ArrayRef<int64_t> dims,
                            const Twine &name) {
  if (dims.empty())
    return;
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  Value apart = exec::DistanceOp::create(builder, location,
                                         builder.getIndexType(), tensor, dims);
  Value limit = arith::ConstantIndexOp::create(builder, location, most);
  exec::CheckOp::create(
      builder, location, apart, exec::Predicate::at_most, limit,
      (name + " has elements farther from each other than kernels count")
          .str());
}

void ShapeChecker::distances(pos::SitesOwnerInterface owner) {
  codegen::OwnerOperands operands = codegen::getOwnerOperands(owner);
  for (auto [number, dims] : llvm::enumerate(findLaneDims(owner))) {
    Value param = owner.getParamOperands()[number];
    distance(param, dims, describeParam(param, number, owner));
  }
  for (auto [positions, name] :
       {std::pair(operands.queryPositions, "a tensor of query positions"),
        std::pair(operands.keyPositions, "a tensor of key positions")})
    if (positions)
      distance(positions, {1, 2}, name);
}

/// Whether a map of the rows of keys or values, `of` which operands it says,
/// differs between heads.
static bool differsBetweenKeyHeads(Operation *map, ArrayAttr of) {
  bool ofKeys =
      llvm::any_of(of.getAsRange<pos::RowOperandAttr>(), [](auto operand) {
        return operand.getValue() == pos::RowOperand::key ||
               operand.getValue() == pos::RowOperand::value;
      });
  if (!ofKeys)
    return false;
  Block &payload = cast<pos::SiteOpInterface>(map).getPayload();
  pos::Dependence dependence(
      cast<pos::SitesOwnerInterface>(map->getParentOp()));
  return dependence.of(payload.getTerminator()->getOperands())
      .contains(pos::Axis::head);
}

void ShapeChecker::requirements(pos::SitesOwnerInterface owner) {
  codegen::OwnerOperands operands = codegen::getOwnerOperands(owner);
  bool isAttention = !operands.values.empty();
  owner.getSitesRegion().walk([&](Operation *op) {
    auto rows = dyn_cast<pos::RowsOp>(op);
    auto turn = dyn_cast<pos::TurnRowsOp>(op);
    if (!isAttention || (!rows && !turn))
      return;
    if (differsBetweenKeyHeads(op, rows ? rows.getOf() : turn.getOf()))
      equal({operands.query, 1}, {operands.key, 1},
            describePlace(op) +
                "a row map of keys differs between heads: grouped queries, "
                "which share them, have no such map; heads of query and key");
  });
  owner.getSitesRegion().walk([&](pos::RequireExtentOp require) {
    bool ofKey = require.getExtent() == pos::Extent::key ||
                 require.getExtent() == pos::Extent::kv_heads;
    Value tensor = ofKey ? operands.key : operands.query;
    unsigned dim = 0;
    switch (require.getExtent()) {
    case pos::Extent::batch:
      break;
    case pos::Extent::heads:
    case pos::Extent::kv_heads:
      if (!isAttention)
        return; // Rows outside of attention have one head.
      dim = 1;
      break;
    case pos::Extent::query:
    case pos::Extent::key:
      dim = isAttention ? 2 : 1;
      break;
    default:
      return; // Static: decided when the encoding was inlined.
    }
    Value low = get({tensor, dim});
    Value high = arith::ConstantIndexOp::create(
        builder, location, static_cast<int64_t>(require.getLimit()));
    if (require.getRelation() == pos::Relation::at_least)
      std::swap(low, high);
    exec::CheckOp::create(builder, location, low, exec::Predicate::at_most,
                          high, require.getMessage());
  });
}

void ShapeChecker::positions(Value positions, Size batch, Size length,
                             const Twine &name) {
  if (!positions)
    return;
  multipleOf(batch, {positions, 0},
             "the batch is no multiple of that of " + name + " positions");
  equal({positions, 1}, length,
        name + " positions do not have one row per " + name);
}

template <typename AttentionOp> void ShapeChecker::attention(AttentionOp op) {
  Value query = op.getQuery(), key = op.getKey();
  equal({key, 0}, {query, 0}, "key and query differ in their batch");
  multipleOf({query, 1}, {key, 1},
             "the query's heads are no multiple of the key's");
  for (Value value : op.getValues()) {
    equal({value, 0}, {key, 0}, "value and key differ in their batch");
    equal({value, 1}, {key, 1}, "value and key differ in their heads");
    equal({value, 2}, {key, 2}, "value and key differ in their length");
  }
  positions(op.getQueryPositions(), {query, 0}, {query, 2}, "query");
  positions(op.getKeyPositions(), {query, 0}, {key, 2}, "key");
  // Tables whose rows stand in a product with a query row or beside the output.
  auto getParam = [&](Value table) {
    return op.getParams()[cast<BlockArgument>(table).getArgNumber()];
  };
  op.getBody().walk([&](pos::RowDotOpInterface dot) {
    Value rows = dot.getSide() == pos::Side::query ? query : key;
    std::string side = pos::stringifySide(dot.getSide()).str();
    std::string name = "'" + dot->getName().getStringRef().str() + "'";
    if (dot.getColumns())
      multipleOf({getParam(dot.getTable()), 0}, {rows, 3},
                 "a table of " + name + " has other columns than the " + side);
    else
      equal({getParam(dot.getTable()), 1}, {rows, 3},
            "a table of " + name + " has other rows than the " + side);
    if (dot.getAddend()) {
      Value addend = getParam(dot.getAddend());
      equal({addend, 0}, {rows, 1},
            "what " + name + " adds to the " + side + " has other heads");
      equal({addend, 1}, {rows, 3},
            "what " + name + " adds has other rows than the " + side);
    }
  });
  op.getBody().walk([&](pos::WeightedRowsOp rows) {
    equal({getParam(rows.getTable()), 1}, {op.getValues()[0], 3},
          "a table of 'pos.weighted_rows' has other rows than the value");
  });
  requirements(op);
}

void codegen::emitShapeChecks(OpBuilder &builder, Operation *op) {
  ShapeChecker checker(builder, op->getLoc());
  checker.vectors(cast<pos::SitesOwnerInterface>(op));
  checker.distances(cast<pos::SitesOwnerInterface>(op));
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](pos::AttentionOp attention) {
        checker.attention(attention);
        Value query = attention.getQuery();
        for (Value output : attention.getOutputs())
          checker.result(output, query, 3, "output and query");
        checker.result(attention.getLse(), query, 3, "lse and query");
        if (Value statistics = attention.getStatistics())
          checker.result(statistics, query, 3, "statistics and query");
      })
      .Case([&](pos::AttentionBackwardOp attention) {
        checker.attention(attention);
        Value query = attention.getQuery();
        auto rows = [&](Value tensor, const Twine &name) {
          for (int64_t dim = 0; dim < 3; ++dim)
            checker.equal({tensor, dim}, {query, dim},
                          name + " and query differ in their shape");
        };
        for (Value output : attention.getOutputs())
          rows(output, "output");
        for (Value gradient : attention.getOutputGradients())
          rows(gradient, "the output's gradient");
        rows(attention.getStatistics(), "statistics");
        rows(attention.getLseGradient(), "the gradient of lse");
        checker.result(attention.getQueryGradient(), query, 4,
                       "query and its gradient");
        checker.result(attention.getKeyGradient(), attention.getKey(), 4,
                       "key and its gradient");
        for (auto [value, gradient] : llvm::zip_equal(
                 attention.getValues(), attention.getValueGradients()))
          checker.result(gradient, value, 4, "value and its gradient");
      })
      .Case([&](pos::MapRowsOp map) {
        Value rows = getOwnerOperands(map).query, input = map.getInput();
        checker.result(map.getResult(), rows, 2, "input and mapped rows");
        checker.result({map.getResult(), 2}, {input, map.getIndices() ? 1 : 2},
                       "input and mapped rows differ in their shape");
        checker.positions(map.getPositions(), {rows, 0}, {rows, 1}, "row");
        checker.requirements(map);
      })
      .Case([&](pos::MapRowsBackwardOp map) {
        Value rows = getOwnerOperands(map).query, input = map.getInput();
        Value gradient = map.getResultGradient();
        for (int64_t dim : {0, 1})
          checker.equal({gradient, dim}, {rows, dim},
                        "input and gradient differ in their shape");
        checker.equal({gradient, 2}, {input, map.getIndices() ? 1 : 2},
                      "input and gradient differ in their shape");
        checker.result(map.getInputGradient(), gradient, 3,
                       "the gradients of input and mapped rows");
        checker.positions(map.getPositions(), {rows, 0}, {rows, 1}, "row");
        checker.requirements(map);
      });
}
