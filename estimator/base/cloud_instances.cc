#include "estimator/base/cloud_instances.h"

#include <algorithm>
#include <cctype>

namespace onnxfit {
namespace {

constexpr Cloud kClouds[] = {
    {"aws", "amazon ec2 sagemaker", "docs.aws.amazon.com/ec2/latest/instancetypes/ac.html"},
    {"gcp", "google gce vertex", "cloud.google.com/compute/docs/gpus"},
    {"azure", "microsoft", "learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated"},
    {"colab", "colaboratory", "research.google.com/colaboratory/faq.html"},
    {"kaggle", "", "www.kaggle.com/docs/notebooks"},
};

// Whole cards alone: machines with a part of one have less memory than its row.
constexpr CloudInstances kInstances[] = {
    {"aws", "g2.2xlarge", "k520", 1},
    {"aws", "g2.8xlarge", "k520", 4},
    {"aws", "p2.xlarge", "k80", 1},
    {"aws", "p2.8xlarge", "k80", 8},
    {"aws", "p2.16xlarge", "k80", 16},
    {"aws", "p3.2xlarge", "v100-16gb", 1},
    {"aws", "p3.8xlarge", "v100-16gb", 4},
    {"aws", "p3.16xlarge", "v100-16gb", 8},
    {"aws", "p3dn.24xlarge", "v100-32gb", 8},
    {"aws", "p4d.24xlarge", "a100-40gb", 8},
    {"aws", "p4de.24xlarge", "a100-80gb", 8},
    {"aws", "p5.4xlarge", "h100", 1},
    {"aws", "p5.48xlarge", "h100", 8},
    {"aws", "p5e.48xlarge p5en.48xlarge", "h200", 8},
    {"aws", "p6-b200.48xlarge", "b200", 8},
    {"aws", "p6-b300.48xlarge", "b300", 8},
    {"aws", "g4dn.xlarge g4dn.2xlarge g4dn.4xlarge g4dn.8xlarge g4dn.16xlarge", "t4", 1},
    {"aws", "g4dn.12xlarge", "t4", 4},
    {"aws", "g4dn.metal", "t4", 8},
    {"aws", "g5.xlarge g5.2xlarge g5.4xlarge g5.8xlarge g5.16xlarge", "a10g", 1},
    {"aws", "g5.12xlarge g5.24xlarge", "a10g", 4},
    {"aws", "g5.48xlarge", "a10g", 8},
    {"aws", "g6.xlarge g6.2xlarge g6.4xlarge g6.8xlarge g6.16xlarge gr6.4xlarge gr6.8xlarge", "l4",
     1},
    {"aws", "g6.12xlarge g6.24xlarge", "l4", 4},
    {"aws", "g6.48xlarge", "l4", 8},
    {"aws", "g6e.xlarge g6e.2xlarge g6e.4xlarge g6e.8xlarge g6e.16xlarge", "l40s", 1},
    {"aws", "g6e.12xlarge g6e.24xlarge", "l40s", 4},
    {"aws", "g6e.48xlarge", "l40s", 8},
    {"gcp", "nvidia-tesla-p4", "p4", 1},
    {"gcp", "nvidia-tesla-p100", "p100", 1},
    {"gcp", "nvidia-tesla-t4", "t4", 1},
    {"gcp", "nvidia-tesla-v100", "v100-16gb", 1},
    {"gcp", "nvidia-tesla-a100", "a100-40gb", 1},
    {"gcp", "a2-highgpu-1g", "a100-40gb", 1},
    {"gcp", "a2-highgpu-2g", "a100-40gb", 2},
    {"gcp", "a2-highgpu-4g", "a100-40gb", 4},
    {"gcp", "a2-highgpu-8g", "a100-40gb", 8},
    {"gcp", "a2-megagpu-16g", "a100-40gb", 16},
    {"gcp", "a2-ultragpu-1g", "a100-80gb", 1},
    {"gcp", "a2-ultragpu-2g", "a100-80gb", 2},
    {"gcp", "a2-ultragpu-4g", "a100-80gb", 4},
    {"gcp", "a2-ultragpu-8g", "a100-80gb", 8},
    {"gcp", "a3-highgpu-1g", "h100", 1},
    {"gcp", "a3-highgpu-2g", "h100", 2},
    {"gcp", "a3-highgpu-4g", "h100", 4},
    {"gcp", "a3-highgpu-8g a3-megagpu-8g a3-edgegpu-8g", "h100", 8},
    {"gcp", "a3-ultragpu-8g", "h200", 8},
    {"gcp", "a4-highgpu-8g", "b200", 8},
    {"gcp", "a4x-highgpu-4g", "gb200", 4},
    {"gcp", "g2-standard-4 g2-standard-8 g2-standard-12 g2-standard-16 g2-standard-32", "l4", 1},
    {"gcp", "g2-standard-24", "l4", 2},
    {"gcp", "g2-standard-48", "l4", 4},
    {"gcp", "g2-standard-96", "l4", 8},
    {"azure", "Standard_NC6s_v2", "p100", 1},
    {"azure", "Standard_NC12s_v2", "p100", 2},
    {"azure", "Standard_NC24s_v2 Standard_NC24rs_v2", "p100", 4},
    {"azure", "Standard_NC6s_v3", "v100-16gb", 1},
    {"azure", "Standard_NC12s_v3", "v100-16gb", 2},
    {"azure", "Standard_NC24s_v3 Standard_NC24rs_v3", "v100-16gb", 4},
    {"azure", "Standard_NC4as_T4_v3 Standard_NC8as_T4_v3 Standard_NC16as_T4_v3", "t4", 1},
    {"azure", "Standard_NC64as_T4_v3", "t4", 4},
    {"azure", "Standard_NC24ads_A100_v4", "a100-80gb-pcie", 1},
    {"azure", "Standard_NC48ads_A100_v4", "a100-80gb-pcie", 2},
    {"azure", "Standard_NC96ads_A100_v4", "a100-80gb-pcie", 4},
    {"azure", "Standard_NC40ads_H100_v5", "h100-nvl", 1},
    {"azure", "Standard_NC80adis_H100_v5", "h100-nvl", 2},
    {"azure", "Standard_NV36ads_A10_v5", "a10", 1},
    {"azure", "Standard_NV72ads_A10_v5", "a10", 2},
    {"azure", "Standard_ND40rs_v2", "v100-32gb", 8},
    {"azure", "Standard_ND96asr_v4", "a100-40gb", 8},
    {"azure", "Standard_ND96amsr_A100_v4", "a100-80gb", 8},
    {"azure", "Standard_ND96isr_H100_v5", "h100", 8},
    {"azure", "Standard_ND96isr_H200_v5", "h200", 8},
    {"azure", "Standard_ND96isr_MI300X_v5", "mi300x", 8},
    // The card of those who do not pay.
    {"colab", "colab colab-t4", "t4", 1},
    {"colab", "colab-l4", "l4", 1},
    {"colab", "colab-a100", "a100-40gb", 1},
    // "GPU T4 x2"; a P100 is the other choice.
    {"kaggle", "kaggle kaggle-t4", "t4", 2},
    {"kaggle", "kaggle-p100", "p100", 1},
};

constexpr std::string_view kFreeBeginnings[] = {"standard.", "ml."};

// "nc24ads.a100.v4" of "Standard_NC24ads_A100_v4".
std::string InstanceKey(std::string_view name) {
  std::string key;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    key += std::isalnum(letter) ? static_cast<char>(std::tolower(letter)) : '.';
  }
  for (const std::string_view beginning : kFreeBeginnings) {
    if (key.starts_with(beginning)) key.erase(0, beginning.size());
  }
  return key;
}

std::vector<std::string_view> WordsOf(std::string_view words) {
  std::vector<std::string_view> found;
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    found.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return found;
}

// By one of its names, or by what they begin with.
bool IsCalled(const CloudInstances& row, const std::string& key) {
  return std::ranges::any_of(NamesOf(row),
                             [&](std::string_view name) { return InstanceKey(name) == key; });
}

bool IsOfFamily(const CloudInstances& row, const std::string& key) {
  return std::ranges::any_of(NamesOf(row), [&](std::string_view name) {
    return InstanceKey(name).starts_with(key + '.');
  });
}

// Those of that very name, else those of that family.
std::vector<const CloudInstances*> Machines(std::string_view typed) {
  const std::string key = InstanceKey(typed);
  std::vector<const CloudInstances*> rows;
  for (const auto is_meant : {IsCalled, IsOfFamily}) {
    for (const CloudInstances& row : kInstances) {
      if (is_meant(row, key)) rows.push_back(&row);
    }
    if (!rows.empty()) break;
  }
  return rows;
}

}  // namespace

