// Package codectest records what PMIx clients and servers say to each other, and reads the records back, for tests.
//
// A dump is text: a line for each frame with its direction and header, and the body as hexadecimal lines after it. Lines
// that start with # are remarks. The first frame is the handshake, whose header is in the byte order of the host that it
// was recorded on; the answer to it has no header.
package codectest

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// headerSize is the length of a frame's header on the wire.
const headerSize = 16

// Frame is one message of a dump.
type Frame struct {
	FromClient bool
	Header     []byte // empty for the reply to the handshake
	Body       []byte
}

// Load reads a dump.
func Load(t testing.TB, path string) []Frame {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var frames []Frame
	sc := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; sc.Scan(); n++ {
		line := sc.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.Contains(line, "ms "):
			f := Frame{FromClient: strings.Contains(line, "C->S")}
			if _, after, ok := strings.Cut(line, "hdr="); ok && len(after) >= 2*headerSize {
				f.Header = unhex(t, after[:2*headerSize])
			}
			frames = append(frames, f)
		case len(frames) > 0 && len(line) >= 60:
			last := &frames[len(frames)-1]
			last.Body = append(last.Body, unhex(t, strings.ReplaceAll(line[8:60], " ", ""))...)
		default:
			t.Fatalf("%s:%d: %q, want a frame's first line or bytes after it", path, n, line)
		}
	}
	if sc.Err() != nil || len(frames) == 0 {
		t.Fatalf("%s: no frames read: %v", path, sc.Err())
	}
	return frames
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Write writes a dump with a remark at its head. It tells no times: the same exchange gives the same text.
func Write(path, remark string, frames []Frame) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n", remark)
	for _, f := range frames {
		direction := "S->C"
		if f.FromClient {
			direction = "C->S"
		}
		if len(f.Header) == 0 {
			fmt.Fprintf(&out, "    0.00ms %s RAW %d\n", direction, len(f.Body))
		} else {
			fmt.Fprintf(&out, "    0.00ms %s hdr=%x nbytes=%d\n", direction, f.Header, len(f.Body))
		}
		// hexdump -C without the last line, which holds the length alone
		out.WriteString(hex.Dump(f.Body))
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}
