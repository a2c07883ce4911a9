package envvar

// Origin says where the value of a Setting comes from.
type Origin string

// The origins of a value.
const (
	FromDefault     Origin = "default"
	FromEnvironment Origin = "environment"
	FromAlias       Origin = "deprecated alias"
	FromOshrun      Origin = "set by oshrun"
)

// Setting is one variable with the value in effect.
type Setting struct {
	Name   string
	Value  string // as spelled at its origin
	Origin Origin
	SetBy  Setter
	Doc    string
	Err    error // a *ValueError if the value is invalid
}

// Effective returns one Setting for each variable of the table, in its order.
func Effective(lookup Lookup) []Setting {
	out := make([]Setting, 0, len(table))
	for i := range table {
		v := &table[i]
		s := Setting{Name: v.Name, Value: v.Default, Origin: FromDefault, SetBy: v.SetBy, Doc: v.Doc}
		if value, name, ok := get(lookup, v); ok {
			s.Value, s.Origin = value, origin(v, name)
			if v.check != nil {
				s.Err = setName(name, v.check(value))
			}
		}
		out = append(out, s)
	}
	return out
}

// origin returns the origin of a value found under name. A variable that both the user and oshrun may set
// counts as the user's, because the environment does not say who set it.
func origin(v *Var, name string) Origin {
	switch {
	case name == v.Alias:
		return FromAlias
	case v.SetBy == Oshrun:
		return FromOshrun
	default:
		return FromEnvironment
	}
}
