package crdt

// decoder is a Value that can be read.
type decoder interface {
	Value
	Decode(b []byte) error
}

// New returns an empty value of a kind, in the instantiation that Decode gives. It
// fails with *KindError for an unknown kind.
func New(kind Kind) (Value, error) {
	if v := blank(kind); v != nil {
		return v, nil
	}
	return nil, &KindError{Want: kind}
}

func blank(kind Kind) decoder {
	switch kind {
	case KindGCounter:
		return &GCounter{}
	case KindPNCounter:
		return &PNCounter{}
	case KindGSet:
		return &GSet[string]{}
	case KindFlag:
		return &Flag{}
	case KindLWWRegister:
		return &LWWRegister[string]{}
	case KindMVRegister:
		return &MVRegister[string]{}
	case KindORSet:
		return &ORSet[string]{}
	case KindLWWMap:
		return &LWWMap[string, string]{}
	case KindORMap:
		return &ORMap[string, string]{}
	case KindORMultiMap:
		return &ORMultiMap[string, string]{}
	case KindPNCounterMap:
		return &PNCounterMap[string]{}
	case KindVersionVector:
		return &VersionVector{}
	}
	return nil
}

// Decode reads a value that Append wrote, without knowing the caller's types: it
// gives ORSet[string], LWWMap[string, string] and so on, of which the strings are
// whatever the caller's codec made. Nothing in the value aliases b. It never
// panics, whatever b holds, and allocates at most a small multiple of len(b). The
// errors are ErrTruncated, ErrMalformed, *LimitError and *KindError.
func Decode(kind Kind, b []byte) (Value, error) {
	v := blank(kind)
	if v == nil {
		return nil, &KindError{Want: kind}
	}
	if err := v.Decode(b); err != nil {
		return nil, err
	}
	return v, nil
}
