// The shared file behind the board. A meeting's life:
//
//   the first arrives      a place is taken, with the meeting's key
//   the last arrives       its flow starts: at the latest of the arrivals
//   the flow ends          everybody who waits learns when
//   the last leaves        the place is free again
//
// Flows are moved on to the present whenever somebody looks. Who waits works out when his flow will
// end if nothing else comes, sleeps until then, and looks again: what comes meanwhile can only
// delay him.

#include "weft/emulate/board.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr int kMostMeetings = 2048;  // at the same time
constexpr int kMostUses = 512;       // links of one meeting
constexpr double kLook_s = 0.1;      // how often to look for those who are late

struct Place {
  int parties = 0;
  int arrived = 0;
  int left = 0;
  double latest_s = 0;
  LinkFlow flow = {};  // its pointer is set by whoever looks: mappings differ
  std::array<Use, kMostUses> uses = {};
};

timespec to_timespec(double time_s) {
  const double whole = std::floor(time_s);
  return {.tv_sec = static_cast<time_t>(whole),
          .tv_nsec = static_cast<long>((time_s - whole) * 1e9)};
}

// The kernel may let a thread sleep 50 us longer than asked, to save power; not this one.
void sleep_exactly() {
  thread_local const int done = ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  static_cast<void>(done);
}

}  // namespace

