package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/internal/launch"
)

// outputWords are what --output takes.
const outputWords = "tag, timestamp, merge, raw or dir=D"

func (f *runFlags) setOutput(o *launch.Options) error {
	for _, word := range f.output {
		switch dir, isDir := strings.CutPrefix(word, "dir="); {
		case word == "tag", word == "rank", word == "tag-detailed", word == "tag-fullname":
			o.Output.Tag = true
		case word == "timestamp":
			o.Output.Timestamp = true
		case word == "merge", word == "merge-stderr-to-stdout":
			o.Output.Merge = true
		case word == "raw":
			o.Output.Raw = true
		case isDir && dir != "":
			o.Output.Dir = dir
		case strings.HasPrefix(word, "file="):
			return usagef("--output dir=logs", "--output: %q, want dir=D: each PE has a directory of its own", word)
		default:
			return usagef("--output tag,timestamp,dir=logs", "--output: %q, want %s", word, outputWords)
		}
	}
	if err := o.Output.Check(); err != nil {
		return usagef("--output raw,dir=logs", "--output: %w", err)
	}
	return f.setPTY(o)
}

func (f *runFlags) setPTY(o *launch.Options) error {
	switch {
	case f.pty && f.noPTY:
		return usagef("--pty", "--pty and --no-pty: want one of them")
	case f.pty:
		o.PTY = launch.PTYAlways
	case f.noPTY:
		o.PTY = launch.PTYNever
	}
	return nil
}

// outputFact is a row of outputFacts.
type outputFact struct {
	Subject string `json:"subject"`
	Meaning string `json:"meaning"`
}

// outputFacts is what users may rely on about input and output.
var outputFacts = []outputFact{
	{"--output tag", "each line begins with [PE]<stream>: as in [0]<stdout>: hello."},
	{"--output timestamp", "each line begins with the time at which it came to oshrun."},
	{"--output merge", "what PEs write to standard error goes to standard output, too."},
	{"--output raw", `bytes are passed on as they come, unchanged and without waiting for the end of a
line; those of several PEs alternate in portions. Not with tag or timestamp.`},
	{"--output dir=D", `a copy of each PE's output in D/rank.N/stdout and stderr; that of jobs which PEs
have started in D/job.J/rank.N. A file that cannot be written, on a full disk
say, is named and gets nothing more; the job is ended with status 1.`},
	{"--stdin N|all|none", `who reads standard input; everybody else finds it empty. With all, each PE gets
everything at its own pace: what the slowest has still to read waits in a file
without a name in TMPDIR. A job in the background of a shell does not read the
terminal.`},
	{"lines", `lines of different PEs never mix, whatever their length. A line that has no end
for 0.1 s, such as a prompt, is shown; if somebody else writes then, it is
broken by a newline. The same goes for very long lines that pause for 1 s or
are longer than 64 MB.`},
	{"order", `what a PE writes to one stream stays in order. Its two streams are in order to
each other with merge, and, without tag and dir, wherever oshrun's own two are
one file or pipe; otherwise a PE that changes between them quickly may see
lines change places. Where merge, or one terminal, puts them together and
standard output is a pseudo terminal, its lines still come before those of
standard error that were written later, but not the other way round.`},
	{"the end", `what a PE had written when it ended or was killed comes first, and then what
oshrun says about it. Output that is not read is cut, and that is said, when a
job that failed has waited 2 s for its reader, or 5 s in all, and 1.6 s after a
signal that ended the job. A job that ended well waits for its reader.`},
	{"a slow reader", `PEs are slowed down to its pace. What waits in oshrun does not grow: 64 KB, or
the length of a line up to 1 MB, for each output of a PE, and four buffers more.
Its own messages and its log wait for nobody; lines of the log that find no room
are counted.`},
	{"closed outputs", `an output that was closed when oshrun began, as by >&-, is like /dev/null to it: what
goes there is dropped, and the status does not tell.`},
	{"--pty, --no-pty", `whether the standard output of PEs is a pseudo terminal; by default it is where
oshrun's own is a terminal. Programs show lines at once on a terminal, and hold
4 KB or more back in a pipe. The terminal changes no byte, has the window size of
oshrun's, and nobody types there. Standard input and standard error are never a
terminal. Without pseudo terminals PEs get pipes, which is said if --pty asked
for them.`},
	{"terminals", `oshrun leaves the modes of its terminal alone, and an interrupt that is typed
reaches every PE once. The PEs that read it (--stdin) may also open /dev/tty;
others mostly have sessions without a terminal: oshrun help signals.`},
}

// outputData returns the facts for JSON, where lines have no length.
func outputData() any {
	var all []outputFact
	for _, f := range outputFacts {
		all = append(all, outputFact{f.Subject, strings.ReplaceAll(f.Meaning, "\n", " ")})
	}
	return all
}

func outputText() []byte {
	var b bytes.Buffer
	for _, f := range outputFacts {
		fmt.Fprintf(&b, "%s\n  %s\n", f.Subject, strings.ReplaceAll(f.Meaning, "\n", "\n  "))
	}
	return b.Bytes()
}
