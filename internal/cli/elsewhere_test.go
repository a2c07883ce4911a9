package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A PE on one node may leave its input unread until a PE on another node has read all of it.
func TestInputToAllNodes(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	check(t, syscall.Mkfifo(fifo, 0o600))
	const size = 2 << 20 // more than pipes and windows have room for
	j := prepare(t, "--emulate", "2", "-n", "2", "--stdin", "all", "sh", "-c",
		`if [ $PMIX_RANK = 0 ]; then wc -c; echo go >"$0"; else read go <"$0"; wc -c; fi`, fifo)
	j.cmd.Stdin = strings.NewReader(strings.Repeat("x", size)) // by a pipe
	j.begin()
	j.expect(0)
	if got, want := lines(j.stdout.String()), []string{fmt.Sprint(size), fmt.Sprint(size)}; !slices.Equal(got, want) {
		t.Errorf("PEs have read %q bytes, want %q", got, want)
	}
}
