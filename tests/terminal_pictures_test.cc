#include <doctest/doctest.h>

#include <string>

#include "estimator/picture/terminal.h"
#include "estimator/report/layout.h"
#include "tests/sample_estimate.h"

namespace onnxfit::terminal_pictures_test {
namespace {

CurvePoint Point(Phase phase, int64_t parameters, int64_t allocated) {
  CurvePoint point = {.phase = phase, .allocated_bytes = allocated, .reserved_bytes = allocated};
  point.bytes[static_cast<size_t>(Kind::kParameter)] = parameters;
  return point;
}

// Four instants of forward that grow to 8 MiB, two of backward that fall.
Estimate Drawn() {
  Estimate estimate = SampleEstimate();
  estimate.curve.emplace();
  Curve& curve = estimate.curve->curve;
  curve.step = 2;
  for (const int64_t size : {2, 4, 6, 8}) {
    curve.points.push_back(Point(Phase::kForward, kMiB, size * kMiB));
  }
  for (const int64_t size : {5, 1}) {
    curve.points.push_back(Point(Phase::kBackward, kMiB, size * kMiB));
  }
  curve.peak = 3;
  estimate.curve->nodes = {"", "", "", "/conv1/Conv", "", ""};
  return estimate;
}

size_t WidestLine(const std::string& text) {
  size_t widest = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    widest = std::max(widest, Columns(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return widest;
}

}  // namespace

TEST_CASE("few instants are stretched to the width of a page") {
  CHECK(TimelineText(Drawn(), {.ascii = true}) == R"(
Allocated over step 2
  8.00 MiB |                                 ###########
           |                                 ###########
           |                      ######################
           |                      ######################
           |                      #################################
  4.00 MiB |           ############################################
           |           ############################################
           |#######################################################
           |#######################################################
           |..................................................................
       0 B +------------------------------------------------------------------
            |forward                                    |backward
                                             ^ 8.00 MiB at /conv1/Conv
  . parameters, buffers, gradients, optimizer state   # all else
)");
}

TEST_CASE("a timeline is at most 80 columns wide, with any letters and names") {
  Estimate estimate = Drawn();
  estimate.curve->nodes[3] = std::string(200, 'x');
  for (const bool ascii : {true, false}) {
    CHECK(WidestLine(TimelineText(estimate, {.ascii = ascii})) <= kReportColumns);
  }
  CHECK(TimelineText(estimate, {}).find("█") != std::string::npos);
}

TEST_CASE("without a curve and modules there is nothing to draw") {
  CHECK(TimelineText(SampleEstimate(), {}).empty());
  CHECK(TreeText(SampleEstimate(), {}).empty());
}

TEST_CASE("modules below a hundredth are left out, but with -v") {
  Estimate estimate = SampleEstimate();
  estimate.modules = {{.path = "", .parameters = 1500, .weight_bytes = 10000 * kKiB},
                      {.path = "body", .depth = 1, .weight_bytes = 9990 * kKiB},
                      {.path = "body.0", .depth = 2, .weight_bytes = 4000 * kKiB},
                      {.path = "body.1", .depth = 2, .weight_bytes = 4000 * kKiB},
                      {.path = "head", .depth = 1, .weight_bytes = 10 * kKiB}};
  CHECK(TreeText(estimate, {.ascii = true}) == R"(
By module, at the peak
  module    parameters   weights  training  made in it   share
  (model)        1.5 k  9.77 MiB                        100.0%
    body                9.76 MiB                         99.9%
      0..1              7.81 MiB                         80.0%
  1 below 1% left out (-v)
)");
  CHECK(TreeText(estimate, {.ascii = true, .verbose = true}).find("head") != std::string::npos);
}

}  // namespace onnxfit::terminal_pictures_test