double wall_s() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void sleep_until(double time_s) {
  sleep_exactly();
  const timespec until = to_timespec(time_s);
  while (time_s > wall_s() &&
         ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

struct Board::Shared {
  pthread_mutex_t mutex = {};
  pthread_cond_t news = {};
  double moved_s = 0;                                  // flows are moved on to here
  int high = 0;                                        // places from here on are free
  std::array<std::uint64_t, kMostMeetings> keys = {};  // 0: free
  std::array<Place, kMostMeetings> places = {};

  int find(std::uint64_t key) const {
    const auto* end = keys.begin() + high;
    const auto* found = std::find(keys.begin(), end, key);
    return found == end ? -1 : static_cast<int>(found - keys.begin());
  }
  int take(std::uint64_t key) {
    const int place = static_cast<int>(std::find(keys.begin(), keys.end(), 0U) - keys.begin());
    WEFT_CHECK(place < kMostMeetings);
    keys[place] = key;
    high = std::max(high, place + 1);
    return place;
  }
  void release(int place) {
    keys[place] = 0;
    while (high > 0 && keys[high - 1] == 0) {
      --high;
    }
  }
  // Flows that have begun or will, and have not ended.
  std::vector<LinkFlow*> open_flows() {
    std::vector<LinkFlow*> flows;
    for (int i = 0; i < high; ++i) {
      Place& place = places[i];
      if (keys[i] != 0 && place.arrived == place.parties && place.flow.end_s < 0) {
        place.flow.uses = place.uses.data();
        flows.push_back(&place.flow);
      }
    }
    return flows;
  }
  void move_on(double now_s) {
    std::vector<LinkFlow*> flows = open_flows();
    move_flows(flows, moved_s, now_s);
    moved_s = std::max(moved_s, now_s);
  }
  // When the flow will end if nothing else comes.
  double expected_end(const LinkFlow& flow) {
    std::vector<LinkFlow> copies;
    std::size_t mine = 0;
    for (LinkFlow* other : open_flows()) {
      mine = other == &flow ? copies.size() : mine;
      copies.push_back(*other);
    }
    std::vector<LinkFlow*> pointers;
    for (LinkFlow& copy : copies) {
      pointers.push_back(&copy);
    }
    move_flows(pointers, moved_s);
    return copies[mine].end_s;
  }
};

class Board::Lock {
 public:
  explicit Lock(Shared& shared) : shared_(shared) {
    if (::pthread_mutex_lock(&shared_.mutex) == EOWNERDEAD) {
      ::pthread_mutex_consistent(&shared_.mutex);  // a worker was killed; the job is about to end
    }
  }
  ~Lock() { ::pthread_mutex_unlock(&shared_.mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  Lock(Lock&&) = delete;
  Lock& operator=(Lock&&) = delete;

  void wait_until(double time_s) {
    const timespec until = to_timespec(time_s);
    if (::pthread_cond_timedwait(&shared_.news, &shared_.mutex, &until) == EOWNERDEAD) {
      ::pthread_mutex_consistent(&shared_.mutex);
    }
  }

 private:
  Shared& shared_;
};

Board::Board(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::flock(fd, LOCK_EX) != 0) {
    fail_environment("cannot open {}: {}", path, std::strerror(errno));
  }
  const bool fresh = ::lseek(fd, 0, SEEK_END) == 0;
  void* memory = MAP_FAILED;
  if (!fresh || ::ftruncate(fd, sizeof(Shared)) == 0) {
    memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (memory == MAP_FAILED) {
    fail_environment("cannot map {}: {}", path, std::strerror(errno));
  }
  shared_ = static_cast<Shared*>(memory);
  if (fresh) {  // all zeros is an empty board
    pthread_mutexattr_t mutex = {};
    ::pthread_mutexattr_init(&mutex);
    ::pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    ::pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
    ::pthread_mutex_init(&shared_->mutex, &mutex);
    pthread_condattr_t news = {};
    ::pthread_condattr_init(&news);
    ::pthread_condattr_setpshared(&news, PTHREAD_PROCESS_SHARED);
    ::pthread_condattr_setclock(&news, CLOCK_MONOTONIC);
    ::pthread_cond_init(&shared_->news, &news);
    shared_->moved_s = wall_s();
  }
  ::flock(fd, LOCK_UN);  // the mapping keeps the open file, and with it the lock, alive
  ::close(fd);
}

Board::~Board() {
  ::munmap(shared_, sizeof(Shared));
}

void Board::arrive(const Meeting& meeting) {
  const Lock lock(*shared_);
  int at = shared_->find(meeting.key);
  if (at < 0) {
    at = shared_->take(meeting.key);
    Place& fresh = shared_->places[at];
    WEFT_CHECK(meeting.uses.size() <= kMostUses);
    fresh.parties = meeting.parties;
    fresh.arrived = 0;
    fresh.left = 0;
    fresh.latest_s = meeting.arrival_s;
    fresh.flow = {.alone_s = meeting.alone_s,
                  .most = meeting.most,
                  .use_count = static_cast<int>(meeting.uses.size())};
    std::ranges::copy(meeting.uses, fresh.uses.begin());
  }
  Place& place = shared_->places[at];
  WEFT_CHECK(place.parties == meeting.parties && place.arrived < place.parties);
  place.latest_s = std::max(place.latest_s, meeting.arrival_s);
  if (place.arrived + 1 == place.parties) {
    shared_->move_on(wall_s());
    LinkFlow& flow = place.flow;
    flow.start_s = place.latest_s;
    // Devices' clocks may lie behind the wall clock: the flow has begun a moment ago, at full
    // speed.
    const double since_s = shared_->moved_s - flow.start_s;
    if (since_s >= flow.alone_s) {
      flow.end_s = flow.start_s + flow.alone_s;
    } else if (since_s > 0) {
      flow.left = 1 - since_s / flow.alone_s;
    }
  }
  ++place.arrived;
  ::pthread_cond_broadcast(&shared_->news);
}

void Board::leave(Meeting& meeting) {
  if (meeting.end_s >= 0) {
    return;
  }
  sleep_exactly();
  Lock lock(*shared_);
  const int at = shared_->find(meeting.key);
  WEFT_CHECK(at >= 0);
  Place& place = shared_->places[at];
  while (place.arrived < place.parties) {
    lock.wait_until(wall_s() + kLook_s);
  }
  while (true) {
    shared_->move_on(wall_s());
    if (place.flow.end_s >= 0) {
      break;
    }
    lock.wait_until(shared_->expected_end(place.flow));
  }
  meeting.end_s = place.flow.end_s;
  if (++place.left == place.parties) {
    shared_->release(at);
  }
}

}  // namespace weft
