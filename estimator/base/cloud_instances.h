// What clouds call the machines that they rent, and the cards in them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// Machines with the same cards.
struct CloudInstances {
  std::string_view cloud;  // "aws"
  std::string_view names;  // "p3.8xlarge p3.16xlarge": one or more, a space between them
  std::string_view alias;  // of the card
  int64_t cards = 1;       // in one machine
};

struct Cloud {
  std::string_view name;         // "gcp"
  std::string_view other_names;  // "google …"
  std::string_view source;       // where the rows come from
};

std::span<const Cloud> Clouds();
std::span<const CloudInstances> AllCloudInstances();

// Its names, one by one.
std::vector<std::string_view> NamesOf(const CloudInstances& row);

struct RentedCard {
  std::string_view alias;
  int64_t cards = 0;  // in the machine; 0 where a family was named whose machines differ in that
};

// The card of the machine of that name, or of the machines whose names begin so, if they all have
// the same ("a2-highgpu", "g5").  Case, "Standard_" and "ml." are free, "_" and "-" are ".".
std::optional<RentedCard> FindRentedCard(std::string_view typed);

// Rows of the cloud of that name ("aws", "Google"), or of the machines of that name or family.
std::vector<const CloudInstances*> CloudInstancesOf(std::string_view typed);

// Null where no cloud is called so.
const Cloud* FindCloud(std::string_view typed);

}  // namespace onnxfit
