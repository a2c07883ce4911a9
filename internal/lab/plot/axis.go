package plot

import (
	"fmt"
	"math"
	"strconv"
)

// scale maps the values of an axis, from low to high, to places on the picture.
type scale struct {
	log       bool
	low, high float64
	from, to  float64 // the places of low and high
}

// place returns where v stands.
func (s *scale) place(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// include widens the axis, if need be, so that v is on it.
func (s *scale) include(v float64) { s.low, s.high = min(s.low, v), max(s.high, v) }

// pad widens the axis at its lower and upper end by parts of its length.
func (s *scale) pad(below, above float64) {
	if s.log {
		ratio := s.high / s.low
		s.low, s.high = s.low/math.Pow(ratio, below), s.high*math.Pow(ratio, above)
		return
	}
	length := s.high - s.low
	s.low, s.high = s.low-below*length, s.high+above*length
}

// scales returns the axes that hold all series.
func (f *Figure) scales() (x, y scale) {
	x = scale{log: f.LogX, low: math.Inf(1), high: math.Inf(-1)}
	y = scale{log: f.LogY, low: math.Inf(1), high: math.Inf(-1)}
	half := 0.0 // of the width of what stands at a value of X
	for _, s := range f.Series {
		for i := range s.X {
			x.include(s.X[i])
			y.include(s.Y[i])
			if s.Low != nil {
				y.include(s.Low[i])
				y.include(s.High[i])
			}
		}
		if s.Style == Bars {
			half = 0.5
		}
	}
	x.low, x.high = x.low-half, x.high+half
	if f.Names != nil {
		x.low, x.high = -0.5, float64(len(f.Names))-0.5
	}
	if !f.LogY {
		y.include(0)
	}
	x.spread()
	y.spread()
	switch {
	case f.LogY:
		y.pad(0.05, 0.05)
	case y.low < 0:
		y.pad(0.05, 0.05)
	default:
		y.pad(0, 0.05) // bars stand on 0
	}
	return x, y
}

// spread gives an axis of a single value a length.
func (s *scale) spread() {
	if s.high > s.low {
		return
	}
	switch {
	case s.log:
		s.low, s.high = s.low/2, s.high*2
	case s.low == 0: // of counts, mostly
		s.high = 1
	default:
		s.low, s.high = s.low-0.5, s.high+0.5
	}
}

// tick is a mark on an axis. One without a label is short.
type tick struct {
	value float64
	label string
}

// linear marks an axis at multiples of 1, 2 or 5 times a power of ten: three to seven of them have labels, with
// shorter marks between these.
func linear(low, high float64) (ticks []tick) {
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / 3))))
	parts := 5.0
	for _, m := range []float64{5, 2} {
		if (high-low)/(m*step) >= 3 {
			step *= m
			if m == 2 {
				parts = 4
			}
			break
		}
	}
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	small := step / parts
	for i := math.Ceil(low/small - 1e-9); i*small <= high+small*1e-9; i++ {
		t := tick{value: i * small}
		if math.Mod(i, parts) == 0 {
			t.label = strconv.FormatFloat(t.value+0, 'f', digits, 64) // + 0: no sign of -0
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// decades marks a logarithmic axis at powers of ten and, where fewer than two of
// them are in sight, at their multiples, too.
func decades(low, high float64) (ticks []tick) {
	add := func(v float64, label string) {
		if v >= low && v <= high {
			ticks = append(ticks, tick{v, label})
		}
	}
	labels := 0
	for e := int(math.Floor(math.Log10(low) + 1e-9)); math.Pow10(e) <= high; e++ {
		decade := math.Pow10(e)
		add(decade, strconv.FormatFloat(decade, 'g', -1, 64))
		if decade >= low {
			labels++
		}
		for i := 2; i < 10; i++ {
			add(decade*float64(i), "")
		}
	}
	if labels < 2 && high < 2*low { // within one step of a multiple
		return linear(low, high)
	}
	for i := range ticks {
		if labels < 2 && ticks[i].label == "" && (high < 10*low || isHalfOrFifth(ticks[i].value)) {
			ticks[i].label = strconv.FormatFloat(ticks[i].value, 'g', 3, 64)
		}
	}
	return ticks
}

// isHalfOrFifth says whether v is 2 or 5 times a power of ten. Labels of all multiples would overlap on an axis of more than
// a decade.
func isHalfOrFifth(v float64) bool {
	m := v / math.Pow10(int(math.Floor(math.Log10(v)+1e-9)))
	return math.Abs(m-2) < 1e-6 || math.Abs(m-5) < 1e-6
}

// powers marks a logarithmic axis at powers of two.
func powers(low, high float64) (ticks []tick) {
	for e := math.Ceil(math.Log2(low) - 1e-9); math.Exp2(e) <= high*(1+1e-9); e++ {
		ticks = append(ticks, tick{math.Exp2(e), Power(math.Exp2(e))})
	}
	if len(ticks) < 2 {
		return linear(low, high)
	}
	return ticks
}

// xTicks returns the marks of the horizontal axis.
func (f *Figure) xTicks(x *scale) (ticks []tick) {
	switch {
	case f.Names != nil:
		for i, name := range f.Names {
			ticks = append(ticks, tick{float64(i), name})
		}
	case f.LogX:
		ticks = powers(x.low, x.high)
	default:
		ticks = linear(x.low, x.high)
	}
	return ticks
}

// yTicks returns the marks of the vertical axis.
func (f *Figure) yTicks(y *scale) []tick {
	if f.LogY {
		return decades(y.low, y.high)
	}
	return linear(y.low, y.high)
}

// Power is a number of things with the letters that the papers use: 1K is 1024.
func Power(v float64) string {
	switch {
	case v >= 1<<20 && math.Mod(v, 1<<20) == 0:
		return fmt.Sprintf("%.0fM", v/(1<<20))
	case v >= 1<<10 && math.Mod(v, 1<<10) == 0:
		return fmt.Sprintf("%.0fK", v/(1<<10))
	}
	return fmt.Sprintf("%g", v)
}
