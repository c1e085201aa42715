#include "estimator/pt2/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "estimator/base/error.h"
#include "estimator/base/quote.h"

namespace onnxfit::pt2 {
namespace {

// PyTorch 2.6 writes 8.2, 2.8 8.8, 2.11 8.17, 2.13 to 2.15 8.20; 8.1 is of October 2024, 7.3 came
// before it.  Of what is read here they differ in `as_none`, which held [] and holds true, and in
// kinds of arguments and element types that were added.  torch.export.load reads 8 and no other.
constexpr int64_t kOldestMajor = 7;
constexpr SchemaVersion kNewest = {8, 20};
constexpr std::string_view kNewestTorch = "2.15";

struct ScalarTypeRow {
  int64_t number;
  std::string_view name;
  DType dtype;
};

// schema.py: ScalarType.  A schema.yaml of 8.1 has 23 and 24, later ones 29 and 30 instead.
// complex32 is no number, and as wide as the one that stands for it.
constexpr ScalarTypeRow kScalarTypes[] = {
    {1, "uint8", DType::kUint8},
    {2, "int8", DType::kInt8},
    {3, "int16", DType::kInt16},
    {4, "int32", DType::kInt32},
    {5, "int64", DType::kInt64},
    {6, "float16", DType::kFloat16},
    {7, "float32", DType::kFloat32},
    {8, "float64", DType::kFloat64},
    {9, "complex32", DType::kUint32},
    {10, "complex64", DType::kComplex64},
    {11, "complex128", DType::kComplex128},
    {12, "bool", DType::kBool},
    {13, "bfloat16", DType::kBFloat16},
    {23, "float8_e5m2", DType::kFloat8E5M2},
    {24, "float8_e4m3fn", DType::kFloat8E4M3FN},
    {28, "uint16", DType::kUint16},
    {29, "float8_e4m3fn", DType::kFloat8E4M3FN},
    {30, "float8_e5m2", DType::kFloat8E5M2},
    {31, "float8_e4m3fnuz", DType::kFloat8E4M3FNUZ},
    {32, "float8_e5m2fnuz", DType::kFloat8E5M2FNUZ},
    {33, "float8_e8m0fnu", DType::kFloat8E8M0},
    {34, "uint32", DType::kUint32},
    {35, "uint64", DType::kUint64},
};

const ScalarTypeRow* FindScalarType(int64_t number) {
  const auto* const row = std::ranges::find(kScalarTypes, number, &ScalarTypeRow::number);
  return row == std::end(kScalarTypes) ? nullptr : row;
}

}  // namespace

void CheckSchema(const SchemaVersion& version, std::vector<std::string>& notes) {
  const auto [major, minor] = version;
  if (major < kOldestMajor || major > kNewest.major) {
    throw Error(
        {.text = fmt::format("schema {} or {} was expected (PyTorch 2.5 to {}), found {}.{}",
                             kOldestMajor, kNewest.major, kNewestTorch, major, minor),
         .hint = fmt::format("PyTorch {}, {}", kNewestTorch, kHowToExport)});
  }
  if (major == kNewest.major && minor > kNewest.minor) {
    notes.push_back(fmt::format("schema {}.{} is newer than {}.{}: what it adds is left out", major,
                                minor, kNewest.major, kNewest.minor));
  }
}

void CheckArchive(std::string_view format, std::string_view version) {
  if (format != "pt2") {
    throw Error({.where = "archive_format",
                 .text = fmt::format("'pt2' was expected, found {}", Quote(format))});
  }
  if (version != "0") {
    throw Error({.where = "archive_version",
                 .text = fmt::format("'0' was expected, found {}", Quote(version)),
                 .hint = fmt::format("PyTorch {}, {}", kNewestTorch, kHowToExport)});
  }
}

std::string_view ScalarTypeName(int64_t number) {
  const ScalarTypeRow* const row = FindScalarType(number);
  return row == nullptr ? "" : row->name;
}

DType ScalarTypeOf(int64_t number) {
  const ScalarTypeRow* const row = FindScalarType(number);
  return row == nullptr ? DType::kUndefined : row->dtype;
}

DType ScalarTypeOf(std::string_view name) {
  const auto* const row = std::ranges::find(kScalarTypes, name, &ScalarTypeRow::name);
  return row == std::end(kScalarTypes) ? DType::kUndefined : row->dtype;
}

std::string_view LayoutName(int64_t number) {
  constexpr std::string_view kNames[] = {"",           "sparse_coo", "sparse_csr", "sparse_csc",
                                         "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};
  return number < 0 || number >= std::ssize(kNames) ? "" : kNames[number];
}

std::string_view MemoryFormatName(int64_t number) {
  constexpr std::string_view kNames[] = {"", "contiguous_format", "channels_last",
                                         "channels_last_3d", "preserve_format"};
  return number < 0 || number >= std::ssize(kNames) ? "" : kNames[number];
}

}  // namespace onnxfit::pt2
