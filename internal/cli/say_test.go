package cli

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-say"] = sayPE
	}
}

// sayPE is a program that does not join the job. It writes or reads.
func sayPE(args []string, stdout, stderr io.Writer) int {
	pe := number(os.Getenv("PMIX_RANK"))
	switch mode := args[0]; mode {
	case "lines": // the wanted number of lines, in portions of odd sizes
		rng := rand.New(rand.NewPCG(1, uint64(pe)))
		w := bufio.NewWriterSize(stdout, 1+rng.IntN(30000))
		for i := range number(args[1]) {
			_, _ = w.WriteString(lineOf(pe, i, rng))
			if rng.IntN(20) == 0 {
				_ = w.Flush()
			}
		}
		_ = w.Flush()
	case "die": // floods the output; one PE writes lines once a file exists, and kills itself
		rng := rand.New(rand.NewPCG(1, uint64(pe)))
		for i := 0; pe != number(args[2]); i++ {
			fmt.Fprint(stdout, lineOf(pe, i, rng))
		}
		for _, err := os.Stat(args[3]); err != nil; _, err = os.Stat(args[3]) {
			time.Sleep(10 * time.Millisecond)
		}
		for i := range number(args[1]) {
			fmt.Fprint(stdout, lineWith(pe, i, 10))
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "bytes": // bytes from the upper half of all values on odd PEs, from the lower half on others
		_, _ = stdout.Write(bytesOf(pe, number(args[1])))
	case "turns": // lines on its outputs in turn
		for i := range number(args[1]) {
			fmt.Fprintf(stdout, "out %d\n", i)
			fmt.Fprintf(stderr, "err %d\n", i)
		}
	case "digest": // a digest of its input
		h := sha256.New()
		n, err := io.Copy(h, os.Stdin)
		fmt.Fprintf(stdout, "PE %d: %d bytes, %x, %v\n", pe, n, h.Sum(nil), err)
	case "tty":
		return sayOnTerminal(pe, stdout)
	default:
		return 99
	}
	return 0
}

// sayOnTerminal prints what its files are, and each interrupt that it gets, until it is killed.
func sayOnTerminal(pe int, stdout io.Writer) int {
	interrupts := make(chan os.Signal, 10)
	signal.Notify(interrupts, syscall.SIGINT)
	var kinds []string
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		kinds = append(kinds, kindOf(f))
	}
	fmt.Fprintf(stdout, "PE %d: %s\n", pe, strings.Join(kinds, " "))
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(tty, "<tty of %d>\n", pe)
	}
	fmt.Fprintf(stdout, "ready %d %v\n", pe, err)
	for n := 1; ; n++ {
		<-interrupts
		fmt.Fprintf(stdout, "PE %d: interrupt %d\n", pe, n)
	}
}

// kindOf says whether a file is a pipe or a terminal.
func kindOf(f *os.File) string {
	st, err := f.Stat()
	switch {
	case err != nil:
		return err.Error()
	case st.Mode()&os.ModeNamedPipe != 0:
		return "pipe"
	case st.Mode()&os.ModeCharDevice != 0:
		return "terminal"
	}
	return st.Mode().String()
}

// lineOf returns a line that contains its PE, its number and its length.
func lineOf(pe, i int, rng *rand.Rand) string {
	n := rng.IntN(80)
	switch rng.IntN(1000) {
	case 0:
		n *= 30000
	case 1:
		n *= 300
	}
	return lineWith(pe, i, n)
}

func lineWith(pe, i, n int) string {
	return fmt.Sprintf("%d %d %d %s.\n", pe, i, n, strings.Repeat(string(rune('a'+pe)), n))
}

// checkLines checks that lines, after a prefix, are those of lineOf. It returns the number of lines of each PE.
func checkLines(t *testing.T, r io.Reader, prefix string, npes int) []int {
	t.Helper()
	next := make([]int, npes)
	for in := bufio.NewReaderSize(r, 1<<20); ; {
		line, err := in.ReadString('\n')
		if err == io.EOF && line == "" {
			return next
		}
		line = strings.ReplaceAll(line, "\r\n", "\n") // terminals add the carriage return
		var pe, i, n int
		if prefix != "" {
			if _, err := fmt.Sscanf(line, "["+prefix, &pe); err != nil {
				t.Fatalf("line %.80q has no tag", line)
			}
			line = strings.TrimPrefix(line, fmt.Sprintf("["+prefix, pe))
		}
		if _, err := fmt.Sscanf(line, "%d %d %d ", &pe, &i, &n); err != nil || pe >= npes || i != next[pe] {
			t.Fatalf("line %.80q is not whole or out of order: %v", line, err)
		}
		if line != lineWith(pe, i, n) {
			want := lineWith(pe, i, n)
			at := 0
			for at < len(line) && at < len(want) && line[at] == want[at] {
				at++
			}
			t.Fatalf("line %.80q of %d bytes, want %d, differs at byte %d: %.200q, want %.80q", line, len(line), len(want), at, line[at:], want[at:])
		}
		next[pe]++
	}
}

// bytesOf returns n bytes of one half of all values, with every value of that half.
func bytesOf(pe, n int) []byte {
	rng, b := rand.NewChaCha8([32]byte{byte(pe)}), make([]byte, n)
	_, _ = rng.Read(b) // never fails
	for i := range b {
		b[i] = b[i]&0x7f | byte(pe&1)<<7
	}
	return b
}
