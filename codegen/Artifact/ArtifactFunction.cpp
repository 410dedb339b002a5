//===- ArtifactFunction.cpp - One exec function as instructions -----------===//
//
// Every tensor value gets a tensor register, every index value an integer
// register; constants come first. The runtime checks what is written here
// again when it loads it.
//
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/ArtifactFunction.h"
#include "dialects/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sextant;
using namespace sextant::codegen;
using flatbuffers::Offset;

namespace {

class FunctionWriter {
public:
  FunctionWriter(flatbuffers::FlatBufferBuilder &builder, func::FuncOp function,
                 KernelNames &kernels, DataPool &data)
      : builder(builder), function(function), kernels(kernels), data(data) {}

  FailureOr<Offset<artifact::Function>> write();

private:
  using Numbers = std::vector<uint32_t>;

  void collectConstants();
  LogicalResult addTensor(Operation *op, Value value);
  uint32_t addInteger(Value value);
  uint32_t getTensor(Value value) const { return tensors.lookup(value); }
  uint32_t getInteger(Value value) const { return integers.lookup(value); }
  Numbers getTensors(ValueRange values) const;
  Numbers getIntegers(ValueRange values) const;
  Offset<flatbuffers::Vector<uint32_t>> writeNumbers(const Numbers &numbers);
  void add(Operation *op, artifact::Body kind, Offset<void> body);

  LogicalResult writeOp(Operation *op);
  LogicalResult writeIntegerOp(Operation *op, artifact::IntegerKind kind);
  LogicalResult writeConstant(arith::ConstantOp op);
  LogicalResult writeDim(tensor::DimOp op);
  LogicalResult writeDistance(exec::DistanceOp op);
  LogicalResult writeCast(tensor::CastOp op);
  LogicalResult writeAlloc(exec::AllocOp op);
  LogicalResult writeLaunch(exec::LaunchOp op);
  LogicalResult writeDense(exec::DenseOp op);
  LogicalResult writeView(exec::ViewOp op);
  LogicalResult writeCheck(exec::CheckOp op);
  LogicalResult writeCheckData(exec::CheckDataOp op);
  LogicalResult writeReturn(func::ReturnOp op);
  FailureOr<Offset<artifact::DenseArgument>> writeArgument(exec::DenseOp op,
                                                           Attribute argument);
  std::vector<Offset<artifact::Argument>>
  writeArguments(std::vector<std::string> &dimNames);

  flatbuffers::FlatBufferBuilder &builder;
  func::FuncOp function;
  KernelNames &kernels;
  DataPool &data;
  DenseMap<Value, uint32_t> tensors, integers;
  llvm::MapVector<int64_t, uint32_t> constants;
  uint32_t integerCount = 0;
  std::vector<Offset<artifact::TensorType>> types;
  std::vector<Offset<artifact::Instruction>> instructions;
};

} // namespace

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

/// Constants have the first integer registers: they must be known before the
/// first instruction is written.
void FunctionWriter::collectConstants() {
  auto addConstant = [&](int64_t value) {
    return constants.insert({value, constants.size()}).first->second;
  };
  for (Operation &op : function.getBody().front()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      if (auto value = dyn_cast<IntegerAttr>(constant.getValue()))
        if (constant.getType().isIndex())
          integers[constant] = addConstant(value.getInt());
    if (auto cast = dyn_cast<tensor::CastOp>(op))
      if (auto source = dyn_cast<RankedTensorType>(cast.getSource().getType()))
        for (int64_t dim : source.getShape())
          if (!ShapedType::isDynamic(dim))
            addConstant(dim);
  }
  integerCount = constants.size();
}

LogicalResult FunctionWriter::addTensor(Operation *op, Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return op->emitError("a program's values are ranked tensors and indices, "
                         "not ")
           << value.getType();
  FailureOr<Offset<artifact::TensorType>> written =
      writeType(builder, op, type);
  if (failed(written))
    return failure();
  tensors[value] = types.size();
  types.push_back(*written);
  return success();
}

uint32_t FunctionWriter::addInteger(Value value) {
  if (value)
    integers[value] = integerCount;
  return integerCount++;
}

FunctionWriter::Numbers FunctionWriter::getTensors(ValueRange values) const {
  Numbers numbers;
  for (Value value : values)
    numbers.push_back(getTensor(value));
  return numbers;
}

