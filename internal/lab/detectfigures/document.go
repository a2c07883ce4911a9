package detectfigures

import (
	"fmt"
	"os"
	"strings"
)

// A document holds the latest table of each figure between two markers. What stands outside of them is written by hand.

// markers returns the lines around the table of a figure.
func markers(figure string) (begin, end string) {
	return fmt.Sprintf("<!-- detect-figures %s: begin -->\n", figure), fmt.Sprintf("<!-- detect-figures %s: end -->\n", figure)
}

// cutDocument returns what stands before and behind the table of a figure, with the markers.
func cutDocument(name, doc, figure string) (head, tail string, err error) {
	begin, end := markers(figure)
	head, rest, found := strings.Cut(doc, begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", "", fmt.Errorf("--doc: %s lacks the lines %q and %q, want them around the table of figure %s", name, strings.TrimSpace(begin), strings.TrimSpace(end), figure)
	}
	return head + begin, end + tail, nil
}

// checkDocument returns an error unless the document has the markers of all figures that are made.
func (o *Options) checkDocument() error {
	doc, err := os.ReadFile(o.Doc)
	if err != nil {
		return fmt.Errorf("--doc: %w", err)
	}
	for _, s := range o.specs() {
		if _, _, err := cutDocument(o.Doc, string(doc), s.name); err != nil {
			return err
		}
	}
	return nil
}

// UpdateDocument puts the tables of a report into a document.
func (r *Report) UpdateDocument(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	doc := string(text)
	for _, f := range r.Figures {
		head, tail, err := cutDocument(name, doc, f.Name)
		if err != nil {
			return err
		}
		doc = head + "\n" + r.markdown(f) + "\n" + tail
	}
	return os.WriteFile(name, []byte(doc), 0o666)
}

// markdown returns the table of a figure as a document has it.
func (r *Report) markdown(f *Figure) string {
	var b strings.Builder
	for i, row := range f.Table() {
		if i == 0 {
			for k := range row {
				row[k] = strings.ToLower(row[k])
				row[k] = strings.Replace(row[k], "pes", "PEs", 1)
			}
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	b.WriteString("\n")
	for _, line := range append(f.Notes(), r.Conditions()) {
		b.WriteString(wrap("- " + line))
	}
	return b.String()
}

// Conditions says on what machine the report was made.
func (r *Report) Conditions() string {
	return fmt.Sprintf("median (least to most); seed %d, %d processors, load %s before, %s after", r.Seed, r.CPUs, r.Load[0], r.Load[1])
}

// docWidth is the most characters of a line in a document.
const docWidth = 118

// wrap returns an item of a list in lines.
func wrap(item string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(item) {
		switch {
		case i == 0:
		case width+1+len(word) > docWidth:
			b.WriteString("\n  ")
			width = 2
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String() + "\n"
}
