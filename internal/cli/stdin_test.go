package cli

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Large inputs reach the PE that is asked for, or all PEs, completely, from a pipe and from a file, even if one PE does
// not read.
func TestLargeInput(t *testing.T) {
	const size = 24<<20 + 7
	text := bytesOf(0, size)
	want := fmt.Sprintf("%d bytes, %x, <nil>", size, sha256.Sum256(text))
	file := t.TempDir() + "/in"
	check(t, os.WriteFile(file, text, 0o600))
	for _, x := range []struct {
		to, program string
		pes         []int
	}{
		{"2", `"$0" pe t-say digest`, []int{2}},
		{"all", `if [ $PMIX_RANK = 1 ]; then sleep 1000; else "$0" pe t-say digest; fi`, []int{0, 2, 3}},
	} {
		for _, from := range []string{"pipe", "file"} {
			t.Run(x.to+" "+from, func(t *testing.T) {
				j := prepare(t, "-n", "4", "--stdin", x.to, "sh", "-c", x.program, self(t))
				src, err := os.Open(file)
				check(t, err)
				defer src.Close()
				j.cmd.Stdin = src
				if from == "pipe" {
					j.cmd.Stdin = io.MultiReader(src) // not a file, so it is copied through a pipe
				}
				j.begin()
				patience := time.AfterFunc(testPatience, func() { _ = j.cmd.Process.Kill() })
				defer patience.Stop()
				got := map[int]bool{}
				for len(got) < len(x.pes) {
					line, err := j.out.ReadString('\n')
					if err != nil {
						t.Fatalf("%v; %s", err, &j.stderr)
					}
					for _, pe := range x.pes {
						if strings.TrimSpace(line) == fmt.Sprintf("PE %d: %s", pe, want) {
							got[pe] = true
						}
					}
				}
				if x.to != "all" {
					j.expect(0)
					return
				}
				check(t, j.cmd.Process.Signal(syscall.SIGTERM))
				j.expect(143)
			})
		}
	}
}

// An endless input does not delay a job whose PE has ended or does not read it.
func TestEndlessInput(t *testing.T) {
	for _, program := range []string{"true", "exec <&-; sleep 0.2", "head -c 100000 | wc -c"} {
		for _, to := range []string{"0", "all", "none"} {
			if to == "none" && strings.HasPrefix(program, "head") {
				continue
			}
			r, w, err := os.Pipe()
			check(t, err)
			go func() {
				for err := error(nil); err == nil; {
					_, err = w.Write(make([]byte, 4096))
				}
			}()
			j := prepare(t, "-n", "2", "--stdin", to, "sh", "-c", program)
			j.cmd.Stdin = r
			j.begin()
			_ = r.Close()
			j.expect(0)
			_ = w.Close()
		}
	}
}
