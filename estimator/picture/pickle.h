// Values as Python's pickle, protocol 2 (PEP 307, pickletools): what torch.cuda.memory's tools
// read.  Internal to the room picture/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace onnxfit {

// Writes one value.  A dict is BeginDict, then Text and a value for each item, then EndDict.
class PickleWriter {
 public:
  PickleWriter();

  PickleWriter& BeginDict();
  PickleWriter& EndDict();
  PickleWriter& BeginList();
  PickleWriter& EndList();
  // Between items of a long list: what reads it takes thousands at a time, not all at once, as
  // those that Python writes (pickle.py, _BATCHSIZE).
  PickleWriter& NextBatch();
  PickleWriter& BeginTuple();
  PickleWriter& EndTuple();
  PickleWriter& Text(std::string_view text);  // bad UTF-8 becomes U+FFFD
  PickleWriter& Integer(int64_t number);
  PickleWriter& Switch(bool value);

  // A whole item of a dict.
  PickleWriter& Item(std::string_view key, std::string_view text);
  PickleWriter& Item(std::string_view key, const char* text);
  PickleWriter& Item(std::string_view key, int64_t number);

  // The file.  Nothing may be written behind it.
  std::string Finish();

 private:
  std::string bytes_;
};

}  // namespace onnxfit
