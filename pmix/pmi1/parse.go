package pmi1

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of what a client may send. MPICH sends no line longer than 1024 bytes.
const (
	maxLine  = 4096    // bytes of a line
	maxSpawn = 1 << 20 // bytes of a spawn request
)

// Limits that get_maxes tells clients. Each includes the closing NUL.
const (
	maxName  = 256
	maxKey   = 64
	maxValue = 1024
)

// pair is a key with its value.
type pair struct{ key, value string }

// fields holds the pairs of a line, each of the form key=value.
type fields []pair

// parseLine splits a line without its newline into pairs. A word without "=" belongs to the value before it: the
// protocol does not escape blanks, and names of services contain them.
func parseLine(line string) (fields, error) {
	var f fields
	for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == ' ' }) {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case ok && key == "":
			return nil, fmt.Errorf("line %q: a value without a key", shorten(line))
		case ok:
			f = append(f, pair{key, value})
		case len(f) == 0:
			return nil, fmt.Errorf("line %q, want key=value", shorten(line))
		default:
			f[len(f)-1].value += " " + word
		}
	}
	if len(f) == 0 {
		return nil, errors.New("an empty line")
	}
	return f, nil
}

// get returns the first value of a key.
func (f fields) get(key string) (string, bool) {
	for _, p := range f {
		if p.key == key {
			return p.value, true
		}
	}
	return "", false
}

// text returns the first value of a key, empty if there is none.
func (f fields) text(key string) string {
	v, _ := f.get(key)
	return v
}

// reply returns a line with a command and the given keys and values.
func reply(cmd string, more ...string) string {
	var b strings.Builder
	b.WriteString("cmd=")
	b.WriteString(cmd)
	for i := 0; i+1 < len(more); i += 2 {
		b.WriteByte(' ')
		b.WriteString(more[i])
		b.WriteByte('=')
		b.WriteString(more[i+1])
	}
	b.WriteByte('\n')
	return b.String()
}

// refusal returns a reply with the reason of a failure.
func refusal(cmd, why string) string { return reply(cmd, "rc", "-1", "msg", oneWord(why)) }

// maxMessage bounds a message, so that the reply fits into a client's line.
const maxMessage = 512

// oneWord returns text without blanks, which a message of this protocol must not contain.
func oneWord(text string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' {
			return '_'
		}
		return r
	}, text[:min(len(text), maxMessage)])
}

// shorten cuts text of a client to a length for messages.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