FunctionWriter::Numbers FunctionWriter::getIntegers(ValueRange values) const {
  Numbers numbers;
  for (Value value : values)
    numbers.push_back(getInteger(value));
  return numbers;
}

Offset<flatbuffers::Vector<uint32_t>>
FunctionWriter::writeNumbers(const Numbers &numbers) {
  return builder.CreateVector(numbers);
}

/// The name that a location carries, or "". What was inlined and has no name of
/// its own has that of the call.
static StringRef getLabel(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName();
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location inner : fused.getLocations())
      if (StringRef label = getLabel(inner); !label.empty())
        return label;
  if (auto call = dyn_cast<CallSiteLoc>(location)) {
    StringRef label = getLabel(call.getCallee());
    return label.empty() ? getLabel(call.getCaller()) : label;
  }
  return "";
}

void FunctionWriter::add(Operation *op, artifact::Body kind,
                         Offset<void> body) {
  auto label = builder.CreateSharedString(getLabel(op->getLoc()).str());
  instructions.push_back(
      artifact::CreateInstruction(builder, kind, body, label));
}

//===----------------------------------------------------------------------===//
// Integers and constants
//===----------------------------------------------------------------------===//

LogicalResult FunctionWriter::writeIntegerOp(Operation *op,
                                             artifact::IntegerKind kind) {
  if (!op->getResult(0).getType().isIndex())
    return op->emitError("a program's integers are indices, not ")
           << op->getResult(0).getType();
  uint32_t left = getInteger(op->getOperand(0));
  uint32_t right = getInteger(op->getOperand(1));
  uint32_t result = addInteger(op->getResult(0));
  add(op, artifact::Body::Integer,
      artifact::CreateInteger(builder, kind, left, right, result).Union());
  return success();
}

LogicalResult FunctionWriter::writeConstant(arith::ConstantOp op) {
  if (op.getType().isIndex())
    return success();
  auto values = dyn_cast<ElementsAttr>(op.getValue());
  if (!values)
    return op.emitError("a program's constants are tensors and indices, not ")
           << op.getType();
  FailureOr<uint32_t> number = data.add(op, values);
  if (failed(number) || failed(addTensor(op, op)))
    return failure();
  add(op, artifact::Body::Constant,
      artifact::CreateConstant(builder, getTensor(op), *number).Union());
  return success();
}

LogicalResult FunctionWriter::writeDim(tensor::DimOp op) {
  IntegerAttr axis;
  if (!matchPattern(op.getIndex(), m_Constant(&axis)))
    return op.emitError("the dimension must be a constant");
  uint32_t source = getTensor(op.getSource());
  uint32_t result = addInteger(op.getResult());
  add(op, artifact::Body::Dim,
      artifact::CreateDim(builder, source, axis.getInt(), result).Union());
  return success();
}

