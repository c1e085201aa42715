#include "estimator/absent/cudnn_layers.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

namespace onnxfit::absent {
namespace {

// cudnn_graph.h (9.19.0).
enum FollowedAttribute {
  kDilations = 102,
  kWindowStrides = 103,
  kPaddings = 105,
  kResultsOfGraph = 201,
  kEngineOfConfig = 300,
  kConfigOfPlan = 401,
  kOperations = 801,
  kTensorType = 901,
  kDimensions = 902,
  kStrides = 903,
  kGraphOfEngine = 1300,
};

// Which part of a convolution an attribute sets.
struct PartRow {
  int attribute;
  const char* pass;
  char part;
};
constexpr PartRow kParts[] = {
    {702, "forward", 'c'},         {703, "forward", 'w'},         {704, "forward", 'x'},
    {705, "forward", 'y'},         {708, "data_gradient", 'c'},   {709, "data_gradient", 'w'},
    {710, "data_gradient", 'x'},   {711, "data_gradient", 'y'},   {714, "weight_gradient", 'c'},
    {715, "weight_gradient", 'w'}, {716, "weight_gradient", 'x'}, {717, "weight_gradient", 'y'},
};

// What heuristics named, and which of it a plan was made of first.
struct Named {
  int64_t first = -1;
};

struct Node {
  CudnnTensor tensor = {};                 // of a tensor
  std::shared_ptr<CudnnLayer> layer = {};  // of a window too: its strides and paddings
  std::shared_ptr<Named> named = {};       // of an engine and its plan
  int64_t place = 0;                       // among what was named
  CudnnDescriptor config = nullptr;        // of a plan
  std::optional<int64_t> bytes = {};
};

class Nodes {
 public:
  static Nodes& All() {
    static auto* const nodes = new Nodes;  // outlives destructors
    return *nodes;
  }
  std::mutex& mutex() { return mutex_; }
  Node& Of(CudnnDescriptor descriptor) { return nodes_[descriptor]; }
  const Node* Find(CudnnDescriptor descriptor) const {
    const auto found = nodes_.find(descriptor);
    return found == nodes_.end() ? nullptr : &found->second;
  }
  void Forget(CudnnDescriptor descriptor) { nodes_.erase(descriptor); }

