package wire

import "testing"

// An accusation comes out as it went in.
func TestAccusation(t *testing.T) {
	in := Accusation{Inc: 7, Reason: 3, Proven: true}
	body := in.Append(nil)
	var out Accusation
	if err := out.Parse(body); err != nil || out != in {
		t.Errorf("%+v comes out as %+v, %v", in, out, err)
	}
	for n := range body {
		if err := out.Parse(body[:n]); err == nil {
			t.Errorf("the first %d bytes of %d are taken", n, len(body))
		}
	}
}