LogicalResult FunctionWriter::writeDistance(exec::DistanceOp op) {
  auto axes = writeNumbers(Numbers(op.getDims().begin(), op.getDims().end()));
  uint32_t source = getTensor(op.getSource());
  uint32_t result = addInteger(op.getResult());
  add(op, artifact::Body::Distance,
      artifact::CreateDistance(builder, source, axes, result).Union());
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// A cast is a view with the same sizes; the runtime compares static ones.
LogicalResult FunctionWriter::writeCast(tensor::CastOp op) {
  auto source = dyn_cast<RankedTensorType>(op.getSource().getType());
  auto type = dyn_cast<RankedTensorType>(op.getType());
  if (!source || !type)
    return op.emitError("a program's tensors are ranked");
  Numbers sizes;
  for (auto [axis, dim] : llvm::enumerate(type.getShape())) {
    if (!ShapedType::isDynamic(dim))
      continue;
    if (!source.isDynamicDim(axis)) {
      sizes.push_back(constants.lookup(source.getDimSize(axis)));
      continue;
    }
    uint32_t result = addInteger(Value());
    add(op, artifact::Body::Dim,
        artifact::CreateDim(builder, getTensor(op.getSource()), axis, result)
            .Union());
    sizes.push_back(result);
  }
  if (failed(addTensor(op, op.getResult())))
    return failure();
  auto sizesVector = writeNumbers(sizes);
  add(op, artifact::Body::View,
      artifact::CreateView(builder, getTensor(op.getSource()),
                           getTensor(op.getResult()), 0, sizesVector)
          .Union());
  return success();
}

LogicalResult FunctionWriter::writeAlloc(exec::AllocOp op) {
  if (failed(addTensor(op, op.getResult())))
    return failure();
  auto sizes = writeNumbers(getIntegers(op.getSizes()));
  add(op, artifact::Body::Alloc,
      artifact::CreateAlloc(builder, getTensor(op.getResult()), sizes,
                            op.getZero())
          .Union());
  return success();
}

LogicalResult FunctionWriter::writeView(exec::ViewOp op) {
  if (failed(addTensor(op, op.getResult())))
    return failure();
  Numbers permutation;
  if (std::optional<ArrayRef<int64_t>> given = op.getPermutation())
    permutation.assign(given->begin(), given->end());
  auto permutationVector = writeNumbers(permutation);
  auto sizes = writeNumbers(getIntegers(op.getSizes()));
  add(op, artifact::Body::View,
      artifact::CreateView(builder, getTensor(op.getSource()),
                           getTensor(op.getResult()), permutationVector, sizes)
          .Union());
  return success();
}

//===----------------------------------------------------------------------===//
// Launches and dense operators
//===----------------------------------------------------------------------===//

LogicalResult FunctionWriter::writeLaunch(exec::LaunchOp op) {
  StringRef name = op.getKernel().getLeafReference();
  uint32_t kernel = kernels.insert({name, kernels.size()}).first->second;
  auto reads = writeNumbers(getTensors(op.getReads()));
  auto writes = writeNumbers(getTensors(op.getWrites()));
  auto scalars = writeNumbers(getIntegers(op.getScalars()));
  auto optional = [&](Value value) -> flatbuffers::Optional<uint32_t> {
    if (!value)
      return flatbuffers::nullopt;
    return getInteger(value);
  };
  add(op, artifact::Body::Launch,
      artifact::CreateLaunch(builder, kernel, reads, writes, scalars,
                             optional(op.getFlops()), optional(op.getBytes()))
          .Union());
  return success();
}

FailureOr<Offset<artifact::DenseArgument>>
FunctionWriter::writeArgument(exec::DenseOp op, Attribute argument) {
  using artifact::ArgumentKind;
  artifact::ArgumentKind kind = ArgumentKind::None;
  int64_t number = 0;
  double real = 0.0;
  std::vector<int64_t> numbers;
  std::string text;
  auto registers = [&](ArrayRef<int64_t> operands, bool tensor) {
    for (int64_t operand : operands) {
      Value value = op.getOperands()[operand];
      numbers.push_back(tensor ? getTensor(value) : getInteger(value));
    }
  };
  if (auto attr = dyn_cast<exec::TensorAttr>(argument)) {
    kind = ArgumentKind::Tensor;
    number = getTensor(op.getOperands()[attr.getNumber()]);
  } else if (auto attr = dyn_cast<exec::TensorsAttr>(argument)) {
    kind = ArgumentKind::Tensors;
    registers(attr.getNumbers(), true);
  } else if (auto attr = dyn_cast<exec::IntegerAttr>(argument)) {
    kind = ArgumentKind::Integer;
    number = getInteger(op.getOperands()[attr.getNumber()]);
  } else if (auto attr = dyn_cast<exec::IntegersAttr>(argument)) {
    kind = ArgumentKind::Integers;
    registers(attr.getNumbers(), false);
  } else if (auto attr = dyn_cast<BoolAttr>(argument)) {
    kind = ArgumentKind::Bool;
    number = attr.getValue();
  } else if (auto attr = dyn_cast<mlir::IntegerAttr>(argument)) {
    kind = ArgumentKind::Int;
    number = attr.getInt();
  } else if (auto attr = dyn_cast<FloatAttr>(argument)) {
    kind = ArgumentKind::Float;
    real = attr.getValueAsDouble();
  } else if (auto attr = dyn_cast<DenseI64ArrayAttr>(argument)) {
    kind = ArgumentKind::Ints;
    numbers = attr.asArrayRef().vec();
  } else if (auto attr = dyn_cast<StringAttr>(argument)) {
    kind = ArgumentKind::String;
    text = attr.getValue();
  } else if (auto attr = dyn_cast<TypeAttr>(argument)) {
    std::optional<artifact::DType> dtype = getArtifactDType(attr.getValue());
    if (!dtype)
      return op.emitError("an artifact has no tensors of ") << attr.getValue();
    kind = ArgumentKind::DType;
    number = static_cast<int64_t>(*dtype);
  }
  auto numbersVector = builder.CreateVector(numbers);
  auto textOffset = builder.CreateSharedString(text);
  return artifact::CreateDenseArgument(builder, kind, number, numbersVector,
                                       real, textOffset);
}

LogicalResult FunctionWriter::writeDense(exec::DenseOp op) {
  std::vector<Offset<artifact::DenseArgument>> arguments;
  for (Attribute argument : op.getArguments()) {
    FailureOr<Offset<artifact::DenseArgument>> written =
        writeArgument(op, argument);
    if (failed(written))
      return failure();
    arguments.push_back(*written);
  }
  for (Value output : op.getOutputs())
    if (failed(addTensor(op, output)))
      return failure();
  auto name = builder.CreateSharedString(op.getOp().str());
  auto argumentsVector = builder.CreateVector(arguments);
  auto outputs = writeNumbers(getTensors(op.getOutputs()));
  add(op, artifact::Body::Dense,
      artifact::CreateDense(builder, name, argumentsVector, outputs).Union());
  return success();
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

static artifact::Predicate getPredicate(exec::Predicate predicate) {
  switch (predicate) {
  case exec::Predicate::equal:
    return artifact::Predicate::Equal;
  case exec::Predicate::at_most:
    return artifact::Predicate::AtMost;
  case exec::Predicate::multiple_of:
    return artifact::Predicate::MultipleOf;
  case exec::Predicate::at_least:
    return artifact::Predicate::AtLeast;
  case exec::Predicate::is:
    return artifact::Predicate::Is;
  }
  llvm_unreachable("a predicate that the artifact lacks");
}

LogicalResult FunctionWriter::writeCheck(exec::CheckOp op) {
  auto message = builder.CreateSharedString(op.getMessage().str());
  add(op, artifact::Body::Check,
      artifact::CreateCheck(builder, getInteger(op.getLeft()),
                            getPredicate(op.getPredicate()),
                            getInteger(op.getRight()), message)
          .Union());
  return success();
}

LogicalResult FunctionWriter::writeCheckData(exec::CheckDataOp op) {
  auto message = builder.CreateSharedString(op.getMessage().str());
  add(op, artifact::Body::CheckData,
      artifact::CreateCheckData(builder, getTensor(op.getSource()),
                                op.getNumber(), getPredicate(op.getPredicate()),
                                getInteger(op.getBound()), message)
          .Union());
  return success();
}

LogicalResult FunctionWriter::writeReturn(func::ReturnOp op) {
  auto results = writeNumbers(getTensors(op.getOperands()));
  add(op, artifact::Body::Return,
      artifact::CreateReturn(builder, results).Union());
  return success();
}

LogicalResult FunctionWriter::writeOp(Operation *op) {
  using artifact::IntegerKind;
  auto integer = [&](IntegerKind kind) { return writeIntegerOp(op, kind); };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](arith::ConstantOp op) { return writeConstant(op); })
      .Case([&](tensor::DimOp op) { return writeDim(op); })
      .Case([&](exec::DistanceOp op) { return writeDistance(op); })
      .Case([&](tensor::CastOp op) { return writeCast(op); })
      .Case([&](exec::AllocOp op) { return writeAlloc(op); })
      .Case([&](exec::LaunchOp op) { return writeLaunch(op); })
      .Case([&](exec::DenseOp op) { return writeDense(op); })
      .Case([&](exec::ViewOp op) { return writeView(op); })
      .Case([&](exec::CheckOp op) { return writeCheck(op); })
      .Case([&](exec::CheckDataOp op) { return writeCheckData(op); })
      .Case([&](exec::ReleaseOp op) {
        auto tensors = writeNumbers(getTensors(op.getTensors()));
        add(op, artifact::Body::Release,
            artifact::CreateRelease(builder, tensors).Union());
        return success();
      })
      .Case([&](func::ReturnOp op) { return writeReturn(op); })
      .Case([&](arith::AddIOp) { return integer(IntegerKind::Add); })
      .Case([&](arith::SubIOp) { return integer(IntegerKind::Subtract); })
      .Case([&](arith::MulIOp) { return integer(IntegerKind::Multiply); })
      .Case([&](arith::DivSIOp) { return integer(IntegerKind::Divide); })
      .Case([&](arith::FloorDivSIOp) {
        return integer(IntegerKind::FloorDivide);
      })
      .Case(
          [&](arith::CeilDivSIOp) { return integer(IntegerKind::CeilDivide); })
      .Case([&](arith::RemSIOp) { return integer(IntegerKind::Remainder); })
      .Case([&](arith::MinSIOp) { return integer(IntegerKind::Minimum); })
      .Case([&](arith::MaxSIOp) { return integer(IntegerKind::Maximum); })
      .Default([](Operation *op) {
        return op->emitError(
            "not an instruction of the runtime; a program at the level "
            "of exec has none (see docs: dialect exec)");
      });
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

std::vector<Offset<artifact::Argument>>
FunctionWriter::writeArguments(std::vector<std::string> &dimNames) {
  std::vector<Offset<artifact::Argument>> arguments;
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto name = function.getArgAttrOfType<StringAttr>(number, "exec.name");
    auto dims = function.getArgAttrOfType<ArrayAttr>(number, "exec.dims");
    auto type = cast<RankedTensorType>(argument.getType());
    std::vector<int32_t> dimNumbers(type.getRank(), -1);
    for (auto [dim, attr] :
         llvm::enumerate(dims ? dims.getValue() : ArrayRef<Attribute>())) {
      auto dimName = dyn_cast<StringAttr>(attr);
      if (!dimName || dimName.empty() || dim >= dimNumbers.size())
        continue;
      auto found = llvm::find(dimNames, dimName.getValue());
      dimNumbers[dim] = std::distance(dimNames.begin(), found);
      if (found == dimNames.end())
        dimNames.push_back(dimName.str());
    }
    auto nameOffset = builder.CreateString(
        name ? name.str() : "arg" + std::to_string(number));
    auto dimsOffset = builder.CreateVector(dimNumbers);
    arguments.push_back(
        artifact::CreateArgument(builder, nameOffset, dimsOffset));
  }
  return arguments;
}