std::span<const Cloud> Clouds() { return kClouds; }

std::span<const CloudInstances> AllCloudInstances() { return kInstances; }

std::vector<std::string_view> NamesOf(const CloudInstances& row) { return WordsOf(row.names); }

const Cloud* FindCloud(std::string_view typed) {
  const std::string key = InstanceKey(typed);
  for (const Cloud& cloud : kClouds) {
    if (cloud.name == key) return &cloud;
    const std::vector<std::string_view> others = WordsOf(cloud.other_names);
    if (std::ranges::find(others, key) != others.end()) return &cloud;
  }
  return nullptr;
}

std::optional<RentedCard> FindRentedCard(std::string_view typed) {
  const std::vector<const CloudInstances*> rows = Machines(typed);
  if (rows.empty()) return std::nullopt;
  RentedCard rented = {rows[0]->alias, rows[0]->cards};
  for (const CloudInstances* row : rows) {
    if (row->alias != rented.alias) return std::nullopt;
    if (row->cards != rented.cards) rented.cards = 0;
  }
  return rented;
}

std::vector<const CloudInstances*> CloudInstancesOf(std::string_view typed) {
  const Cloud* cloud = FindCloud(typed);
  if (cloud == nullptr) return Machines(typed);
  std::vector<const CloudInstances*> rows;
  for (const CloudInstances& row : kInstances) {
    if (row.cloud == cloud->name) rows.push_back(&row);
  }
  return rows;
}

}  // namespace onnxfit
