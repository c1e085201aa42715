// Models as protobuf's reflection sees them: every message inside, and its fields.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <onnx/onnx_pb.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace onnxfit::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMostDepth = 60;  // messages inside one another

// One value of a message: a field of it, or one element of a repeated one.
struct Slot {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = -1;  // of a repeated field that has elements
  int size = 0;    // of a repeated field

  const Reflection& reflection() const { return *message->GetReflection(); }
  bool is_message() const { return field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE; }
  bool is_set() const {
    return field->is_repeated() ? index >= 0 : reflection().HasField(*message, field);
  }
};

Message& MessageOf(const Slot& slot) {
  return slot.index >= 0
             ? *slot.reflection().MutableRepeatedMessage(slot.message, slot.field, slot.index)
             : *slot.reflection().MutableMessage(slot.message, slot.field);
}

// Every message inside `message`, itself first.
void AddMessages(Message& message, int depth, std::vector<Message*>& all) {
  if (depth > kMostDepth) return;
  all.push_back(&message);
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      AddMessages(*reflection.MutableMessage(&message, field), depth + 1, all);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      AddMessages(*reflection.MutableRepeatedMessage(&message, field, i), depth + 1, all);
    }
  }
}

std::vector<Message*> MessagesIn(Message& message) {
  std::vector<Message*> all;
  AddMessages(message, 0, all);
  return all;
}

// Any value of any message; mostly one that is there, now and then one that could be.
Slot AnySlot(const std::vector<Message*>& all, Random& random) {
  Message* message = all[Below(all.size(), random)];
  std::vector<const FieldDescriptor*> fields;
  message->GetReflection()->ListFields(*message, &fields);
  const auto count = static_cast<size_t>(message->GetDescriptor()->field_count());
  const FieldDescriptor* field =
      fields.empty() || OneIn(5, random)
          ? message->GetDescriptor()->field(static_cast<int>(Below(count, random)))
          : fields[Below(fields.size(), random)];
  Slot slot = {.message = message, .field = field};
  if (!field->is_repeated()) return slot;
  slot.size = message->GetReflection()->FieldSize(*message, field);
  if (slot.size > 0) slot.index = static_cast<int>(Below(static_cast<size_t>(slot.size), random));
  return slot;
}

// Sets, adds or replaces a value, whatever its type: Get, Set, SetRepeated and Add of reflection.
#define ONNXFIT_NUMBER(Type, Name, value)                                               \
  case FieldDescriptor::CPPTYPE_##Type:                                                 \
    if (slot.index >= 0) {                                                              \
      slot.reflection().SetRepeated##Name(slot.message, slot.field, slot.index, value); \
    } else if (slot.field->is_repeated()) {                                             \
      slot.reflection().Add##Name(slot.message, slot.field, value);                     \
    } else {                                                                            \
      slot.reflection().Set##Name(slot.message, slot.field, value);                     \
    }                                                                                   \
    return;

void SetNumber(const Slot& slot, int64_t number) {
  switch (slot.field->cpp_type()) {
    ONNXFIT_NUMBER(INT32, Int32, static_cast<int32_t>(number))
    ONNXFIT_NUMBER(INT64, Int64, number)
    ONNXFIT_NUMBER(UINT32, UInt32, static_cast<uint32_t>(number))
    ONNXFIT_NUMBER(UINT64, UInt64, static_cast<uint64_t>(number))
    ONNXFIT_NUMBER(FLOAT, Float, static_cast<float>(number))
    ONNXFIT_NUMBER(DOUBLE, Double, static_cast<double>(number))
    ONNXFIT_NUMBER(BOOL, Bool, number % 2 != 0)
    ONNXFIT_NUMBER(ENUM, EnumValue, static_cast<int>(number % 32))
    default:
      return;
  }
}

void SetText(const Slot& slot, std::string text) {
  switch (slot.field->cpp_type()) {
    ONNXFIT_NUMBER(STRING, String, std::move(text))
    default:
      return;
  }
}
#undef ONNXFIT_NUMBER

int64_t NumberIn(const Slot& slot) {
  if (!slot.is_set()) return 0;
  const Reflection& reflection = slot.reflection();
  const bool is_list = slot.index >= 0;
  if (slot.field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    return is_list ? reflection.GetRepeatedInt64(*slot.message, slot.field, slot.index)
                   : reflection.GetInt64(*slot.message, slot.field);
  }
  if (slot.field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    return is_list ? reflection.GetRepeatedInt32(*slot.message, slot.field, slot.index)
                   : reflection.GetInt32(*slot.message, slot.field);
  }
  return 1;
}

