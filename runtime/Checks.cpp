//===- Checks.cpp - Checks that users ask for by name ---------------------===//

#include "runtime/Checks.h"
#include <algorithm>
#include <cstdlib>

std::vector<std::string_view> sextant::runtime::getRequestedChecks() {
  std::vector<std::string_view> checks;
  const char *variable = std::getenv("SEXTANT_CHECK");
  std::string_view rest = variable ? variable : "";
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    if (comma > 0)
      checks.push_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return checks;
}

bool sextant::runtime::isCheckRequested(std::string_view check) {
  std::vector<std::string_view> checks = getRequestedChecks();
  return std::find(checks.begin(), checks.end(), check) != checks.end();
}
