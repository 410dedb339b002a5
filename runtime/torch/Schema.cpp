//===- Schema.cpp - What an ATen operator takes and gives -----------------===//
//
// A schema is read from PyTorch's own notation, such as
// "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor".
//
//===----------------------------------------------------------------------===//

#include "runtime/torch/Schema.h"
#include <algorithm>

using namespace sextant::runtime;

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

static std::string_view trim(std::string_view text) {
  size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// Cuts at commas outside brackets.
static std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' || text[i] == '[';
    depth -= text[i] == ')' || text[i] == ']';
    if (text[i] == ',' && depth == 0) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (std::string_view last = trim(text.substr(begin)); !last.empty())
    parts.push_back(last);
  return parts;
}

/// "Tensor(a!)" -> "Tensor", "Tensor(a!)[]" -> "Tensor[]", "int[1]?" ->
/// "int[]?".
static std::string simplifyType(std::string_view text) {
  std::string result;
  int parentheses = 0, brackets = 0;
  for (char c : text) {
    parentheses += c == '(';
    brackets += c == '[';
    if (c == ']')
      --brackets;
    if (parentheses == 0 && (brackets == 0 || c == '['))
      result += c;
    parentheses -= c == ')';
  }
  return result;
}

static Result<SchemaType> parseType(std::string_view name) {
  static constexpr std::pair<std::string_view, SchemaType> types[] = {
      {"Tensor", SchemaType::Tensor},
      {"Tensor[]", SchemaType::Tensors},
      {"Tensor?[]", SchemaType::OptionalTensors},
      {"int", SchemaType::Int},
      {"SymInt", SchemaType::Int},
      {"int[]", SchemaType::Ints},
      {"SymInt[]", SchemaType::Ints},
      {"float", SchemaType::Float},
      {"bool", SchemaType::Bool},
      {"bool[]", SchemaType::Bools},
      {"str", SchemaType::String},
      {"ScalarType", SchemaType::DType},
      {"Scalar", SchemaType::Scalar},
      {"Generator", SchemaType::Generator},
      {"MemoryFormat", SchemaType::MemoryFormat},
      {"Layout", SchemaType::Other},
      {"Device", SchemaType::Device}};
  for (auto [text, type] : types)
    if (text == name)
      return type;
  return makeError("there is no conversion for the type ", std::string(name));
}

static Result<SchemaArgument> parseArgument(std::string_view text) {
  SchemaArgument argument;
  if (size_t equals = text.find('='); equals != std::string_view::npos) {
    argument.fallback = std::string(text.substr(equals + 1));
    text = text.substr(0, equals);
  }
  size_t space = text.rfind(' ');
  if (space == std::string_view::npos)
    return makeError("'", std::string(text), "' is not an argument");
  argument.name = std::string(text.substr(space + 1));
  argument.shared = text.starts_with("Tensor(");
  argument.written = argument.shared && text.find('!') < text.find(')');
  std::string type = simplifyType(text.substr(0, space));
  argument.optional = type.ends_with('?');
  if (argument.optional)
    type.pop_back();
  Result<SchemaType> parsed = parseType(type);
  if (!parsed)
    return parsed.error();
  argument.type = *parsed;
  return argument;
}

/// "Tensor", "(Tensor, Tensor output)", "Tensor(a)[]", "()".
static Status parseResults(std::string_view text, Schema &schema) {
  text = trim(text);
  if (text.starts_with('('))
    text = text.substr(1, text.size() - 2);
  for (std::string_view part : split(text)) {
    std::string type = simplifyType(part);
    type = type.substr(0, type.find(' '));
    if (type == "Tensor")
      ++schema.results;
    else if (type == "Tensor[]")
      schema.givesList = true;
    else
      return makeError("there is no conversion for a result of type ", type);
  }
  if (schema.givesList && schema.results)
    return makeError("a list among several results");
  return {};
}

Result<Schema> sextant::runtime::parseSchema(std::string_view text) {
  size_t open = text.find('('), arrow = text.rfind(" -> ");
  if (open == std::string_view::npos || arrow == std::string_view::npos ||
      arrow < open + 1)
    return makeError("'", std::string(text), "' is not a schema");
  Schema schema;
  std::string_view full = text.substr(0, open);
  size_t dot = full.find('.');
  schema.name = std::string(full.substr(0, dot));
  if (dot != std::string_view::npos)
    schema.overload = std::string(full.substr(dot + 1));
  for (std::string_view part : split(text.substr(open + 1, arrow - open - 2))) {
    if (part == "*")
      continue;
    Result<SchemaArgument> argument = parseArgument(part);
    if (!argument)
      return argument.error().in(std::string(full));
    schema.arguments.push_back(std::move(*argument));
  }
  if (Status status = parseResults(text.substr(arrow + 4), schema); !status)
    return status.error().in(std::string(full));
  return schema;
}

bool Schema::takes(SchemaType type) const {
  return std::any_of(
      arguments.begin(), arguments.end(),
      [type](const SchemaArgument &argument) { return argument.type == type; });
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

const std::vector<std::string> &sextant::runtime::getSchemaTexts() {
  static const std::vector<std::string> texts = {
#define SCHEMA(text) text,
#include "runtime/torch/Schemas.inc"
#undef SCHEMA
  };
  return texts;
}

Result<Schema> sextant::runtime::findSchema(const std::string &op) {
  std::string start = op + "(";
  for (const std::string &text : getSchemaTexts())
    if (text.starts_with(start))
      return parseSchema(text);
  return makeError("the runtime does not know the operator ", op,
                   " (runtime/torch/Schemas.inc lists those it knows)");
}
