#include "estimator/observed/skeletons.h"

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/observed/alignment.h"
#include "estimator/observed/known_skeletons.h"

namespace onnxfit::skeletons_test {
namespace {

Skeleton Parsed(std::string_view text) { return ParseSkeletons(text).at(0); }

// Layers in a row, of which each lets go of what the one before has made.
constexpr std::string_view kFiveLayers =
    "lib.Encoder\n"
    "embed:1 >layer.0=lib.Layer:2 add:3 >layer.1=lib.Layer:2 add:3 >layer.2=lib.Layer:2 add:3 "
    ">layer.3=lib.Layer:2 add:3 >layer.4=lib.Layer:2 add:3 norm:4 \n"
    "0.0-2 1.0-2 2.0-4 3.0-4 4.0-6 5.0-6 6.0-8 7.0-8 8.0-10 9.0-10 10.0-11 11.0 \n";
constexpr std::string_view kThreeLayers =
    "lib.Encoder\n"
    "embed:1 >layer.0=lib.Layer:2 add:3 >layer.1=lib.Layer:2 add:3 >layer.2=lib.Layer:2 add:3 "
    "norm:4 \n"
    "0.0-2 1.0-2 2.0-4 3.0-4 4.0-6 5.0-6 6.0-7 7.0 \n";

// The values alone, of a skeleton with `turns` turns over the layers.
std::string ValuesWith(std::string_view text, size_t turns) {
  const std::string made = ToText(WithTurns(Parsed(text), {{"layer.*", turns}}));
  const size_t end = made.rfind('\n', made.size() - 2);
  return made.substr(end + 1);
}

TEST_CASE("a skeleton is what its text says") {
  for (const std::string_view text : {kFiveLayers, kThreeLayers})
    CHECK(ToText(Parsed(text)) == text);
  const Skeleton relu = Parsed("torch.nn.ReLU\nrelu!:zz \n0.0 \n");
  CHECK(relu.steps.at(0).in_place);
  CHECK(relu.steps.at(0).line == 35 * 36 + 35);
  CHECK(ToText(relu) == "torch.nn.ReLU\nrelu!:zz \n0.0 \n");
}

TEST_CASE("a skeleton says in which runs, what is idle, what is cast and what reads that") {
  constexpr std::string_view kText =
      "lib.Block hA\n"
      ">norm=lib.Norm/mul~9a:1 to=32:2 relu:2 contiguous?:3 to=16:3 \n"
      "0.0-1 1.0-2 2.0-4 4.0 1<-1.0 1>1.0 4<-2.0 \n";
  const Skeleton block = Parsed(kText);
  CHECK(ToText(block) == kText);
  CHECK(block.runs == (kTrainHalfRun | kEvalAutocastRun));
  CHECK(block.steps.at(0).id == 9 * 36 + 10);
  CHECK(block.steps.at(1).cast_to == 32);
  CHECK(block.steps.at(3).is_idle);
  CHECK(block.flows.at(0) == SkeletonFlow{.step = 1, .other = -1, .result = 0});
  CHECK(IdOf(block) != IdOf(Parsed("lib.Block\nrelu \n0.0 \n")));
}

TEST_CASE("a flow to no step is an error") {
  for (const std::string_view flow : {"0<-1.0", "1>1.0", "0>0.0", "0>-1.0", "2<-1.0", "0>1"}) {
    const std::string text = "net.A\nto=16 relu \n" + std::string(flow) + " \n";
    CHECK_THROWS_AS(ParseSkeletons(text), Error);
  }
}

TEST_CASE("casts are told of each turn") {
  const Skeleton five = WithTurns(Parsed("lib.Encoder\n>layer.0=A to=16 >layer.1=A to=16 "
                                         ">layer.2=A to=16 \n1<-1.0 3<-1.0 5<-1.0 \n"),
                                  {{"layer.*", 5}});
  REQUIRE(five.flows.size() == 5);
  CHECK(five.flows.at(4) == SkeletonFlow{.step = 9, .other = -1, .result = 0});
}

TEST_CASE("what is the same in several runs is packed once") {
  const std::string bytes =
      PackSkeletons("lib 1.0", ParseSkeletons("lib.A t\nrelu \n0.0 \nlib.A T\nrelu \n0.0 \n"
                                              "lib.A h\nrelu to=16 \n0.0 \n"));
  const auto* const first = reinterpret_cast<const unsigned char*>(bytes.data());
  const KnownSkeletons known({first, bytes.size()});
  REQUIRE(known.OfClass("lib.A").size() == 2);
  CHECK(known.OfClass("lib.A")[0].skeleton->runs == kTrainHalfRun);
  CHECK(known.OfClass("lib.A")[1].skeleton->runs == (kTrainRun | kEvalRun));
  CHECK(known.IsOfLibrary("lib.A"));
  CHECK(!known.IsOfLibrary("li.A"));
  CHECK(!known.IsOfLibrary("torch.nn.Linear"));
}

TEST_CASE("a value of no step is an error") {
  for (const std::string_view values : {"1.0", "0.0-1", "0", "x.0", "0.-1"}) {
    const std::string text = "net.A\nrelu \n" + std::string(values) + " \n";
    CHECK_THROWS_AS(ParseSkeletons(text), Error);
  }
}

TEST_CASE("a loop has as many turns as are asked for") {
  CHECK(LoopsOf(Parsed(kFiveLayers).steps).at(0).key == "layer.*");
  CHECK(LoopsOf(Parsed(kFiveLayers).steps).at(0).turns == 5);
  const std::string_view three = kThreeLayers;
  CHECK(ValuesWith(kFiveLayers, 3) == three.substr(three.rfind('\n', three.size() - 2) + 1));
  const std::string_view five = kFiveLayers;
  CHECK(ValuesWith(kThreeLayers, 5) == five.substr(five.rfind('\n', five.size() - 2) + 1));
}

TEST_CASE("what a list holds until the loop ends does so in each turn") {
  constexpr std::string_view kHeld =
      "lib.Encoder\n"
      ">layer.0=lib.Layer >layer.1=lib.Layer >layer.2=lib.Layer cat \n"
      "0.0-3 1.0-3 2.0-3 3.0 \n";
  CHECK(ValuesWith(kHeld, 5) == "0.0-5 1.0-5 2.0-5 3.0-5 4.0-5 5.0 \n");
}

TEST_CASE("a loop is stored with four turns, where the others are like them") {
  const std::string short_one = ToText(Shortened(Parsed(kFiveLayers)));
  CHECK(LoopsOf(Parsed(short_one).steps).at(0).turns == 4);
  // The fourth of six lives longer than the others.
  constexpr std::string_view kOther =
      "lib.Encoder\n"
      ">layer.0=A >layer.1=A >layer.2=A >layer.3=A >layer.4=A >layer.5=A \n"
      "0.0-1 1.0-2 2.0-3 3.0-5 4.0-5 5.0 \n";
  CHECK(ToText(Shortened(Parsed(kOther))) == kOther);
}

std::string Places(std::string_view known, std::string_view file) {
  const auto steps = [](std::string_view text) {
    return Parsed("net.A\n" + std::string(text) + " \n\n").steps;
  };
  std::string text;
  for (const int32_t place : Align(steps(known), steps(file)).places) {
    text += std::to_string(place) + " ";
  }
  return text;
}

TEST_CASE("steps are paired in order, those of one line first") {
  CHECK(Places("relu add mul", "relu add mul") == "0 1 2 ");
  CHECK(Places("relu dropout add mul", "relu add mul") == "0 -1 1 2 ");
  CHECK(Places("add mul", "to add to mul") == "1 3 ");
  CHECK(Places(">layer.0=A >layer.1=A add", ">layer.4 add") == "0 -1 1 ");
  CHECK(Places("relu:1 add:2 add:3 mul", "add:3 mul") == "-1 -1 0 1 ");
  CHECK(Places("relu", "add") == "-1 ");
  CHECK(Places(">a.0=/relu >a.1=/relu >a.2=/relu", ">a.0=/gelu >a.1=/gelu") == "0 1 -1 ");
  CHECK(Places(">a.0=/relu >a.1=/relu", ">b.0=/relu >b.1=/relu") == "-1 -1 ");
}

TEST_CASE("packed skeletons are found by class and by children") {
  const std::string text =
      std::string(kFiveLayers) +
      "lib.Block\n>attn=lib.Attn add >drop=torch.nn.Dropout \n0.0-1 1.0-2 2.0 \n"
      "other.Block\n>attn=other.Attn \n0.0 \n";
  const std::string bytes = PackSkeletons("lib 1.0", ParseSkeletons(text));
  const auto* const first = reinterpret_cast<const unsigned char*>(bytes.data());
  const KnownSkeletons known({first, bytes.size()});
  CHECK(known.releases() == "lib 1.0");
  REQUIRE(known.OfClass("lib.Encoder").size() == 1);
  CHECK(ToText(*known.OfClass("lib.Encoder")[0].skeleton) == kFiveLayers);
  CHECK(known.OfClass("lib.Decoder").empty());
  // Dropouts may not be in a file.
  const std::vector<std::string_view> both = {"lib.Block", "other.Block"};
  CHECK(known.ClassesOfChildren(Parsed("A\n>attn= \n\n").steps) == both);
  CHECK(known.ClassesOfChildren(Parsed("A\nadd \n\n").steps).empty());
  std::vector<Skeleton> all;
  for (const Skeleton* const skeleton : known.All()) all.push_back(*skeleton);
  CHECK(PackSkeletons(known.releases(), all) == bytes);
  for (size_t size = 0; size < bytes.size(); size += 7) {
    const auto read = [&] { KnownSkeletons({first, size}).OfClass("lib.Encoder"); };
    CHECK_THROWS_AS(read(), Error);
  }
}

TEST_CASE("a class is read in the runs that are asked for, and by what it did") {
  const std::string bytes = PackSkeletons(
      "lib 1.0",
      ParseSkeletons("lib.A t\nrelu! \n0.0 \nlib.A Tm\nto=16:7x add \n0.0-1 1.0 0>1.1 \n"));
  const auto* const first = reinterpret_cast<const unsigned char*>(bytes.data());
  const KnownSkeletons known({first, bytes.size()});
  CHECK(known.OfClass("lib.A").size() == 2);
  REQUIRE(known.OfClass("lib.A", kEvalRun).size() == 1);
  const KnownSkeleton in_eval = known.OfClass("lib.A", kEvalRun)[0];
  CHECK(ToText(*in_eval.skeleton) == "lib.A Tm\nto=16:7x add \n0.0-1 1.0 0>1.1 \n");
  CHECK(in_eval.id == IdOf(*in_eval.skeleton));
  CHECK(known.OfId("lib.A", in_eval.id).skeleton == in_eval.skeleton);
  CHECK(known.OfId("lib.A", 0).skeleton == nullptr);
  CHECK(known.OfId("lib.B", in_eval.id).skeleton == nullptr);
}

TEST_CASE("damaged facts of a class are an error or other facts") {
  NamesToPack names;
  const std::string bytes =
      PackClass(ParseSkeletons("lib.A t\n>a=lib.B/relu~9a:1f to=16 \n0.0-1 1.0 1<-1.0 \n"), names);
  std::string text;
  std::string ends;
  for (const std::string_view name : names.all()) {
    text += name;
    ends += std::string{static_cast<char>(text.size()), 0, 0, 0};
  }
  const auto span = [](const std::string& of) {
    return std::span(reinterpret_cast<const unsigned char*>(of.data()), of.size());
  };
  const PackedNames packed(span(ends), span(text));
  const auto read = [&](const std::string& some) {
    const PackedClass one("lib.A", some, packed);
    for (size_t i = 0; i < one.size(); ++i) ToText(one.At(i));
    return one.size();
  };
  CHECK(read(bytes) == 1);
  for (size_t size = 0; size < bytes.size(); ++size) {
    CHECK_THROWS_AS(read(bytes.substr(0, size)), Error);
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      try {
        read(damaged);
      } catch (const Error&) {
      }
    }
  }
}

TEST_CASE("the binary knows libraries") {
  CHECK(SkeletonsOfLibraries().releases().find("torch") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::skeletons_test
