// What absent_saves_test.py asks of libc where Python has no call for it: a line for each thing
// that is not as it should be.  Started in a folder with the files that the test makes.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

#define EXPECT(condition) \
  if (!(condition)) std::printf("%d: %s, errno %d\n", __LINE__, #condition, errno)

// Before the library's own constructors, as a program's may be.
[[gnu::constructor(101)]] void OpenEarly() {
  struct stat status = {};
  const int file = open("/dev/null", O_WRONLY);
  if (file < 0 || stat("/", &status) != 0) std::printf("early\n");
  close(file);
}

void Descriptors() {
  struct stat status = {};
  const int folder = open(".", O_RDONLY | O_DIRECTORY);
  EXPECT(fstatat(folder, "", &status, AT_EMPTY_PATH) == 0 && S_ISDIR(status.st_mode));
  const int file = openat(folder, "model.pt", O_RDWR);
  EXPECT(fstatat(file, "", &status, AT_EMPTY_PATH) == 0 && status.st_size == 4);
  const timespec times[2] = {{1, 0}, {1, 0}};
  EXPECT(futimens(file, times) == 0 && fstat(file, &status) == 0 && status.st_mtime == 1);
  char known[PATH_MAX] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  EXPECT(readlink(link.c_str(), known, sizeof known - 1) > 0);
  EXPECT(std::string(known).find("/saved/") == std::string::npos);
  const int nameless = open(".", O_TMPFILE | O_RDWR, 0600);
  const std::string name = "/proc/self/fd/" + std::to_string(nameless);
  EXPECT(linkat(AT_FDCWD, name.c_str(), folder, "named", AT_SYMLINK_FOLLOW) == 0);
  EXPECT(faccessat(folder, "named", R_OK, 0) == 0);
  EXPECT(unlinkat(folder, "named", 0) == 0);
  close(nameless);
  close(file);
  close(folder);
}

void Errors() {
  struct stat status = {};
  errno = 7;
  const int file = open("new", O_CREAT | O_WRONLY, 0600);
  EXPECT(file >= 0 && stat("new", &status) == 0 && access("new", R_OK) == 0);
  EXPECT(rename("new", "newer") == 0 && unlink("newer") == 0 && mkdir("new", 0700) == 0);
  EXPECT(rmdir("new/") == 0 && errno == 7);  // what works leaves it
  close(file);
  const char* volatile none = nullptr;
  EXPECT(open(none, O_RDONLY) < 0 && errno == EFAULT);
  EXPECT(open("", O_RDONLY) < 0 && errno == ENOENT);
  EXPECT(stat("model.pt/", &status) < 0 && errno == ENOTDIR);
  EXPECT(open(std::string(300, 'a').c_str(), O_CREAT | O_WRONLY, 0600) < 0 &&
         errno == ENAMETOOLONG);
  EXPECT(symlink("loop", "loop") == 0 && open("loop", O_RDONLY) < 0 && errno == ELOOP);
  EXPECT(open("loop", O_RDONLY | O_NOFOLLOW) < 0 && errno == ELOOP && unlink("loop") == 0);
  EXPECT(std::fopen("model.pt", "wx") == nullptr && errno == EEXIST);
}

int Count(DIR* folder) {
  int count = 0;
  errno = 0;
  while (readdir(folder) != nullptr) ++count;
  EXPECT(errno == 0);
  return count;
}

void Lists() {
  DIR* const folder = opendir(".");
  const int count = Count(folder);
  rewinddir(folder);
  EXPECT(Count(folder) == count);
  closedir(folder);
  dirent** names = nullptr;
  EXPECT(scandir(".", &names, nullptr, alphasort) == count);
  glob_t found = {};
  EXPECT(glob("*", 0, nullptr, &found) == 0 && static_cast<int>(found.gl_pathc) == count - 2);
  globfree(&found);
}

void ManyThreads() {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([number] {
      for (int i = 0; i < 100; ++i) {
        const std::string name = "thread-" + std::to_string(number);
        close(open(name.c_str(), O_CREAT | O_WRONLY, 0600));
        DIR* const folder = opendir(".");
        while (readdir(folder) != nullptr) {
        }
        closedir(folder);
        EXPECT(unlink(name.c_str()) == 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Programs() {
  FILE* const script = std::fopen("five.sh", "w");
  std::fputs("#!/bin/sh\nexit 5\n", script);
  std::fclose(script);
  EXPECT(chmod("five.sh", 0755) == 0);
  char name[] = "five.sh";
  char* words[] = {name, nullptr};
  int status = 0;
  const pid_t forked = vfork();
  if (forked == 0) {
    execv("./five.sh", words);
    _exit(9);
  }
  EXPECT(waitpid(forked, &status, 0) == forked && WEXITSTATUS(status) == 5);
  pid_t child = 0;
  EXPECT(posix_spawn(&child, "./five.sh", nullptr, nullptr, words, environ) == 0);
  EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
}

}  // namespace

int main() {
  Descriptors();
  Errors();
  Lists();
  ManyThreads();
  Programs();
  char name[] = "oneXXXXXX";
  EXPECT(mkstemp(name) >= 0 && unlink(name) == 0);
  return 0;
}
