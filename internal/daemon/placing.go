package daemon

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// Placing says on which hosts the PEs of a program run, in the words of the request. An empty word says nothing.
type Placing struct {
	Hosts    string      // as oshrun --host
	More     string      // likewise: hosts that the job may not have yet
	File     PlacingFile // as oshrun --hostfile
	MoreFile PlacingFile // likewise: hosts that the job may not have yet
	MapBy    string      // as oshrun --map-by
	RankBy   string      // as oshrun --rank-by
}

// PlacingFile is a file of hosts, as the spawner's node has read it.
type PlacingFile struct {
	Name string // as the request has it; empty: there is none
	Text string
}

// mostHostfile bounds what is read of a file of hosts: some ten thousand lines.
const mostHostfile = 1 << 20

// placingOf returns what PMIx directives say about hosts. The last one of a key counts. Files are named only.
func placingOf(infos []pmix.Info) (p Placing) {
	for _, info := range infos {
		text, _ := info.Value.Str() // empty if it is no text
		switch info.Key {
		case pmix.KeyHost:
			p.Hosts = text
		case pmix.KeyAddHost:
			p.More = text
		case pmix.KeyHostfile:
			p.File.Name = text
		case pmix.KeyAddHostfile:
			p.MoreFile.Name = text
		case pmix.KeyMapBy:
			p.MapBy = text
		case pmix.KeyPPR:
			if many, isNode := strings.CutSuffix(text, ":n"); isNode { // as Open MPI writes its npernode
				text = many + ":node"
			}
			p.MapBy = "ppr:" + text
		case pmix.KeyRankBy:
			p.RankBy = text
		}
	}
	return p
}

// readFiles reads the files of hosts, whose names are seen from a directory.
func (p *Placing) readFiles(dir string) error {
	for _, f := range []*PlacingFile{&p.File, &p.MoreFile} {
		if f.Name == "" {
			continue
		}
		if err := f.read(dir); err != nil {
			return fmt.Errorf("hostfile %q: %w", f.Name, err)
		}
	}
	return nil
}

func (f *PlacingFile) read(dir string) error {
	path := f.Name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file, want a file with a host on each line", path) // reading might never end
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, mostHostfile+1))
	if err == nil && len(text) > mostHostfile {
		err = fmt.Errorf("longer than %d bytes, which is the most that oshrun reads", mostHostfile)
	}
	f.Text = string(text)
	return err
}
