//===- Json.h - Writes JSON -------------------------------------*- C++ -*-===//
//
// This writer is all of JSON that the runtime needs: it writes manifests and
// profiles, and reads nothing.
//
//===----------------------------------------------------------------------===//

#ifndef SEXTANT_RUNTIME_JSON_H
#define SEXTANT_RUNTIME_JSON_H

#include <cstdint>
#include <string>
#include <string_view>

namespace sextant::runtime {

/// Writes one value, piece by piece; commas come by themselves.
class JsonWriter {
public:
  JsonWriter &beginObject() { return open('{'); }
  JsonWriter &endObject() { return close('}'); }
  JsonWriter &beginArray() { return open('['); }
  JsonWriter &endArray() { return close(']'); }
  JsonWriter &key(std::string_view name);
  JsonWriter &value(std::string_view text);
  JsonWriter &value(const char *text) { return value(std::string_view(text)); }
  JsonWriter &value(int64_t number);
  /// Infinities and NaN become null: JSON has none.
  JsonWriter &value(double number);
  JsonWriter &value(bool flag);
  JsonWriter &null();

  template <typename Value> JsonWriter &entry(std::string_view name, Value v) {
    key(name);
    return value(v);
  }

  const std::string &text() const { return out; }

private:
  JsonWriter &open(char bracket);
  JsonWriter &close(char bracket);
  void separate();
  void quote(std::string_view text);

  std::string out;
  bool needsComma = false;
};

} // namespace sextant::runtime

#endif // SEXTANT_RUNTIME_JSON_H