FailureOr<Offset<artifact::Function>> FunctionWriter::write() {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError("a program's function has one block");
  for (BlockArgument argument : function.getArguments()) {
    if (failed(addTensor(function, argument)))
      return failure();
    auto dims = function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(),
                                                     "exec.dims");
    auto type = cast<RankedTensorType>(argument.getType());
    if (dims && dims.size() != static_cast<size_t>(type.getRank()))
      return function.emitError("exec.dims of argument ")
             << argument.getArgNumber() << " has " << dims.size()
             << " names for " << type.getRank() << " dimensions";
  }
  collectConstants();
  for (Operation &op : function.getBody().front())
    if (failed(writeOp(&op)))
      return failure();

  std::vector<std::string> dimNames, results;
  std::vector<Offset<artifact::Argument>> arguments = writeArguments(dimNames);
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto name = function.getResultAttrOfType<StringAttr>(i, "exec.name");
    results.push_back(name ? name.str() : "result" + std::to_string(i));
  }
  std::vector<int64_t> constantValues;
  for (auto [value, number] : constants)
    constantValues.push_back(value);
  auto name = builder.CreateString(function.getSymName().str());
  auto argumentsOffset = builder.CreateVector(arguments);
  auto dimNamesOffset = builder.CreateVectorOfStrings(dimNames);
  auto resultsOffset = builder.CreateVectorOfStrings(results);
  auto typesOffset = builder.CreateVector(types);
  auto constantsOffset = builder.CreateVector(constantValues);
  auto instructionsOffset = builder.CreateVector(instructions);
  return artifact::CreateFunction(
      builder, name, argumentsOffset, dimNamesOffset, resultsOffset,
      typesOffset, constantsOffset, integerCount, instructionsOffset);
}

FailureOr<Offset<artifact::Function>>
codegen::writeFunction(flatbuffers::FlatBufferBuilder &builder,
                       func::FuncOp function, KernelNames &kernels,
                       DataPool &data) {
  return FunctionWriter(builder, function, kernels, data).write();
}
