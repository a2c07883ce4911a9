package graph500

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
)

// report is the JSON form of a result: the run, each search, and the statistics under the names of the
// specification. The names are stable.
type report struct {
	Version      string   `json:"version"`
	Options      string   `json:"options"`
	Scale        int      `json:"scale"`
	EdgeFactor   int      `json:"edgefactor"`
	NBFS         int      `json:"nbfs"`
	PEs          int      `json:"pes"`
	Nodes        int      `json:"nodes"`
	Generation   float64  `json:"generation_s"`
	Construction float64  `json:"construction_s"`
	MaxRSS       []uint64 `json:"max_rss_bytes"` // by PE

	TimeMin    float64 `json:"bfs_min_time"`
	TimeFirst  float64 `json:"bfs_firstquartile_time"`
	TimeMedian float64 `json:"bfs_median_time"`
	TimeThird  float64 `json:"bfs_thirdquartile_time"`
	TimeMax    float64 `json:"bfs_max_time"`
	TimeMean   float64 `json:"bfs_mean_time"`
	TimeStdDev float64 `json:"bfs_stddev_time"`

	EdgesMin    float64 `json:"bfs_min_nedge"`
	EdgesFirst  float64 `json:"bfs_firstquartile_nedge"`
	EdgesMedian float64 `json:"bfs_median_nedge"`
	EdgesThird  float64 `json:"bfs_thirdquartile_nedge"`
	EdgesMax    float64 `json:"bfs_max_nedge"`
	EdgesMean   float64 `json:"bfs_mean_nedge"`
	EdgesStdDev float64 `json:"bfs_stddev_nedge"`

	RateMin      float64 `json:"bfs_min_TEPS"`
	RateFirst    float64 `json:"bfs_firstquartile_TEPS"`
	RateMedian   float64 `json:"bfs_median_TEPS"`
	RateThird    float64 `json:"bfs_thirdquartile_TEPS"`
	RateMax      float64 `json:"bfs_max_TEPS"`
	RateHarmonic float64 `json:"bfs_harmonic_mean_TEPS"`
	RateStdDev   float64 `json:"bfs_harmonic_stddev_TEPS"`

	ValidateMin    float64 `json:"bfs_min_validate"`
	ValidateFirst  float64 `json:"bfs_firstquartile_validate"`
	ValidateMedian float64 `json:"bfs_median_validate"`
	ValidateThird  float64 `json:"bfs_thirdquartile_validate"`
	ValidateMax    float64 `json:"bfs_max_validate"`
	ValidateMean   float64 `json:"bfs_mean_validate"`
	ValidateStdDev float64 `json:"bfs_stddev_validate"`

	Searches []Search `json:"searches"`
}

// MarshalJSON writes the result as the report.
func (r *Result) MarshalJSON() ([]byte, error) {
	q := r.quantities()
	t, e, v := q.time, q.nedge, q.validate
	return json.Marshal(report{
		Version: version(), Options: r.Options.String(),
		Scale: r.Options.Scale, EdgeFactor: r.Options.EdgeFactor, NBFS: len(r.Searches),
		PEs: r.PEs, Nodes: r.Nodes, MaxRSS: r.PeakResident,
		Generation: r.GenerationSeconds, Construction: r.ConstructionSeconds,

		TimeMin: t.Min, TimeFirst: t.FirstQuartile, TimeMedian: t.Median, TimeThird: t.ThirdQuartile,
		TimeMax: t.Max, TimeMean: t.Mean, TimeStdDev: t.StdDev,
		EdgesMin: e.Min, EdgesFirst: e.FirstQuartile, EdgesMedian: e.Median, EdgesThird: e.ThirdQuartile,
		EdgesMax: e.Max, EdgesMean: e.Mean, EdgesStdDev: e.StdDev,
		RateMin: q.teps.Min, RateFirst: q.teps.FirstQuartile, RateMedian: q.teps.Median, RateThird: q.teps.ThirdQuartile,
		RateMax: q.teps.Max, RateHarmonic: q.teps.HarmonicMean, RateStdDev: q.teps.HarmonicStdDev,
		ValidateMin: v.Min, ValidateFirst: v.FirstQuartile, ValidateMedian: v.Median, ValidateThird: v.ThirdQuartile,
		ValidateMax: v.Max, ValidateMean: v.Mean, ValidateStdDev: v.StdDev,
		Searches: r.Searches,
	})
}

