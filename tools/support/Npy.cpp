//===- Npy.cpp - Arrays in NumPy's file format ----------------------------===//
//
// The header of the format is a dictionary in Python's notation, of which three
// entries are read.
//
//===----------------------------------------------------------------------===//

#include "tools/support/Npy.h"
#include "runtime/cpu/HostDevice.h"
#include "tools/support/Values.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

using namespace sextant;
using namespace sextant::runtime;

static constexpr std::pair<std::string_view, DType> descriptions[] = {
    {"<f4", DType::F32}, {"<f8", DType::F64}, {"<f2", DType::F16},
    {"<i8", DType::I64}, {"<i4", DType::I32}, {"<i2", DType::I16},
    {"|i1", DType::I8},  {"|u1", DType::U8},  {"|b1", DType::Bool}};

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// What follows 'key': in the header's dictionary.
static std::string_view getEntry(std::string_view header,
                                 std::string_view key) {
  size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos)
    return {};
  size_t colon = header.find(':', at);
  if (colon == std::string_view::npos)
    return {};
  header.remove_prefix(colon + 1);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

/// Sizes in parentheses; nothing for anything else, such as a negative size.
static std::optional<std::vector<int64_t>> parseShape(std::string_view text) {
  size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos)
    return std::nullopt;
  std::vector<int64_t> shape;
  std::string digits;
  for (char c : text.substr(1, end)) {
    if (c >= '0' && c <= '9') {
      digits += c;
      continue;
    }
    if (c != ',' && c != ' ' && c != ')')
      return std::nullopt;
    if (!digits.empty()) {
      if (digits.size() > 18)
        return std::nullopt;
      shape.push_back(std::stoll(digits));
    }
    digits.clear();
  }
  return shape;
}

Result<Tensor> tools::readNpy(const std::string &path) {
  auto fail = [&](const auto &...parts) {
    return makeError(path, ": ", parts...);
  };
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(std::strerror(errno));
  char magic[8];
  if (!file.read(magic, 8) || std::memcmp(magic, "\x93NUMPY", 6) != 0)
    return fail("not a .npy file");
  uint32_t length = 0;
  if (!file.read(reinterpret_cast<char *>(&length), magic[6] == 1 ? 2 : 4) ||
      length > (1u << 20))
    return fail("the header is damaged");
  std::string header(length, '\0');
  if (!file.read(header.data(), length))
    return fail("the file is cut short");
  if (getEntry(header, "fortran_order").starts_with("True"))
    return fail("the array is in Fortran order; save it in C order");
  std::string_view description = getEntry(header, "descr");
  std::optional<DType> dtype;
  for (auto [text, found] : descriptions)
    if (description.substr(0, 5) == "'" + std::string(text) + "'")
      dtype = found;
  if (!dtype)
    return fail("arrays of dtype ", std::string(description.substr(0, 5)),
                " cannot be read");
  std::optional<std::vector<int64_t>> shape =
      parseShape(getEntry(header, "shape"));
  if (!shape || shape->size() > maxRank)
    return fail("the shape cannot be read");
  Result<Tensor> tensor = allocateOnHost(*dtype, *shape);
  if (!tensor)
    return tensor.error().in(path);
  auto bytes =
      static_cast<std::streamsize>(tensor->elements() * getByteSize(*dtype));
  if (!file.read(static_cast<char *>(tensor->data), bytes))
    return fail("the file is cut short: ", bytes, " bytes of data expected, ",
                file.gcount(), " found");
  return tensor;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

Status tools::writeNpy(const std::string &path, const Tensor &tensor) {
  DType dtype = tensor.dtype == DType::BF16 ? DType::F32 : tensor.dtype;
  Tensor contiguous = tensor;
  if (dtype != tensor.dtype || !tensor.isContiguous()) {
    Result<Tensor> copy = makeTensor(dtype, tensor.shape(), getValues(tensor));
    if (!copy)
      return copy.error().in(path);
    contiguous = std::move(*copy);
  }
  std::string_view description;
  for (auto [text, found] : descriptions)
    if (found == dtype)
      description = text;
  std::string header = "{'descr': '" + std::string(description) +
                       "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.shape())
    header += std::to_string(size) + ", ";
  header += "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  auto length = static_cast<uint16_t>(header.size());
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  file.write(reinterpret_cast<const char *>(&length), 2);
  file << header;
  file.write(
      static_cast<const char *>(contiguous.data),
      static_cast<std::streamsize>(contiguous.elements() * getByteSize(dtype)));
  file.close();
  if (!file)
    return makeError("cannot write ", path, ": ", std::strerror(errno));
  return {};
}
