package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goshmem/goshmem/coll/tree"
)

// What oshrun tune has measured is in a file of the user, from which jobs of several nodes read it:
//
//	$XDG_CONFIG_HOME/goshmem/tune.json, or ~/.config/goshmem/tune.json
//
// Each network has an entry of its own: emulated nodes are no model of hosts.

// tunedFile is the file.
type tunedFile struct {
	Networks map[string]tuned `json:"networks"`
}

// tuned is what was measured of a network.
type tuned struct {
	Latency  int       `json:"latency_ns"`
	Overhead int       `json:"overhead_ns"`
	Measured time.Time `json:"measured"`
}

const (
	maxTunedFile = 1 << 20
	mostTuned    = int(time.Minute) // beyond it no network is of use, and sums could overflow
)

// networkName returns the name of the network of the job's nodes, in the file.
func (f *nodeFlags) networkName() string {
	name := []string{"hosts"}
	switch {
	case f.isApart():
		name[0] = "emulated:" + networks
	case f.isEmulated():
		name[0] = "emulated"
	}
	if f.network != "" {
		name = append(name, f.network)
	}
	if f.control == controlStdio {
		name = append(name, controlStdio)
	}
	return strings.Join(name, " ")
}

// tunedName returns the name of the file.
func tunedName() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "goshmem", "tune.json"), nil
}

// readTuned returns L and o of a network; false: they were not measured.
func readTuned(network string) (p tree.LogP, known bool, err error) {
	var file tunedFile
	if name, err := tunedName(); err == nil { // without a home there is no file
		if file, err = readTunedFile(name); err != nil {
			return p, false, err
		}
	}
	t, known := file.Networks[network]
	return tree.LogP{Latency: t.Latency, Overhead: t.Overhead}, known, nil
}

// readTunedFile reads the file, and checks all of it. It is empty if it does not exist.
func readTunedFile(name string) (f tunedFile, err error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxTunedFile+1))
	if err == nil && len(text) > maxTunedFile {
		err = fmt.Errorf("%s is longer than %d bytes, want what oshrun tune has written", name, maxTunedFile)
	}
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return tunedFile{}, fmt.Errorf("%s: %w, want what oshrun tune has written", name, err)
	}
	for network, t := range f.Networks {
		if t.Latency < 0 || t.Latency > mostTuned || t.Overhead < 1 || t.Overhead > mostTuned {
			return tunedFile{}, fmt.Errorf("%s: %q: latency_ns %d, overhead_ns %d, want 0 and 1 to %d", name, network, t.Latency, t.Overhead, mostTuned)
		}
	}
	return f, nil
}

// storeTuned stores what was measured of a network, and returns the name of the file. Another oshrun that reads the file
// meanwhile finds all of the old one or all of the new one.
func storeTuned(network string, t tuned) (name string, err error) {
	if name, err = tunedName(); err != nil {
		return "", err
	}
	f, err := readTunedFile(name)
	if err != nil {
		return "", err
	}
	if f.Networks == nil {
		f.Networks = map[string]tuned{}
	}
	f.Networks[network] = t
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(filepath.Dir(name), "tune.*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return name, nil
}