std::string TextIn(const Slot& slot) {
  if (slot.field->cpp_type() != FieldDescriptor::CPPTYPE_STRING || !slot.is_set()) return "";
  return slot.index >= 0
             ? slot.reflection().GetRepeatedString(*slot.message, slot.field, slot.index)
             : slot.reflection().GetString(*slot.message, slot.field);
}

// Some text of the model, so that names are mixed up rather than unknown; "" for bad luck.
std::string AnyText(const std::vector<Message*>& all, Random& random) {
  for (int tries = 0; tries < 20; ++tries) {
    std::string text = TextIn(AnySlot(all, random));
    if (!text.empty()) return text;
  }
  return "";
}

void ChangeText(const Slot& slot, const std::vector<Message*>& all, Random& random) {
  const size_t way = Below(4, random);
  const std::string now = TextIn(slot);
  const size_t most = now.size() + 64;
  if (way == 0) SetText(slot, OddText(random));
  if (way == 1) SetText(slot, AnyText(all, random));
  if (way == 2) SetText(slot, MutateText(now, most, random));
  if (way == 3) SetText(slot, MutateBytes(now, most));
}

// Puts a message of the same type, found anywhere in `others`, in the place of the slot's.
void Replace(const Slot& slot, const std::vector<Message*>& others, Random& random) {
  std::vector<const Message*> same;
  for (const Message* other : others) {
    if (other->GetDescriptor() == slot.field->message_type()) same.push_back(other);
  }
  if (same.empty()) return;
  const Message& chosen = *same[Below(same.size(), random)];
  const std::unique_ptr<Message> copy(chosen.New());  // it may hold the slot, or be in it
  copy->CopyFrom(chosen);
  const bool adds = slot.field->is_repeated() && (slot.index < 0 || OneIn(2, random));
  if (adds) {
    slot.reflection().AddMessage(slot.message, slot.field)->CopyFrom(*copy);
  } else {
    MessageOf(slot).CopyFrom(*copy);
  }
}

void TakeAway(const Slot& slot) {
  if (slot.index < 0) {
    slot.reflection().ClearField(slot.message, slot.field);
    return;
  }
  slot.reflection().SwapElements(slot.message, slot.field, slot.index, slot.size - 1);
  slot.reflection().RemoveLast(slot.message, slot.field);
}

void Change(const Slot& slot, const std::vector<Message*>& all, Random& random) {
  if (slot.is_message()) {
    Replace(slot, all, random);
  } else if (slot.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    ChangeText(slot, all, random);
  } else {
    SetNumber(slot, OddNumber(NumberIn(slot), random));
  }
}

void MutateOnce(onnx::ModelProto& model, Random& random) {
  const std::vector<Message*> all = MessagesIn(model);
  const Slot slot = AnySlot(all, random);
  const size_t way = Below(6, random);
  if (way == 0) {
    TakeAway(slot);
  } else if (way == 1 && slot.index >= 0) {
    const size_t other = Below(static_cast<size_t>(slot.size), random);
    slot.reflection().SwapElements(slot.message, slot.field, slot.index, static_cast<int>(other));
  } else if (way == 2 && slot.field->is_repeated() && !slot.is_message()) {
    Slot added = slot;
    added.index = -1;  // one more
    Change(added, all, random);
  } else {
    Change(slot, all, random);
  }
}

}  // namespace

std::string MutateModel(const std::string& bytes, size_t most, Random& random) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes) || OneIn(30, random)) return MutateBytes(bytes, most);
  for (size_t i = 1 + Below(4, random); i > 0; --i) MutateOnce(model, random);
  const std::string changed = model.SerializePartialAsString();
  return changed.size() > most ? bytes : changed;
}

std::string CrossModels(const std::string& bytes, const std::string& other, Random& random) {
  onnx::ModelProto model;
  onnx::ModelProto donor;
  if (!model.ParseFromString(bytes) || !donor.ParseFromString(other)) return bytes;
  const std::vector<Message*> parts = MessagesIn(donor);
  for (size_t i = 1 + Below(3, random); i > 0; --i) {
    const std::vector<Message*> all = MessagesIn(model);
    for (int tries = 0; tries < 20; ++tries) {
      const Slot slot = AnySlot(all, random);
      if (!slot.is_message()) continue;
      Replace(slot, parts, random);
      break;
    }
  }
  return model.SerializePartialAsString();
}

}  // namespace onnxfit::fuzz
