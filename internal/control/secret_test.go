package control

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSecretLine(t *testing.T) {
	s := NewSecret()
	line := s.Line()
	if len(line) != 65 || line[64] != '\n' || s == NewSecret() {
		t.Fatalf("line has %d bytes", len(line))
	}
	for _, text := range []string{line, line[:64], strings.ToUpper(line)} {
		if got, err := ParseSecret(text); err != nil || got != s {
			t.Errorf("secret did not come back: %v", err)
		}
	}
	r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(line + "10.0.0.1:5\n")))
	if got, err := ReadSecret(r); err != nil || got != s {
		t.Errorf("secret was not read: %v", err)
	}
	if rest, err := r.ReadString('\n'); err != nil || rest != "10.0.0.1:5\n" {
		t.Errorf("after the secret: %q, %v", rest, err)
	}
}

// No error shows what may be a secret, nor does a secret that gets into a log.
func TestSecretHidden(t *testing.T) {
	good := NewSecret().Line()
	for text, want := range map[string]string{
		"":                             "secret has 0 characters, want 64",
		good[:63]:                      "secret has 63 characters, want 64",
		good[:64] + "a":                "secret has 65 characters, want 64",
		good[:63] + "g":                "characters other than hexadecimal digits",
		good[:30] + "\n" + good[31:64]: "characters other than hexadecimal digits",
	} {
		if _, err := ParseSecret(text); err == nil || !strings.Contains(err.Error(), want) || shows(err.Error(), good) {
			t.Errorf("%d characters: %v, want %q", len(text), err, want)
		}
	}
	for text, want := range map[string]string{
		"":                       "input ends after 0 characters",
		good[:64]:                "input ends after 64 characters",
		"\n":                     "secret has 0 characters",
		good[:64] + good:         "line has more than 64 characters",
		strings.Repeat("q", 1e6): "line has more than 64 characters",
	} {
		if _, err := ReadSecret(bufio.NewReader(strings.NewReader(text))); err == nil || !strings.Contains(err.Error(), want) || shows(err.Error(), good) {
			t.Errorf("%d characters: %v, want %q", len(text), err, want)
		}
	}
	broken := errors.New("broken pipe")
	if _, err := ReadSecret(bufio.NewReader(iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
	s, err := ParseSecret(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		for _, v := range []any{s, &s, struct{ S Secret }{s}, DialConfig{Secret: s}} {
			if text := fmt.Sprintf(format, v); shows(text, good) || strings.Contains(text, fmt.Sprint(s[0], s[1], s[2])) {
				t.Errorf("%s of %T shows it", format, v)
			}
		}
	}
}

// shows reports whether a text has a part of a secret's line.
func shows(text, line string) bool {
	for i := 0; i+6 <= 64; i++ {
		if strings.Contains(text, line[i:i+6]) {
			return true
		}
	}
	return false
}
