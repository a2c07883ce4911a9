package ftcobench

import "fmt"

// The numbers that PEs reduce. Their sums are exact in any order, as all are integers below 2^53: weight is below 2^34, and
// there are at most 1024 PEs. Each element of a sum shows which PEs' numbers are in it, but for chance.

// stripes is how many multiples of its weight a PE contributes.
const stripes = 16

// weight returns a number that stands for a PE: its own number, mixed (splitmix64), 34 bits of it.
func weight(pe int) uint64 {
	z := (uint64(pe) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return (z ^ z>>31) >> 30
}

// value returns element i of the sum over n PEs whose weights add up to sum.
func value(sum uint64, n, i int) float64 { return float64(sum*uint64(1+i%stripes) + uint64(n*i)) }

// fill writes what a PE contributes.
func fill(data []float64, pe int) {
	for i := range data {
		data[i] = value(weight(pe), 1, i)
	}
}

// check compares the destination with the sum over the contributors. It returns what is wrong, or "".
func (p *pe) check(contributors []int) string { return checkSum(p.dst.Local(), contributors) }

// checkSum returns which element of data is not the sum over the contributors, or "" if all are.
func checkSum(data []float64, contributors []int) string {
	sum := uint64(0)
	for _, q := range contributors {
		sum += weight(q)
	}
	for i, got := range data {
		if want := value(sum, len(contributors), i); got != want {
			return fmt.Sprintf("element %d is %.0f, want %.0f, the sum over PEs %v", i, got, want, contributors)
		}
	}
	return ""
}
