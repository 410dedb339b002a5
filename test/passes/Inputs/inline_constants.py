"""Prints IR with every constant in the place of its uses: texts that differ in
the order of constants only become equal. Reads standard input."""

import re
import sys

scopes = [{}]
for line in sys.stdin:
    constant = re.match(r"\s*(%\w+) = arith.constant (.+)$", line)
    if constant:
        scopes[-1][constant[1]] = constant[2].replace(" ", "")
        continue

    def value(name):
        for scope in reversed(scopes):
            if name[0] in scope:
                return scope[name[0]]
        return name[0]

    print(re.sub(r"%\w+", value, line), end="")
    for brace in re.findall(r"[{}]", line):
        scopes.append({}) if brace == "{" else scopes.pop()
