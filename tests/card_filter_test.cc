#include <doctest/doctest.h>

#include "estimator/base/card_names.h"
#include "estimator/base/error.h"

namespace onnxfit::card_filter_test {
namespace {

using Filters = std::vector<std::string>;

std::string Matching(const Filters& filters) {
  std::string aliases;
  for (const Card* card : FilterCards(filters)) {
    aliases += aliases.empty() ? "" : " ";
    aliases += card->alias;
  }
  return aliases;
}

std::string ErrorOf(const std::string& filter) {
  try {
    FilterCards(Filters{filter});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr char k24GiB[] =
    "titanrtx rtx3090 rtx3090ti rtx4090 rtx5090-laptop a5000 a5500 rtx4500-ada quadro-rtx6000 "
    "p6000 p40 a10 a10g a30 l4";
constexpr char k16[] =
    "rtx3080-laptop rtx4060ti-16gb rtx4080 rtx4080s rtx4090-laptop rtx5060ti rtx5070ti rtx5080 "
    "a4000 rtx2000-ada rtx5000-ada-laptop quadro-rtx5000 p100 t4 v100-16gb a2 a16 "
    "jetson-agx-xavier jetson-orin-nx";
constexpr char k10To11[] = "gtx1080ti rtx2080ti rtx3080";

}  // namespace

TEST_CASE("filters find cards") {
  struct Case {
    const char* filter;
    const char* aliases;
  };
  const Case cases[] = {
      {"t4", "t4"},
      {"3090", "rtx3090 rtx3090ti"},
      {"RTX 3090", "rtx3090 rtx3090ti"},
      {"NVIDIA GeForce RTX 3090", "rtx3090 rtx3090ti"},
      {"2080", "rtx2080 rtx2080s rtx2080ti"},
      {"2080s", "rtx2080s"},
      {"titan", "titanx titanxp titanv titanrtx"},
      {"TITAN X", "titanx titanxp"},
      {"orin", "jetson-orin-nano jetson-orin-nx jetson-agx-orin-32gb jetson-agx-orin"},
      {"L40", "l40 l40s"},
      {"edge", "gb10"},
      {"cloud", "k520"},
      {"AMD", "mi250x mi300x"},
      {"24GiB", k24GiB},
      {"24 gib", k24GiB},
      {"24GB", k24GiB},
      {"24g", k24GiB},
      {"24576MiB", k24GiB},
      {"=24GiB", k24GiB},
      {"22.5GiB",
       "a5000 a5500 rtx4500-ada quadro-rtx6000 p6000 p40 a10 a10g l4"},  // between CUDA's size and
                                                                         // the one sold
      {"141GiB", "h200"},
      {"139.9GiB", "h200"},
      {"139.7GiB", ""},
      {"10..11GiB", k10To11},
      {"10GiB..11GiB", k10To11},
      {"10240MiB..11GiB", k10To11},
      {"11..10GiB", ""},
      {">=192GiB", "b300 mi300x"},
      {">192GiB", "b300"},
      {">= 192GB", "b300 mi300x"},
      {"<3GiB", "gtx1050 jetson-nano-2gb"},
      {"<=3GiB", "gtx1050 gtx1060-3gb jetson-nano-2gb"},
      {"5GiB", ""},
      {"24", k24GiB},
      {">=192", "b300 mi300x"},
      {"10..11", k10To11},
      {"2.0", "gtx1050 jetson-nano-2gb"},
      {"16", k16},  // not a GTX 1650
      {"1650", "gtx1650"},
      {"4060", "rtx4060 rtx4060-laptop rtx4060ti rtx4060ti-16gb"},
      {"165", ""},
      {"h100 sxm", "h100"},  // by what else it is called
      {"kaggle", "p100 t4"},
      {"p3", "v100-16gb"},
      {"p3.8xlarge", "v100-16gb"},
      {"a2-highgpu", "a100-40gb"},
      {"a2", "a2 a100-40gb a100-80gb"},  // the card, and Google's machines
      {"Standard_NC24ads_A100_v4", "a100-80gb-pcie"},
      {"aws",
       "k520 k80 t4 v100-16gb v100-32gb a10g l4 l40s a100-40gb a100-80gb h100 h200 b200 b300"},
      {"toaster", ""},
      {"", ""},
      {"-", ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.filter);
    CHECK(Matching({c.filter}) == c.aliases);
  }
}

TEST_CASE("several filters hold together, none finds all") {
  CHECK(FilterCards({}).size() == Cards().size());
  CHECK(Matching({"laptop", "16GiB"}) == "rtx3080-laptop rtx4090-laptop rtx5000-ada-laptop");
  CHECK(Matching({"rtx", "3090"}) == "rtx3090 rtx3090ti");
  CHECK(Matching({"laptop", "80GiB"}) == "");
  CHECK(Matching({"jetson", ">8GiB", "<64GiB"}) ==
        "jetson-agx-xavier jetson-orin-nx jetson-agx-orin-32gb");
}

TEST_CASE("a limit or a range needs sizes") {
  CHECK(ErrorOf(">=") == "FILTER: expected a size, found '' (try: 8GiB or 512MiB)");
  CHECK(ErrorOf("8..big") == "FILTER: expected a size, found '8big' (try: 8GiB or 512MiB)");
  CHECK(ErrorOf("8GiB..") == "FILTER: expected a size, found '' (try: 8GiB or 512MiB)");
  CHECK(ErrorOf("<99999999999TiB").find("FILTER: expected a size") == 0);
}

}  // namespace onnxfit::card_filter_test
