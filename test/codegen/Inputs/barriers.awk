# Counts the barriers of warps in PTX, and those with no access to memory since the one
# before in the same block.
/^\$L|^[{}]|bra/ { idle_since = 0 }
/[ \t](ld|st|atom|red)\./ { idle_since = 0 }
/bar\.warp\.sync/ { count++; idle += idle_since; idle_since = 1 }
END { print count + 0 " barriers, " idle + 0 " of them idle" }