// version returns the version of the module, with the revision if the build has recorded one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return info.Main.Version + " " + s.Value
		}
	}
	return info.Main.Version
}

// checkReport checks, before the run costs time, that the report can be written. It does not open FIFOs and
// devices.
func checkReport(name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("--json: %s is a folder, want a file name; hint: --json %s", name, filepath.Join(name, "graph500.json"))
	}
	to, err := findTarget(name)
	if err == nil && to.inPlace {
		return nil
	}
	if err == nil {
		var temp *os.File
		if temp, err = createBeside(to.path); err == nil {
			err = errors.Join(temp.Close(), os.Remove(temp.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("--json: %s, want a file that can be created or written: %w; hint: choose a folder that exists and is writable", name, err)
	}
	return nil
}

// target is where a report goes. A regular file, which need not exist, is replaced as a whole. Anything else is
// written to in place.
type target struct {
	path    string      // of a file to be replaced, with symbolic links followed
	mode    fs.FileMode // of the file
	inPlace bool
	stream  *os.File // os.Stdout or os.Stderr if the name stands for it, or nil
}

// findTarget finds what name stands for and, if it is a regular file, checks that it may be written to. It does not
// open others before there is a report: the reader of a FIFO would take that for an empty report.
func findTarget(name string) (target, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		path, err := followLinks(name)
		return target{path: path, mode: 0o644}, err
	case err != nil:
		return target{}, withoutName(err)
	}
	for _, stream := range []*os.File{os.Stdout, os.Stderr} {
		if is, err := stream.Stat(); err == nil && os.SameFile(info, is) {
			return target{inPlace: true, stream: stream}, nil
		}
	}
	switch {
	case info.Mode()&fs.ModeSocket != 0:
		return target{}, errors.New("it is a socket")
	case !info.Mode().IsRegular():
		return target{path: name, inPlace: true}, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return target{}, withoutName(err)
	}
	if err := f.Close(); err != nil {
		return target{}, withoutName(err)
	}
	path, err := followLinks(name)
	if err != nil {
		return target{}, err
	}
	if behind, err := os.Stat(path); err != nil || !os.SameFile(info, behind) {
		return target{path: name, inPlace: true}, nil //nolint:nilerr // a link of /proc/self/fd to a file without a name
	}
	return target{path: path, mode: info.Mode().Perm()}, nil
}

// followLinks returns the name behind symbolic links, also if there is no file yet.
func followLinks(name string) (string, error) {
	for range 40 {
		to, err := os.Readlink(name)
		if err != nil {
			return name, nil //nolint:nilerr // no link, or nothing: where the report goes
		}
		if !filepath.IsAbs(to) { // Join would take a/.. out, which is wrong where a is a link
			to = name[:strings.LastIndexByte(name, '/')+1] + to
		}
		name = to
	}
	return "", syscall.ELOOP
}

// withoutName drops the file name from an error. Callers add it.
func withoutName(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// createBeside creates a temporary file in the folder of name, to be renamed to it. So a reader sees the old
// report or the whole new one.
func createBeside(name string) (*os.File, error) {
	folder, base := filepath.Split(name) // Dir would take a/.. out
	temp, err := os.CreateTemp(cmp.Or(folder, "."), "."+base+".*")
	return temp, withoutName(err) // the temporary name means nothing to the user
}

// writeReport writes the report under its name.
func (r *Result) writeReport(name string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("--json: writing %s: %w", name, err)
		}
	}()
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	to, err := findTarget(name)
	if err != nil {
		return err
	}
	return to.write(append(raw, '\n'))
}

// write writes the report.
func (to target) write(raw []byte) error {
	switch {
	case to.stream != nil:
		_, err := to.stream.Write(raw)
		return withoutName(err)
	case to.inPlace:
		f, err := os.OpenFile(to.path, os.O_WRONLY|os.O_TRUNC, 0) // waits for the reader of a FIFO
		if err != nil {
			return withoutName(err)
		}
		_, err = f.Write(raw)
		return errors.Join(withoutName(err), withoutName(f.Close()))
	}
	temp, err := createBeside(to.path)
	if err != nil {
		return err
	}
	_, err = temp.Write(raw)
	err = errors.Join(err, temp.Chmod(to.mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), to.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp.Name()))
	}
	return err
}
