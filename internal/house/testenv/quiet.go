package testenv

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Busy returns the processor time that all processes of the machine have used since it was started. Of two looks, a test that compares times learns how much
// others have disturbed it.
func Busy(t testing.TB) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, field := range strings.Fields(line)[1:] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatalf("/proc/stat has %q, want numbers: %v", line, err)
		}
		if i < 7 && i != 3 && i != 4 { // user, nice, system, irq and softirq; neither idle nor iowait
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}
