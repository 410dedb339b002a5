//===- ElfCheck.cpp - Whether the loader can map a shared object ----------===//
//
// The check follows what dlopen and dlsym read: program headers, the dynamic
// section, symbols with their names and hash tables, relocations. Only what
// kernels have is accepted: no code that runs at load, no libraries, no
// thread-local data.
//
//===----------------------------------------------------------------------===//

#include "runtime/ElfCheck.h"
#include <cstring>
#include <elf.h>
#include <map>
#include <vector>

using namespace sextant::runtime;

namespace {

/// Memory of kernels: far more than any has, and addresses cannot overflow.
constexpr uint64_t maxImage = uint64_t(1) << 30;
constexpr uint64_t maxAlign = uint64_t(1) << 16;
constexpr uint64_t pageBytes = 4096;

/// Checks one file, part by part, each of which says where the next one lies.
class ElfChecker {
public:
  explicit ElfChecker(std::span<const uint8_t> code) : code(code) {}

  Status check();

private:
  Status checkHeader();
  Status checkSegments();
  Status checkDynamic();
  Status checkTexts() const;
  Status checkHash();
  Status checkGnuHash();
  Status checkSymbols() const;
  Status checkRelocations(uint64_t address, uint64_t bytes,
                          uint64_t relativeCount) const;

  /// Copied: nothing in a damaged file is aligned.
  template <typename T> T get(uint64_t offset) const {
    T value;
    std::memcpy(&value, code.data() + offset, sizeof(T));
    return value;
  }
  bool isInside(uint64_t offset, uint64_t bytes) const {
    return offset <= code.size() && bytes <= code.size() - offset;
  }
  /// The segment that holds these bytes, of the file's part of it or of memory.
  const Elf64_Phdr *findSegment(uint64_t address, uint64_t bytes,
                                bool inFile) const;
  /// Where what is mapped at `address` stands in the file, if all of it does.
  std::optional<uint64_t> getOffset(uint64_t address, uint64_t bytes) const;

  /// Whether bytes overlap the dynamic section, which the loader goes on
  /// reading.
  bool isDynamic(uint64_t address, uint64_t bytes) const {
    return address + bytes > dynamicSegment.p_vaddr &&
           address < dynamicSegment.p_vaddr + dynamicSegment.p_memsz;
  }
  /// A value of the dynamic section; 0 if it has no such entry.
  uint64_t getEntry(int64_t tag) const {
    auto found = dynamic.find(tag);
    return found == dynamic.end() ? 0 : found->second;
  }

  std::span<const uint8_t> code;
  Elf64_Ehdr header;
  std::vector<Elf64_Phdr> segments; ///< those that are mapped
  Elf64_Phdr dynamicSegment{};
  std::map<int64_t, uint64_t> dynamic; ///< its entries
  uint64_t symbolCount = 0;
};

} // namespace

#define SEXTANT_CHECK(call)                                                    \
  if (Status status = (call); !status)                                         \
  return status

//===----------------------------------------------------------------------===//
// Headers
//===----------------------------------------------------------------------===//

Status ElfChecker::checkHeader() {
  if (code.size() < sizeof(Elf64_Ehdr) ||
      std::memcmp(code.data(), ELFMAG, SELFMAG) != 0)
    return makeError("they are no ELF file");
  header = get<Elf64_Ehdr>(0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_ident[EI_VERSION] != EV_CURRENT ||
      header.e_version != EV_CURRENT || header.e_type != ET_DYN ||
      header.e_machine != EM_X86_64)
    return makeError("they are no shared object for x86-64");
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phnum > 32 ||
      !isInside(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)))
    return makeError("the table of segments lies outside of their ",
                     code.size(), " bytes");
  return {};
}

const Elf64_Phdr *ElfChecker::findSegment(uint64_t address, uint64_t bytes,
                                          bool inFile) const {
  for (const Elf64_Phdr &segment : segments) {
    uint64_t room = inFile ? segment.p_filesz : segment.p_memsz;
    if (address >= segment.p_vaddr && address - segment.p_vaddr <= room &&
        bytes <= room - (address - segment.p_vaddr))
      return &segment;
  }
  return nullptr;
}

