// memory_test.cpp: a host without memory left, which a call has to answer with a status.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "sluice/sluice.h"

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool own_allocator = true;  // whose own memory a limit would starve
#else
constexpr bool own_allocator = false;
#endif

TEST(memory, none_left_is_a_status) {
  if (own_allocator) GTEST_SKIP() << "this build's allocator does not answer NULL";
  pid_t child = fork();
  if (child == 0) {
    rlimit none = {1, 1};
    setrlimit(RLIMIT_AS, &none);
    for (size_t size = size_t(1) << 30; size >= 8; size = size > 8192 ? size / 2 : size - 8)
      while (malloc(size)) {
      }
    sluice_context *made = nullptr;
    sluice_status status = sluice_context_create(nullptr, &made);
    if (status != SLUICE_OUT_OF_MEMORY) _exit(1);
    _exit(std::strcmp(sluice_last_error(), "context_create: the host has no memory left") == 0 ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
