// Runs the tests that the command line picks, which must be some: a filter that matches nothing,
// such as the name of a file without a test, fails.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "tests/paths.h"

namespace onnxfit {

const char* const kSourceDir = ONNXFIT_SOURCE_DIR;
const char* const kCountingNvml = COUNTING_NVML;
const char* const kOldNvml = OLD_NVML;

namespace {

unsigned picked = 0;

struct CountPicked : doctest::IReporter {
  explicit CountPicked(const doctest::ContextOptions&) {}

  void test_run_end(const doctest::TestRunStats& stats) override {
    picked = stats.numTestCasesPassingFilters;
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

DOCTEST_REGISTER_LISTENER("picked", 1, CountPicked);

}  // namespace
}  // namespace onnxfit

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || onnxfit::picked > 0) return result;
  std::cerr << "expected a test that the command line picks, found none\n";
  return 1;
}
