package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

// docWidth is the most characters that a line of a document may have.
const docWidth = 120

// checkWidth: no line of a document is too long. Tables, code and links cannot be wrapped, so they may be longer.
func checkWidth(name, doc string) (bad []string) {
	fenced := false
	for i, line := range strings.Split(doc, "\n") {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, "```") {
			fenced = !fenced
		}
		indented := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
		if fenced || indented || strings.HasPrefix(text, "|") || !strings.Contains(text, " ") {
			continue
		}
		if n := utf8.RuneCountInString(line); n > docWidth {
			bad = append(bad, fmt.Sprintf("%s:%d: %d characters, want at most %d", name, i+1, n, docWidth))
		}
	}
	return bad
}

func TestWidthOfDocs(t *testing.T) {
	root := os.DirFS("../../..")
	seen := 0
	for _, dir := range []string{".", "docs"} {
		files, err := fs.ReadDir(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := path.Join(dir, f.Name())
			if path.Ext(name) != ".md" {
				continue
			}
			doc, err := fs.ReadFile(root, name)
			if err != nil {
				t.Fatal(err)
			}
			report(t, checkWidth(name, string(doc)))
			seen++
		}
	}
	if seen < 10 {
		t.Errorf("%d documents found, want at least 10", seen)
	}
}

func TestCheckWidth(t *testing.T) {
	long := strings.Repeat("word ", docWidth/5) + "x"
	if bad := checkWidth("a.md", "short\n"+long+"\n"); len(bad) != 1 || !strings.HasPrefix(bad[0], "a.md:2:") {
		t.Errorf("a long line: %q, want one violation in line 2", bad)
	}
	for what, doc := range map[string]string{
		"a table":       "| " + long + " |",
		"indented code": "    " + long,
		"fenced code":   "```\n" + long + "\n```",
		"a link":        "[x](" + strings.Repeat("y", docWidth) + ")",
	} {
		if bad := checkWidth("a.md", doc); len(bad) != 0 {
			t.Errorf("%s: %q, want no violation", what, bad)
		}
	}
}
