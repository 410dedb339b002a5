//===- Result.h - Errors as values ------------------------------*- C++ -*-===//
//
// The runtime is built without exceptions: what can fail returns a Result, and
// a Result must be looked at. An error is one sentence for the user that names
// the thing at fault; where a system call failed, it names the call too.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_RESULT_H
#define SEXTANT_RUNTIME_RESULT_H

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace sextant::runtime {

/// One sentence about what went wrong.
class [[nodiscard]] Error {
public:
  explicit Error(std::string message) : text(std::move(message)) {}
  const std::string &message() const { return text; }
  /// The same error, with where it happened in front.
  Error in(const std::string &place) const {
    return Error(place + ": " + text);
  }

private:
  std::string text;
};

/// Puts the parts of a message together: numbers as text, strings as they are.
template <typename... Parts> Error makeError(const Parts &...parts) {
  std::string text;
  auto add = [&](const auto &part) {
    using Part = std::decay_t<decltype(part)>;
    if constexpr (std::is_arithmetic_v<Part>)
      text += std::to_string(part);
    else
      text += part;
  };
  (add(parts), ...);
  return Error(std::move(text));
}

/// A value or an error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return content.index() == 0; }
  T &operator*() { return std::get<0>(content); }
  const T &operator*() const { return std::get<0>(content); }
  T *operator->() { return &std::get<0>(content); }
  const T *operator->() const { return &std::get<0>(content); }
  const Error &error() const { return std::get<1>(content); }

private:
  std::variant<T, Error> content;
};

/// The result of something that gives nothing: success or an error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::move(error)) {}
  explicit operator bool() const { return !failure; }
  const Error &error() const { return *failure; }

private:
  std::optional<Error> failure;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_RESULT_H
