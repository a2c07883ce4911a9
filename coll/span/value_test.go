package span

import (
	"reflect"
	"slices"
	"testing"
)

// A value that was sent may be sent again, so it does not change when it is combined.
func TestCombineKeepsOperands(t *testing.T) {
	p := &Part{cfg: Config{Fold: addBytes}}
	value := func(data []byte, list ...Exception) *Value { return &Value{Data: data, Without: slices.Grow(list, 8)} }
	for _, c := range []struct{ acc, in, want *Value }{
		{value([]byte{1}), value([]byte{2}), value([]byte{3})},
		{value(nil, Exception{1, 0, Died}), value([]byte{2}), value([]byte{2}, Exception{1, 0, Died})},
		{value([]byte{1}), value(nil, Exception{1, 0, Died}), value([]byte{1}, Exception{1, 0, Died})},
		{value([]byte{}, Exception{2, 0, Died}), value(nil, Exception{1, 0, Died}), value([]byte{}, Exception{1, 0, Died}, Exception{2, 0, Died})},
		{value(nil, Exception{1, 1, Died}), value(nil, Exception{1, 0, Died}), value(nil, Exception{1, 0, Died}, Exception{1, 1, Died})},
	} {
		operands := []*Value{c.acc, c.in}
		var before []Value
		for _, v := range operands {
			before = append(before, Value{slices.Clone(v.Data), slices.Clone(v.Without[:cap(v.Without)])})
		}
		got := p.combine(c.acc, c.in)
		if string(got.appendState(nil)) != string(c.want.appendState(nil)) {
			t.Errorf("%+v and %+v are %+v, want %+v", *c.acc, *c.in, *got, *c.want)
		}
		for i, v := range operands {
			if now := (Value{v.Data, v.Without[:cap(v.Without)]}); !reflect.DeepEqual(now, before[i]) {
				t.Errorf("operand %d was %+v, is %+v", i, before[i], now)
			}
		}
	}
}
