package testenv

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
)

// OwnSession makes this process lead a session, for Starve. TestMain calls it. What runs in other sessions, tests of other packages
// among it, has its share of the processors then, as the kernel shares them between sessions without regard to priorities
// (autogroups).
func OwnSession() {
	apart = true
	_ = xunix.NewSession() // a shell has made it the leader of a process group, so that it cannot: nothing else runs then
}

// apart says that OwnSession was called.
var apart bool

// Starve takes the processor from a process of this session: it puts all of its threads on one processor, with the lowest priority,
// beside a busy loop with the highest. They hardly get a turn. It returns how the process gets processors again, which is also done at
// the end of the test.
func Starve(t testing.TB, pid int) (feed func()) {
	t.Helper()
	Need(t, Root)
	if !apart {
		t.Fatal("TestMain does not call testenv.OwnSession")
	}
	all, err := xunix.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	last := strconv.Itoa(all[len(all)-1])
	hog := exec.Command("taskset", "-c", last, "nice", "-n", "-20", "sh", "-c", "while :; do :; done")
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	feed = sync.OnceFunc(func() {
		_ = hog.Process.Kill()
		_ = hog.Wait() // it was killed
		placed := strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ","), "[]")
		_ = exec.Command("chrt", "-a", "-o", "-p", "0", strconv.Itoa(pid)).Run() // it may have ended
		_ = exec.Command("taskset", "-a", "-c", "-p", placed, strconv.Itoa(pid)).Run()
	})
	t.Cleanup(feed)
	for _, change := range [][]string{{"taskset", "-a", "-c", "-p", last}, {"chrt", "-a", "-i", "-p", "0"}} {
		if text, err := exec.Command(change[0], append(change[1:], strconv.Itoa(pid))...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", change, err, text)
		}
	}
	return feed
}
