package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// report is the result of a run.
type report struct {
	Command string   `json:"command"`
	Machine state    `json:"machine"`
	Rounds  int      `json:"rounds"`
	Peers   []string `json:"peers"` // versions, or why a peer is missing
	Lines   []line   `json:"lines"`
	Values  values   `json:"values"`
	Base    values   `json:"base,omitempty"` // values of the other version, by --base
}

func (r *report) misses() (n int) {
	for _, l := range r.Lines {
		if l.Verdict == verdictMiss {
			n++
		}
	}
	return n
}

func (r *report) writeJSON(name string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(raw, '\n'), 0o644)
}

// markdown returns the report as Markdown.
func (r *report) markdown() string {
	var b bytes.Buffer
	writeParagraph(&b, fmt.Sprintf("Command: `%s`, %d rounds (graph500: at most %d).", r.Command, r.Rounds, graph500.rounds))
	writeParagraph(&b, fmt.Sprintf("Machine: %s.", r.Machine))
	writeParagraph(&b, fmt.Sprintf("Peers: %s.", strings.Join(r.Peers, "; ")))
	table := [][]string{{"row", "unit", "goshmem", "min..max", "peer", "median", "min..max", "ratio", "bound", ""}}
	for _, l := range r.Lines {
		row := []string{l.Row, l.Unit, l.Ours.String(), l.Ours.spread(), l.Peer, "", "", "", l.Bound, l.Verdict}
		if l.Ratio > 0 {
			row[5], row[6], row[7] = l.Theirs.String(), l.Theirs.spread(), number(l.Ratio)
		}
		table = append(table, row)
	}
	writeTable(&b, table)
	return b.String()
}

// paragraphWidth is the most characters of a line that writeParagraph writes, unless one word has more.
const paragraphWidth = 120

// writeParagraph writes a text in lines, and an empty line behind it.
func writeParagraph(b *bytes.Buffer, text string) {
	at := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case at+1+n > paragraphWidth:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteString("\n\n")
}

// writeTable writes rows in columns as wide as their widest cell.
func writeTable(b *bytes.Buffer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell), 3)
		}
	}
	for n, r := range rows {
		for i, cell := range r {
			fmt.Fprintf(b, "| %-*s ", width[i], cell)
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, w := range width {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
}

// The markers between which a document holds the latest report.
const (
	sectionBegin = "<!-- bench-check: begin -->\n"
	sectionEnd   = "<!-- bench-check: end -->\n"
)

// replaceSection puts text between the markers of a document.
func replaceSection(name, text string) error {
	doc, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(doc), sectionBegin)
	_, tail, ended := strings.Cut(rest, sectionEnd)
	if !ok || !ended {
		return fmt.Errorf("--doc: %s lacks its markers, want a file with the lines %q and %q", name, strings.TrimSpace(sectionBegin), strings.TrimSpace(sectionEnd))
	}
	return os.WriteFile(name, []byte(head+sectionBegin+"\n"+text+"\n"+sectionEnd+tail), 0o644)
}
