// Makes a file smaller by zlib, for the build: base/inflate.h reads it.
//
//   pack_bytes FILE PACKED
#include <zlib.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

int Fail(const char* path) {
  std::fprintf(stderr, "pack_bytes: %s: expected a file to read and one to write\n", path);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return Fail("FILE PACKED");
  std::ifstream in(argv[1], std::ios::binary);
  if (!in) return Fail(argv[1]);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  uLongf size = compressBound(bytes.size());
  std::vector<Bytef> packed(size);
  compress2(packed.data(), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
            Z_BEST_COMPRESSION);
  std::ofstream out(argv[2], std::ios::binary);
  out.write(reinterpret_cast<const char*>(packed.data()), static_cast<std::streamsize>(size));
  return out.flush() ? 0 : Fail(argv[2]);
}