std::optional<uint64_t> ElfChecker::getOffset(uint64_t address,
                                              uint64_t bytes) const {
  const Elf64_Phdr *segment = findSegment(address, bytes, /*inFile=*/true);
  if (!segment)
    return std::nullopt;
  return segment->p_offset + (address - segment->p_vaddr);
}

/// Whether a segment's part of the file and its memory make sense.
static Status checkExtent(const Elf64_Phdr &segment, uint64_t fileBytes) {
  if (segment.p_offset > fileBytes ||
      segment.p_filesz > fileBytes - segment.p_offset)
    return makeError("a segment ends at byte ",
                     segment.p_offset + segment.p_filesz, " of ", fileBytes);
  if (segment.p_vaddr > maxImage || segment.p_memsz > maxImage ||
      segment.p_filesz > segment.p_memsz)
    return makeError("a segment has ", segment.p_memsz, " bytes at ",
                     segment.p_vaddr);
  return {};
}

Status ElfChecker::checkSegments() {
  std::vector<Elf64_Phdr> inside; // parts of what is mapped
  uint64_t end = 0;               // of the pages that are mapped so far
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    auto segment = get<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type != PT_GNU_STACK)
      SEXTANT_CHECK(checkExtent(segment, code.size()));
    switch (segment.p_type) {
    case PT_LOAD: {
      uint64_t align = segment.p_align;
      if (align == 0 || (align & (align - 1)) || align > maxAlign ||
          (segment.p_vaddr - segment.p_offset) % align != 0 ||
          segment.p_vaddr / pageBytes * pageBytes < end ||
          !(segment.p_flags & PF_R))
        return makeError("a segment at ", segment.p_vaddr,
                         " is not where it can be mapped");
      end = (segment.p_vaddr + segment.p_memsz + pageBytes - 1) / pageBytes *
            pageBytes;
      segments.push_back(segment);
      break;
    }
    case PT_DYNAMIC:
      if (dynamicSegment.p_type == PT_DYNAMIC)
        return makeError("they have two dynamic sections");
      dynamicSegment = segment;
      inside.push_back(segment);
      break;
    case PT_PHDR:
      if (segment.p_offset != header.e_phoff ||
          segment.p_filesz != header.e_phnum * sizeof(Elf64_Phdr))
        return makeError("the table of segments is said to lie elsewhere");
      inside.push_back(segment);
      break;
    case PT_GNU_RELRO:
    case PT_GNU_EH_FRAME:
      inside.push_back(segment);
      break;
    case PT_GNU_STACK:
      if (segment.p_flags & PF_X)
        return makeError("they ask for a stack of code");
      break;
    default:
      return makeError("they have a segment of the kind ", segment.p_type,
                       ", which kernels have not");
    }
  }
  for (const Elf64_Phdr &segment : inside)
    if (!findSegment(segment.p_vaddr, segment.p_memsz, /*inFile=*/false))
      return makeError("a segment of the kind ", segment.p_type,
                       " is not mapped");
  return {};
}

//===----------------------------------------------------------------------===//
// The dynamic section
//===----------------------------------------------------------------------===//

