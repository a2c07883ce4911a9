package graph500

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
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

// version is that of the module, with the revision where the build recorded one.
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

// checkReport makes sure, before the run costs time, that the report can be created where it is wanted.
func checkReport(name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("--json: %s is a folder, want a file name; hint: --json %s", name, filepath.Join(name, "graph500.json"))
	}
	temp, err := createBeside(name)
	if err == nil {
		err = errors.Join(temp.Close(), os.Remove(temp.Name()))
	}
	if err != nil {
		return fmt.Errorf("--json: %s, want a file that can be created: %w; hint: choose a folder that exists and is writable", name, err)
	}
	return nil
}

// createBeside creates a temporary file in the folder of name, to be renamed: a reader sees the old report or
// the whole new one.
func createBeside(name string) (*os.File, error) {
	temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, path.Err // the temporary name means nothing to the user
	}
	return temp, err
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
	temp, err := createBeside(name)
	if err != nil {
		return err
	}
	_, err = temp.Write(append(raw, '\n'))
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp.Name()))
	}
	return err
}
