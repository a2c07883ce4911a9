package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Commands are divided as a shell divides them.
func TestSplitWords(t *testing.T) {
	for _, text := range []string{
		"", "  ", "ssh", " ip  netns\texec {host} ", `sh -c 'exec "$@"' sh`, `a\ b c\'d \\`, `"a b"c'd e'"" '' ""`,
		`"\"\\\$\` + "`" + `\n\a"`, `'\'x`, `"'" '"'`, `"\\" b`, `docker exec -i -e "A=b c" {host}`, `ü "ö 中"`, `a"\\"b"c d"`,
	} {
		got, err := splitWords(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		out, err := exec.Command("sh", "-c", "for w in "+strings.TrimSpace(text)+`; do printf '%s\0' "$w"; done`).Output()
		check(t, err)
		want := strings.Split(string(out), "\x00")
		if want = want[:len(want)-1]; !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got, err := splitWords("a\nb"); err != nil || len(got) != 2 {
		t.Errorf("two lines: got %q, %v, want two words", got, err)
	}
	for text, want := range map[string]string{
		`sh -c 'exec`: "no quote closes 'exec", `a "b\" c`: `no quote closes "b\" c`, `a b\`: "a backslash at the end", `"`: `no quote closes "`, `"\`: `no quote closes "\`,
	} {
		if got, err := splitWords(text); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want an error with %q", text, got, err, want)
		}
	}
}