Status ElfChecker::checkDynamic() {
  if (dynamicSegment.p_type != PT_DYNAMIC)
    return makeError("they have no dynamic section");
  std::optional<uint64_t> begin =
      getOffset(dynamicSegment.p_vaddr, dynamicSegment.p_memsz);
  // The loader turns its addresses into pointers, in place.
  uint64_t count = dynamicSegment.p_memsz / sizeof(Elf64_Dyn);
  if (!begin || *begin != dynamicSegment.p_offset || count == 0 ||
      !(findSegment(dynamicSegment.p_vaddr, 1, /*inFile=*/true)->p_flags &
        PF_W))
    return makeError("the dynamic section is not where the loader writes");
  bool ends = false;
  for (uint64_t i = 0; i < count && !ends; ++i) {
    auto entry = get<Elf64_Dyn>(*begin + i * sizeof(Elf64_Dyn));
    ends = entry.d_tag == DT_NULL;
    if (!ends && !dynamic.insert({entry.d_tag, entry.d_un.d_val}).second)
      return makeError("the dynamic section has two entries ", entry.d_tag);
  }
  if (!ends)
    return makeError("the dynamic section has no end");

  // What stands together; the last of these may be missing.
  static constexpr std::initializer_list<int64_t> groups[] = {
      {DT_SYMTAB, DT_SYMENT, DT_STRTAB, DT_STRSZ, DT_HASH, DT_GNU_HASH},
      {DT_RELA, DT_RELASZ, DT_RELAENT},
      {DT_JMPREL, DT_PLTRELSZ, DT_PLTREL, DT_PLTGOT}};
  size_t known = dynamic.count(DT_RELACOUNT);
  for (const auto &group : groups) {
    size_t present = 0;
    for (int64_t tag : group)
      present += dynamic.count(tag);
    if (present != group.size() && (present || &group == &groups[0]))
      return makeError("the dynamic section has ", present, " of ",
                       group.size(), " entries that belong together");
    known += present;
  }
  auto isOr = [&](int64_t tag, uint64_t value) {
    return !dynamic.count(tag) || getEntry(tag) == value;
  };
  if (known != dynamic.size() || !isOr(DT_SYMENT, sizeof(Elf64_Sym)) ||
      !isOr(DT_RELAENT, sizeof(Elf64_Rela)) || !isOr(DT_PLTREL, DT_RELA))
    return makeError("the dynamic section has entries that kernels have not");
  return {};
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

Status ElfChecker::checkTexts() const {
  std::optional<uint64_t> begin =
      getOffset(getEntry(DT_STRTAB), getEntry(DT_STRSZ));
  if (!begin || getEntry(DT_STRSZ) == 0 ||
      code[*begin + getEntry(DT_STRSZ) - 1] != 0)
    return makeError("the names of symbols lie outside of the file");
  return {};
}

/// The number of symbols is that of the chains.
Status ElfChecker::checkHash() {
  auto damaged = [] { return makeError("the table of hashes is damaged"); };
  std::optional<uint64_t> begin = getOffset(getEntry(DT_HASH), 8);
  if (!begin)
    return damaged();
  uint64_t buckets = get<uint32_t>(*begin), chains = get<uint32_t>(*begin + 4);
  if (buckets == 0 || !getOffset(getEntry(DT_HASH), 8 + 4 * (buckets + chains)))
    return damaged();
  symbolCount = chains;
  auto getWord = [&](uint64_t word) {
    return get<uint32_t>(*begin + 8 + 4 * word);
  };
  uint64_t steps = 0; // a chain that goes round would never end
  for (uint64_t bucket = 0; bucket < buckets; ++bucket)
    for (uint64_t symbol = getWord(bucket); symbol != 0;
         symbol = getWord(buckets + symbol))
      if (symbol >= chains || ++steps > chains)
        return damaged();
  return {};
}

Status ElfChecker::checkGnuHash() {
  auto damaged = [] { return makeError("the table of GNU hashes is damaged"); };
  std::optional<uint64_t> begin = getOffset(getEntry(DT_GNU_HASH), 16);
  if (!begin)
    return damaged();
  uint64_t buckets = get<uint32_t>(*begin), first = get<uint32_t>(*begin + 4);
  uint64_t filters = get<uint32_t>(*begin + 8),
           shift = get<uint32_t>(*begin + 12);
  if (buckets == 0 || filters == 0 || (filters & (filters - 1)) ||
      shift >= 32 || first > symbolCount)
    return damaged();
  uint64_t lists = 16 + 8 * filters, chains = lists + 4 * buckets;
  if (!getOffset(getEntry(DT_GNU_HASH), chains + 4 * (symbolCount - first)))
    return damaged();
  for (uint64_t bucket = 0; bucket < buckets; ++bucket) {
    uint64_t symbol = get<uint32_t>(*begin + lists + 4 * bucket);
    if (symbol == 0)
      continue;
    if (symbol < first)
      return damaged();
    // The last of a chain has the lowest bit.
    do {
      if (symbol >= symbolCount)
        return damaged();
    } while (!(get<uint32_t>(*begin + chains + 4 * (symbol++ - first)) & 1));
  }
  return {};
}

Status ElfChecker::checkSymbols() const {
  std::optional<uint64_t> begin =
      getOffset(getEntry(DT_SYMTAB), symbolCount * sizeof(Elf64_Sym));
  if (!begin)
    return makeError("the table of symbols lies outside of the file");
  for (uint64_t i = 0; i < symbolCount; ++i) {
    auto symbol = get<Elf64_Sym>(*begin + i * sizeof(Elf64_Sym));
    unsigned type = ELF64_ST_TYPE(symbol.st_info);
    bool plain = type == STT_NOTYPE || type == STT_OBJECT || type == STT_FUNC;
    if (symbol.st_name >= getEntry(DT_STRSZ) || !plain)
      return makeError("symbol ", i, " is damaged");
    if (symbol.st_shndx == SHN_UNDEF) {
      // Nothing stands in for a function that is missing.
      if (i > 0 && ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL)
        return makeError("symbol ", i, " is damaged");
      continue;
    }
    const Elf64_Phdr *segment =
        findSegment(symbol.st_value, symbol.st_size, /*inFile=*/false);
    if (!segment || (type == STT_FUNC && !(segment->p_flags & PF_X)))
      return makeError("symbol ", i, " lies outside of what is mapped");
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Relocations
//===----------------------------------------------------------------------===//

Status ElfChecker::checkRelocations(uint64_t address, uint64_t bytes,
                                    uint64_t relativeCount) const {
  if (bytes == 0)
    return {};
  std::optional<uint64_t> begin = getOffset(address, bytes);
  uint64_t count = bytes / sizeof(Elf64_Rela);
  if (!begin || bytes % sizeof(Elf64_Rela) || relativeCount > count)
    return makeError("the relocations lie outside of the file");
  for (uint64_t i = 0; i < count; ++i) {
    auto entry = get<Elf64_Rela>(*begin + i * sizeof(Elf64_Rela));
    uint64_t type = ELF64_R_TYPE(entry.r_info);
    const Elf64_Phdr *segment =
        findSegment(entry.r_offset, sizeof(uint64_t), /*inFile=*/false);
    bool relative = type == R_X86_64_RELATIVE;
    bool named = type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT ||
                 type == R_X86_64_64;
    if (!segment || !(segment->p_flags & PF_W) ||
        isDynamic(entry.r_offset, sizeof(uint64_t)) || (!relative && !named) ||
        (!relative && i < relativeCount) ||
        (relative && !findSegment(static_cast<uint64_t>(entry.r_addend), 0,
                                  /*inFile=*/false)) ||
        ELF64_R_SYM(entry.r_info) >= symbolCount)
      return makeError("relocation ", i, " is damaged");
  }
  return {};
}

Status ElfChecker::check() {
  SEXTANT_CHECK(checkHeader());
  SEXTANT_CHECK(checkSegments());
  SEXTANT_CHECK(checkDynamic());
  SEXTANT_CHECK(checkTexts());
  SEXTANT_CHECK(checkHash());
  SEXTANT_CHECK(checkGnuHash());
  SEXTANT_CHECK(checkSymbols());
  SEXTANT_CHECK(checkRelocations(getEntry(DT_RELA), getEntry(DT_RELASZ),
                                 getEntry(DT_RELACOUNT)));
  SEXTANT_CHECK(
      checkRelocations(getEntry(DT_JMPREL), getEntry(DT_PLTRELSZ), 0));
  if (!dynamic.count(DT_PLTGOT))
    return {};
  // The loader writes the first three words.
  uint64_t address = getEntry(DT_PLTGOT);
  const Elf64_Phdr *segment = findSegment(address, 24, /*inFile=*/false);
  if (!segment || !(segment->p_flags & PF_W) || isDynamic(address, 24))
    return makeError("the table of addresses is not in memory to write to");
  return {};
}

Status sextant::runtime::checkElf(std::span<const uint8_t> code) {
  if (Status status = ElfChecker(code).check(); !status)
    return status.error().in("the artifact's kernels are damaged");
  return {};
}
