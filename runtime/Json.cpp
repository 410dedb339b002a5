//===- Json.cpp - Writes JSON ---------------------------------------------===//
//
// Texts are escaped as RFC 8259 asks, numbers are printed so that reading them
// gives the same bits.
//
//===----------------------------------------------------------------------===//

#include "runtime/Json.h"
#include <cmath>
#include <cstdio>

using namespace sextant::runtime;

void JsonWriter::separate() {
  if (needsComma)
    out += ", ";
  needsComma = true;
}

JsonWriter &JsonWriter::open(char bracket) {
  separate();
  out += bracket;
  needsComma = false;
  return *this;
}

JsonWriter &JsonWriter::close(char bracket) {
  out += bracket;
  needsComma = true;
  return *this;
}

void JsonWriter::quote(std::string_view text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      out += escape;
    } else {
      out += c;
    }
  }
  out += '"';
}

JsonWriter &JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  out += ": ";
  needsComma = false;
  return *this;
}

JsonWriter &JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter &JsonWriter::value(int64_t number) {
  separate();
  out += std::to_string(number);
  return *this;
}

JsonWriter &JsonWriter::value(double number) {
  if (!std::isfinite(number))
    return null();
  separate();
  char text[32];
  std::snprintf(text, sizeof(text), "%.17g", number);
  out += text;
  return *this;
}

JsonWriter &JsonWriter::value(bool flag) {
  separate();
  out += flag ? "true" : "false";
  return *this;
}

JsonWriter &JsonWriter::null() {
  separate();
  out += "null";
  return *this;
}
