// symbols.cc - symbol tables of ELF files, and the mappings of the process.
#include "threads/base/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "threads/base/check.h"

namespace lockstep {
namespace {

class File {
public:
    explicit File(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}
    ~File() {
        if (fd_ >= 0) close(fd_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    // `count` elements at byte `offset`; empty if the file has not so many.
    template <class T>
    std::vector<T> read(uint64_t offset, uint64_t count) const {
        constexpr uint64_t kBytesMax = 256u << 20;
        if (fd_ < 0 || count > kBytesMax / sizeof(T)) return {};
        std::vector<T> all(count);
        auto* to = reinterpret_cast<char*>(all.data());
        for (size_t done = 0; done < count * sizeof(T);) {
            const ssize_t n =
                pread(fd_, to + done, count * sizeof(T) - done, static_cast<off_t>(offset + done));
            if (n <= 0) return {};
            done += static_cast<size_t>(n);
        }
        return all;
    }

private:
    const int fd_;
};

struct Named {
    std::string name;  // empty: unknown
    uintptr_t offset = 0;
};

bool covers(const Elf64_Sym& symbol, uintptr_t value) {
    return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
           value >= symbol.st_value && value - symbol.st_value < symbol.st_size;
}

// The function that covers `value`, an address as the file counts.
Named find(const File& file, uintptr_t value) {
    const auto header = file.read<Elf64_Ehdr>(0, 1);
    if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
        header[0].e_ident[EI_CLASS] != ELFCLASS64 || header[0].e_shentsize != sizeof(Elf64_Shdr))
        return {};
    const auto sections = file.read<Elf64_Shdr>(header[0].e_shoff, header[0].e_shnum);
    for (const Elf64_Shdr& table : sections) {
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
        const Elf64_Shdr& strings = sections[table.sh_link];
        for (const Elf64_Sym& symbol :
             file.read<Elf64_Sym>(table.sh_offset, table.sh_size / sizeof(Elf64_Sym))) {
            if (!covers(symbol, value) || symbol.st_name >= strings.sh_size) continue;
            const auto names = file.read<char>(strings.sh_offset, strings.sh_size);
            if (names.empty() || names.back() != '\0') return {};
            return {&names[symbol.st_name], value - symbol.st_value};
        }
    }
    return {};
}

std::string demangled(const std::string& name) {
    int status = 0;
    char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    std::string plain = text != nullptr ? text : name;
    std::free(text);
    return plain;
}

std::string hex(uintptr_t number) {
    char text[2 + 16 + 1];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
    return text;
}

}  // namespace

CodeMap::CodeMap() {
    FILE* maps = std::fopen("/proc/self/maps", "re");
    if (maps == nullptr) return;
    char line[512];
    while (std::fgets(line, sizeof line, maps) != nullptr) {
        unsigned long long begin = 0, end = 0;
        char rights[5] = {};
        if (std::sscanf(line, "%llx-%llx %4s", &begin, &end, rights) == 3 && rights[0] == 'r' &&
            rights[2] == 'x')
            ranges_.emplace_back(begin, end);
        DCHECK(begin <= end);
    }
    std::fclose(maps);
}

bool CodeMap::holds(uintptr_t address) const {
    for (const auto& [begin, end] : ranges_)
        if (address >= begin && address < end) return true;
    return false;
}

bool CodeMap::is_return_address(uintptr_t address) const {
    constexpr size_t kCallMax = 7;
    if (address < kCallMax || !holds(address - kCallMax) || !holds(address)) return false;
#ifdef __x86_64__
    unsigned char code[kCallMax];
    std::memcpy(code, reinterpret_cast<const void*>(address - kCallMax), kCallMax);
    if (code[kCallMax - 5] == 0xe8) return true;  // call rel32
    // call through a register or memory: ff /2, followed by 0, 1, 4 or 5 bytes of address
    for (const size_t bytes : {2u, 3u, 6u, 7u})
        if (code[kCallMax - bytes] == 0xff && (code[kCallMax - bytes + 1] & 0x38) == 0x10)
            return true;
    return false;
#else
    return true;
#endif
}

std::string symbol_of(uintptr_t address) {
    Dl_info info{};
    link_map* module = nullptr;
    if (dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&module),
                RTLD_DL_LINKMAP) == 0 ||
        info.dli_fname == nullptr || module == nullptr)
        return hex(address);
    const uintptr_t value = address - module->l_addr;
    const bool program = module->l_name == nullptr || module->l_name[0] == '\0';
    Named named = find(File(program ? "/proc/self/exe" : info.dli_fname), value);
    if (named.name.empty() && info.dli_sname != nullptr)
        named = {info.dli_sname, address - reinterpret_cast<uintptr_t>(info.dli_saddr)};
    const std::string place = std::string(info.dli_fname) + "+" + hex(value);
    if (named.name.empty()) return place;
    return demangled(named.name) + "+" + hex(named.offset) + " in " + place;
}

}  // namespace lockstep