 private:
  std::mutex mutex_;
  std::map<CudnnDescriptor, Node> nodes_;
};

CudnnLayer& LayerIn(Node& node) {
  if (node.layer == nullptr) node.layer = std::make_shared<CudnnLayer>();
  return *node.layer;
}

std::vector<int64_t> Numbers(int64_t count, const void* values) {
  const auto* const numbers = static_cast<const int64_t*>(values);
  return {numbers, numbers + count};
}

void SetPart(Node& node, const PartRow& row, const Node& from) {
  CudnnLayer& layer = LayerIn(node);
  layer.pass = row.pass;
  switch (row.part) {
    case 'x':
      layer.x = from.tensor;
      break;
    case 'w':
      layer.w = from.tensor;
      break;
    case 'y':
      layer.y = from.tensor;
      break;
    default:
      if (from.layer == nullptr) break;
      layer.stride = from.layer->stride;
      layer.padding = from.layer->padding;
      layer.dilation = from.layer->dilation;
  }
}

// A graph of several operations is none of the calls that are known.
void Follow(Node& node, int attribute, int64_t count, const void* values) {
  if (count == 1) {
    const Node* const from = Nodes::All().Find(*static_cast<const CudnnDescriptor*>(values));
    if (from == nullptr) return;
    node.layer = from->layer;
    if (attribute != kOperations && attribute != kResultsOfGraph) node.named = from->named;
    node.place = from->place;
  }
  if (attribute == kConfigOfPlan) node.config = *static_cast<const CudnnDescriptor*>(values);
}

const char* NameOfType(int type) {
  switch (type) {
    case 0:
      return "float32";
    case 2:
      return "float16";
    case 9:
      return "bfloat16";
    default:
      return "";
  }
}

std::string Joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

// Whether it lies in the order NHWC, and not in NCHW as well.
bool IsLast(const CudnnTensor& tensor) {
  int64_t area = 1;
  for (size_t i = 2; i < tensor.dims.size(); ++i) area *= tensor.dims[i];
  return tensor.strides.size() > 2 && tensor.dims[1] > 1 && area > 1 && tensor.strides[1] == 1;
}

}  // namespace

bool IsPoint(const CudnnLayer& layer) {
  return layer.w.dims.size() > 2 && std::all_of(layer.w.dims.begin() + 2, layer.w.dims.end(),
                                                [](int64_t size) { return size == 1; });
}

std::string LayerText(const CudnnLayer& layer) {
  const char* const type = NameOfType(layer.x.type);
  if (*type == '\0' || layer.w.dims.empty() || layer.stride.empty()) return "";
  const bool is_last = IsLast(layer.x) || IsLast(layer.w) || IsLast(layer.y);
  return std::string(layer.pass) + " " + type + (is_last ? " last " : " first ") +
         Joined(layer.x.dims) + " " + Joined(layer.w.dims) + " " + Joined(layer.y.dims) + " " +
         Joined(layer.stride) + " " + Joined(layer.padding) + " " + Joined(layer.dilation);
}

void FollowCudnn(CudnnDescriptor descriptor, int attribute, int64_t count, const void* values) {
  if (values == nullptr || count <= 0) return;
  const std::lock_guard lock(Nodes::All().mutex());
  Node& node = Nodes::All().Of(descriptor);
  const auto* const row =
      std::find_if(std::begin(kParts), std::end(kParts),
                   [&](const PartRow& part) { return part.attribute == attribute; });
  if (row != std::end(kParts)) {
    const Node* const from = Nodes::All().Find(*static_cast<const CudnnDescriptor*>(values));
    if (from != nullptr) SetPart(node, *row, *from);
    return;
  }
  switch (attribute) {
    case kTensorType:
      node.tensor.type = *static_cast<const int*>(values);
      break;
    case kDimensions:
      node.tensor.dims = Numbers(count, values);
      break;
    case kStrides:
      node.tensor.strides = Numbers(count, values);
      break;
    case kDilations:
      LayerIn(node).dilation = Numbers(count, values);
      break;
    case kWindowStrides:
      LayerIn(node).stride = Numbers(count, values);
      break;
    case kPaddings:
      LayerIn(node).padding = Numbers(count, values);
      break;
    case kResultsOfGraph:
    case kEngineOfConfig:
    case kConfigOfPlan:
    case kOperations:
    case kGraphOfEngine:
      Follow(node, attribute, count, values);
      break;
    default:
      break;
  }
}

void FollowEngine(CudnnDescriptor heuristics, CudnnDescriptor config, int64_t place) {
  const std::lock_guard lock(Nodes::All().mutex());
  Node& from = Nodes::All().Of(heuristics);
  if (from.named == nullptr) from.named = std::make_shared<Named>();
  const std::shared_ptr<CudnnLayer> layer = from.layer;
  const std::shared_ptr<Named> named = from.named;
  Node& to = Nodes::All().Of(config);
  to.layer = layer;
  to.named = named;
  to.place = place;
}

void ForgetCudnn(CudnnDescriptor descriptor) {
  const std::lock_guard lock(Nodes::All().mutex());
  Nodes::All().Forget(descriptor);
}

std::shared_ptr<const CudnnLayer> LayerOf(CudnnDescriptor descriptor) {
  const std::lock_guard lock(Nodes::All().mutex());
  const Node* const node = Nodes::All().Find(descriptor);
  return node == nullptr || node->layer == nullptr || *node->layer->pass == '\0' ? nullptr
                                                                                 : node->layer;
}

CudnnDescriptor ConfigOf(CudnnDescriptor plan) {
  const std::lock_guard lock(Nodes::All().mutex());
  const Node* const node = Nodes::All().Find(plan);
  return node == nullptr ? nullptr : node->config;
}

void NotePlan(CudnnDescriptor plan, std::optional<int64_t> bytes) {
  const std::lock_guard lock(Nodes::All().mutex());
  Node& node = Nodes::All().Of(plan);
  node.bytes = bytes;
  if (node.named != nullptr && node.named->first < 0) node.named->first = node.place;
}

std::optional<int64_t> NotedBytes(CudnnDescriptor plan) {
  const std::lock_guard lock(Nodes::All().mutex());
  const Node* const node = Nodes::All().Find(plan);
  return node == nullptr ? std::nullopt : node->bytes;
}

bool IsFirstPlan(CudnnDescriptor plan) {
  const std::lock_guard lock(Nodes::All().mutex());
  const Node* const node = Nodes::All().Find(plan);
  return node == nullptr || node->named == nullptr || node->named->first == node->place;
}

}  // namespace onnxfit::absent
