// Asks cuDNN and cudnn-frontend what attention takes, as PyTorch does (aten/src/ATen/native/cudnn/
// MHA.cpp, torch 2.11), for a card that is only described.  Compiled and run by
// benchmarks/attention.py.
//
//     attention_workspaces CAPABILITY PROPERTIES < calls.csv
//
// CAPABILITY: times ten; PROPERTIES: the card, as cuDNN's JSON.  For each call one line: bytes of
// its workspace, or "none" where there is no plan.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

// cudnn-frontend asks CUDA for the card's capability: it gets the described one.
static int capability = 0;  // times ten

static cudaError_t DescribedDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
static cudaError_t DescribedProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof(*properties));
  properties->major = capability / 10;
  properties->minor = capability % 10;
  return cudaSuccess;
}
#define cudaGetDevice DescribedDevice
#undef cudaGetDeviceProperties
#define cudaGetDeviceProperties DescribedProperties
#include <cudnn_frontend.h>

namespace {

namespace fe = cudnn_frontend;
using Dims = std::vector<int64_t>;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

struct Call {
  bool is_backward = false;
  bool is_bf16 = true;
  int64_t batch = 0, heads = 0, kv_heads = 0, rows = 0, keys = 0, head_size = 0, value_size = 0;
  bool is_causal = false;
  bool has_mask = false;
  double dropout = 0;
  bool keeps = true;  // the log-sum-exp, for backward
};

std::istream& operator>>(std::istream& in, Call& call) {
  char comma = 0;
  in >> call.is_backward >> comma >> call.is_bf16 >> comma >> call.batch >> comma >> call.heads >>
      comma >> call.kv_heads >> comma >> call.rows >> comma >> call.keys >> comma >>
      call.head_size >> comma >> call.value_size >> comma >> call.is_causal >> comma >>
      call.has_mask >> comma >> call.dropout >> comma >> call.keeps;
  return in;
}

// [B, H, S, D] that lies as [B, S, H, D], as transformers make them.
Dims RowsFirst(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[3], dims[1] * dims[3], 1};
}
Dims HeadsFirst(const Dims& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

class Graph : public fe::graph::Graph {
 public:
  explicit Graph(const Call& call) : call_(call) {
    set_io_data_type(call.is_bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF);
    set_intermediate_data_type(fe::DataType_t::FLOAT);
    set_compute_data_type(fe::DataType_t::FLOAT);
    q_ = In("q", Q(), RowsFirst(Q()));
    k_ = In("k", K(), RowsFirst(K()));
    v_ = In("v", V(), RowsFirst(V()));
    const Dims square = {call.batch, 1, call.rows, call.keys};
    if (call.has_mask) mask_ = In("mask", square, HeadsFirst(square));
    if (call.dropout > 0) {
      seed_ = Number("seed", fe::DataType_t::INT64);
      offset_ = Number("offset", fe::DataType_t::INT64);
    }
    scale_ = Number("scale", fe::DataType_t::FLOAT);
    scale_->set_is_pass_by_value(true);
  }

  void AddForward() {
    auto options = fe::graph::SDPA_attributes().set_name("forward").set_generate_stats(call_.keeps);
    SetOptions(options);
    auto [output, sums] = sdpa(q_, k_, v_, options);
    Out(output, O(), RowsFirst(O()));
    if (sums) sums->set_output(true).set_data_type(fe::DataType_t::FLOAT);
  }

  void AddBackward() {
    auto options = fe::graph::SDPA_backward_attributes().set_name("backward");
    SetOptions(options);
    const Dims rows = {call_.batch, call_.heads, call_.rows, 1};
    const Tensor sums = In("sums", rows, HeadsFirst(rows));
    sums->set_data_type(fe::DataType_t::FLOAT);
    const Tensor output = In("output", O(), RowsFirst(O()));
    const Tensor incoming = In("incoming", O(), RowsFirst(O()));
    auto [dq, dk, dv] = sdpa_backward(q_, k_, v_, output, incoming, sums, options);
    Out(dq, Q(), RowsFirst(Q()));
    Out(dk, K(), RowsFirst(K()));
    Out(dv, V(), RowsFirst(V()));
  }

  // Of the first plan that cuDNN lists, with what cudnn-frontend adds; -1 where it can make none.
  // Plans are not finished: that takes a driver, and asks for the same.
  int64_t WorkspaceBytes() {
    if (!validate().is_good() || !build_operation_graph().is_good()) return -1;
    if (!create_execution_plans({fe::HeurMode_t::A}).is_good() || !check_support().is_good()) {
      return -1;
    }
    int64_t bytes = 0;
    if (!fe::detail::get_workspace_size(plans.engine_configs.at(0), bytes).is_good()) return -1;
    return bytes + get_fe_workspace_size_subtree();
  }

 private:
  Dims Q() const { return {call_.batch, call_.heads, call_.rows, call_.head_size}; }
  Dims K() const { return {call_.batch, call_.kv_heads, call_.keys, call_.head_size}; }
  Dims V() const { return {call_.batch, call_.kv_heads, call_.keys, call_.value_size}; }
  Dims O() const { return {call_.batch, call_.heads, call_.rows, call_.value_size}; }

  Tensor In(const char* name, const Dims& dims, const Dims& strides) {
    return tensor(fe::graph::Tensor_attributes().set_name(name).set_dim(dims).set_stride(strides));
  }
  Tensor Number(const char* name, fe::DataType_t type) {
    const Tensor number = In(name, {1, 1, 1, 1}, {1, 1, 1, 1});
    number->set_data_type(type);
    return number;
  }
  static void Out(const Tensor& tensor, const Dims& dims, const Dims& strides) {
    tensor->set_output(true).set_dim(dims).set_stride(strides);
  }

  template <typename Options>
  void SetOptions(Options& options) {
    options.set_causal_mask(call_.is_causal).set_attn_scale(scale_);
    if (mask_) options.set_bias(mask_);
    if (seed_) options.set_dropout(static_cast<float>(call_.dropout), seed_, offset_);
  }

  Call call_;
  Tensor q_, k_, v_, mask_, seed_, offset_, scale_;
};

int64_t Ask(const Call& call, const std::shared_ptr<const fe::DeviceProperties>& card) {
  Graph graph(call);
  graph.set_device_properties(card);
  if (call.is_backward) {
    graph.AddBackward();
  } else {
    graph.AddForward();
  }
  return graph.WorkspaceBytes();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  capability = std::atoi(argv[1]);
  const std::string json = argv[2];
  auto card = std::make_shared<fe::DeviceProperties>();
  auto status = card->deserialize({json.begin(), json.end()});
  if (!status.is_good()) {
    std::cerr << status.get_message() << '\n';
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    Call call;
    if (!(std::istringstream(line) >> call)) return 2;
    const int64_t bytes = Ask(call, card);
    std::cout << (bytes < 0 ? "none" : std::to_string(bytes)) << '\n';
  }
  return 0;
}
